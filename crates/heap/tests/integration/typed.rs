//! Typed values.
#![cfg(not(cedrat_shuttle))]

use cedrat_heap::*;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Plain)]
#[plain(crate = "cedrat_heap")]
enum Color {
    Red,
    Green,
    Blue,
}

#[derive(Clone, Copy, Debug, PartialEq, Plain)]
#[plain(crate = "cedrat_heap")]
struct Point(f64, f32);

/// A struct that references others of its own type.
#[derive(Clone, Debug, PartialEq, Plain)]
#[plain(crate = "cedrat_heap")]
struct Node {
    value: i64,
    color: Color,
    corners: [Point; 3],
    next: Option<Handle<Node>>,
    name: Bytes<13>,
}

#[derive(Clone, Debug, PartialEq, Plain)]
#[plain(crate = "cedrat_heap")]
struct Pair<A, B> {
    first: A,
    second: B,
}

fn node(value: i64) -> Node {
    let name = Bytes::text("node").expect("it is short");
    Node { value, color: Color::Green, corners: [Point(0.5, -1.0); 3], next: None, name }
}

fn heap() -> Heap {
    let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
    memory.create_heap("typed", &HeapOptions { chunk_len: 4096, ..HeapOptions::new(1 << 20) }).expect("a heap")
}

fn there_and_back<T: Plain + PartialEq + std::fmt::Debug>(value: &T) {
    let mut words = vec![0; T::WORDS];
    value.to_words(&mut words);
    assert_eq!(T::of_words(&words).as_ref(), Some(value));
}

proptest! {
    #[test]
    fn values_come_back_from_their_words(
        a: (u8, u16, u32, u64), b: (i8, i16, i32, i64), c: (bool, char), d in any::<[u8; 13]>(), e: [(i32, bool); 5],
    ) {
        there_and_back(&a);
        there_and_back(&b);
        there_and_back(&c);
        there_and_back(&Bytes(d));
        there_and_back(&e);
        there_and_back(&Pair { first: e, second: (a, b) });
        there_and_back(&Node { next: Handle::at_offset(a.3), ..node(b.3) });
    }

    /// Words that are not a value are reported as an error, and nothing panics.
    #[test]
    fn any_words_are_a_value_or_none(words in any::<[u64; 40]>()) {
        fn try_it<T: Plain>(words: &[u64]) {
            if let Some(value) = T::of_words(&words[..T::WORDS]) {
                let mut again = vec![0; T::WORDS];
                value.to_words(&mut again);
                assert_eq!(&again, &words[..T::WORDS]);
            }
        }
        for words in [words, words.map(|word| word % 3)] {
            try_it::<(u8, i16, bool, char)>(&words);
            try_it::<(f32, f64, i32)>(&words);
            try_it::<Pair<Color, Option<Handle<Node>>>>(&words);
            try_it::<[Color; 9]>(&words);
        }
    }
}

#[test]
fn fields_are_places_of_their_own() {
    let heap = heap();
    let node = heap
        .transaction(|tx| {
            let last = tx.create(node(2))?;
            tx.create(Node { next: Some(last), ..node(1) })
        })
        .unwrap();
    heap.transaction(|tx| {
        tx.set(node.color(), Color::Blue)?;
        tx.update(node.value(), |value| *value *= 10)?;
        tx.set(node.corners().at(1), Point(9.0, 9.0))?;
        let next = tx.get(node.next())?.expect("there is one");
        tx.set(next.color(), Color::Red)
    })
    .unwrap();
    let (first, second) = heap
        .transaction(|tx| {
            let first = tx.get(node)?;
            let second = tx.get(first.next.expect("there is one"))?;
            Ok((first, second))
        })
        .unwrap();
    assert_eq!((first.value, first.color, first.corners[1]), (10, Color::Blue, Point(9.0, 9.0)));
    assert_eq!(first.corners[0], Point(0.5, -1.0));
    assert_eq!(first.name.as_text(), Some("node"));
    assert_eq!(second, Node { color: Color::Red, ..self::node(2) });
    let pair = heap.transaction(|tx| tx.create(Pair { first: 1u8, second: [2u16; 4] })).unwrap();
    assert_eq!(heap.transaction(|tx| tx.get(pair.second().at(3))).unwrap(), 2);
}

#[test]
fn deleted_value_is_refused() {
    let heap = heap();
    let (node, row) = heap.transaction(|tx| Ok((tx.create(node(1))?, tx.create_array(5, |at| at as u8)?))).unwrap();
    assert_eq!(heap.transaction(|tx| tx.array_len(row)).unwrap(), 5);
    for index in [5, 1 << 40, u64::MAX] {
        let found = heap.transaction(|tx| tx.get(row.at(index)));
        assert!(matches!(found, Err(Error::BlockTooShort { .. })), "{found:?}");
    }
    heap.transaction(|tx| {
        tx.delete(node)?;
        tx.delete(row)
    })
    .unwrap();
    let refused = |result: Result<()>| assert!(matches!(result, Err(Error::NotAllocated { .. })), "{result:?}");
    refused(heap.transaction(|tx| tx.get(node).map(drop)));
    refused(heap.transaction(|tx| tx.set(node.value(), 1)));
    refused(heap.transaction(|tx| tx.get(row.at(0)).map(drop)));
    refused(heap.transaction(|tx| tx.delete(row)));
    refused(heap.transaction(|tx| tx.set_root("node", node)));
    refused(heap.transaction(|tx| {
        let fresh = tx.create(7u8)?;
        tx.delete(fresh)?;
        tx.get(fresh).map(drop)
    }));
    let other = Memory::volatile(MemoryOptions::small()).unwrap();
    let elsewhere = other.create_heap("elsewhere", &HeapOptions::new(1 << 20)).unwrap();
    assert!(matches!(heap.atomically(|tx| tx.on(&elsewhere).create(1u8)), Err(Error::Misuse(_))));
}

#[test]
fn invalid_enum_word_is_reported() {
    let heap = heap();
    let color = heap.transaction(|tx| tx.create(Color::Red)).unwrap();
    heap.atomically(|tx| tx.write(&heap, color.offset(), 3)).unwrap();
    let found = heap.transaction(|tx| tx.get(color)).expect_err("three is no color");
    assert!(found.to_string().contains("no Color { Red | Green | Blue } lies there"), "{found}");
}

mod changed {
    use cedrat_heap::{Handle, Plain};

    /// The struct before a field was added.
    #[derive(Plain)]
    #[plain(crate = "cedrat_heap")]
    pub(crate) struct Node {
        pub(crate) value: i64,
        pub(crate) next: Option<Handle<Node>>,
    }
}

#[test]
fn root_opens_only_as_its_type() {
    let heap = heap();
    heap.transaction(|tx| {
        let node = tx.create(node(1))?;
        let row = tx.create_array(3, |_| Color::Red)?;
        tx.set_root("node", node)?;
        tx.set_root("row", row)
    })
    .unwrap();
    let node: Option<Handle<Node>> = heap.transaction(|tx| tx.root("node")).unwrap();
    assert_eq!(heap.transaction(|tx| tx.get(node.unwrap())).unwrap().value, 1);
    assert_eq!(heap.transaction(|tx| tx.root::<Handle<Node>>("other")).unwrap(), None);
    let wrong = |result: Result<()>| assert!(matches!(result, Err(Error::WrongType { .. })), "{result:?}");
    wrong(heap.transaction(|tx| tx.root::<Handle<changed::Node>>("node").map(drop)));
    wrong(heap.transaction(|tx| tx.root::<Handle<i64>>("node").map(drop)));
    wrong(heap.transaction(|tx| tx.root::<Array<u64>>("row").map(drop)));
    wrong(heap.transaction(|tx| tx.root::<Handle<Color>>("row").map(drop)));
    let types: Vec<String> = heap.roots().unwrap().into_iter().map(|root| root.type_name).collect();
    let point = "Point { 0: f64, 1: f32 }";
    let whole = format!(
        "Node {{ value: i64, color: Color {{ Red | Green | Blue }}, corners: [{point}; 3], next: Option<Handle<Node>>, \
         name: Bytes<13> }}"
    );
    assert_eq!(types, [whole, "Array<Color { Red | Green | Blue }>".to_owned()]);
    heap.transaction(|tx| tx.remove_root("row")).unwrap();
    assert!(heap.transaction(|tx| tx.root::<Array<Color>>("row")).unwrap().is_none());
}
