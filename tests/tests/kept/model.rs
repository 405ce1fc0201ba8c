//! Models of the kept stores: what was committed, stated apart from the code under test.

use std::collections::BTreeMap;
use std::fmt::Debug;

use cedrat::graph::{self, Changes, Graph, Mode, Object, Reference, Stage};
use cedrat::pages::{PageId, Slot};
use cedrat::prelude::*;
use cedrat::structures::{Catalogue, Kind, PageList, Records, check_named};

use crate::make::{COLLECTIONS, FILLED, GRAPH, InHeap, InPages, Move, Raise, WIDE, WORDS, collection};

/// Content of one kept store.
pub(crate) trait Model: Default {
    /// Applies the changes of the prepared branch.
    fn commit_branch(&mut self);
    /// Compares all content, and panics at a difference.
    fn compare(&self, store: &Store);
    /// Commits some more changes to model and store.
    fn change(&mut self, store: &Store);
}

/// Verifies every page, structure and heap.
pub(crate) fn check(store: &Store) {
    store.check().expect("sound pages");
    let mut txn = store.begin();
    for named in Catalogue::open(store).expect("a catalogue").list(&mut txn).expect("a sound disk") {
        if let Some(checked) = check_named(&txn, &named).expect("a sound disk") {
            assert!(checked.is_sound(), "{named:?}: {:?}", checked.problems);
        }
    }
    txn.rollback().expect("it has changed nothing");
    // The other heap keeps no account of blocks.
    for heap in store.memory().heaps().iter().filter(|heap| heap.name() != WORDS) {
        heap.verify().expect("sound blocks");
    }
}

fn same<T: PartialEq + Debug>(what: &str, found: T, expected: &T) {
    assert!(found == *expected, "{what}: {found:?} instead of {expected:?}");
}

/// Structures of pages.
pub(crate) struct InStructures {
    table: BTreeMap<u64, String>,
    wide: BTreeMap<String, Vec<u8>>,
    array: Vec<u64>,
    list: Vec<String>,
    page_list: Vec<(u64, String)>,
    /// In the order of their bytes.
    records: Vec<String>,
    stock: u64,
}

impl Default for InStructures {
    fn default() -> InStructures {
        let mut model = InStructures {
            table: BTreeMap::new(),
            wide: BTreeMap::new(),
            array: Vec::new(),
            list: Vec::new(),
            page_list: Vec::new(),
            records: Vec::new(),
            stock: 0,
        };
        model.fill(0..FILLED);
        for number in (0..FILLED).step_by(3) {
            model.table.remove(&number);
            model.array[number as usize] *= 1_000;
        }
        model.table.insert(1, "changed".to_string());
        model.array.pop();
        model.list.insert(2, "inserted".to_string());
        model.list.remove(7);
        model.page_list.remove(5);
        model.page_list[6] = (6, "set".to_string());
        model.records = (0..FILLED)
            .filter(|number| number % 4 != 1)
            .map(|number| format!("record {number}{}", if number % 4 == 0 { " changed" } else { "" }))
            .collect();
        model.stock -= 120;
        model.fill(100..100 + FILLED);
        model
    }
}

impl InStructures {
    fn fill(&mut self, numbers: std::ops::Range<u64>) {
        for number in numbers {
            self.table.insert(number, format!("value {number}"));
            self.wide.insert(format!("wide {number}"), vec![0; WIDE]);
            self.array.push(number);
            self.list.push(format!("element {number}"));
            self.page_list.insert(0, (number, format!("record {number}")));
            self.records.push(format!("record {number}"));
        }
        self.records.sort();
        self.stock += 500;
    }

    fn open(txn: &mut Txn) -> Result<InPages> {
        let store = txn.store().clone();
        let stock: PageId = Catalogue::open(&store)?.expect(txn, "stock", Kind::User(1024), 0)?;
        Ok(InPages {
            table: HashTable::open(txn, "table")?,
            wide: HashTable::open(txn, "wide")?,
            array: ArrayList::open(txn, "array")?,
            list: List::open(txn, "list")?,
            page_list: PageList::open(txn, "page list")?,
            records: Records::open(txn, "records")?,
            stock,
        })
    }
}

impl Model for InStructures {
    fn commit_branch(&mut self) {
        self.table.insert(501, "prepared".to_string());
        self.stock += 7;
    }

    fn compare(&self, store: &Store) {
        let compare = |txn: &mut Txn| {
            let kept = InStructures::open(txn)?;
            same("table", kept.table.iter(txn)?.collect::<Result<_>>()?, &self.table);
            let wide: BTreeMap<String, Vec<u8>> = kept.wide.iter(txn)?.collect::<Result<_>>()?;
            assert!(wide == self.wide, "wide: {:?}", wide.keys());
            same("array", kept.array.iter(txn)?.collect::<Result<_>>()?, &self.array);
            same("list", kept.list.iter(txn)?.collect::<Result<_>>()?, &self.list);
            same("page list", kept.page_list.iter(txn)?.collect::<Result<_>>()?, &self.page_list);
            let records = kept.records.all(txn)?.into_iter().map(|(_, record)| String::from_utf8(record));
            let mut records: Vec<String> = records.collect::<std::result::Result<_, _>>().expect("UTF-8");
            records.sort();
            same("records", records, &self.records);
            for (key, value) in &self.table {
                same("value", kept.table.get(txn, key)?.as_ref(), &Some(value));
            }
            let names: Vec<String> =
                Catalogue::open(&txn.store().clone())?.list(txn)?.into_iter().map(|named| named.name).collect();
            same(
                "names",
                names,
                &["array", "list", "page list", "records", "stock", "table", "wide"].map(String::from).to_vec(),
            );
            let stock = kept.stock;
            Ok(stock)
        };
        let stock = store.transact(compare).expect("a sound disk");
        same("stock", store.read(stock).expect("a sound disk").u64_at(24).expect("within the page"), &self.stock);
    }

    fn change(&mut self, store: &Store) {
        let change = |txn: &mut Txn| {
            let kept = InStructures::open(txn)?;
            kept.fill(txn, 300..320)?;
            kept.table.remove(txn, &2)?;
            kept.list.pop_front(txn)?;
            kept.page_list.pop_front(txn)?;
            for (at, record) in kept.records.all(txn)? {
                if record.ends_with(b" changed") {
                    kept.records.delete(txn, at)?;
                }
            }
            txn.update(RecordId::new(kept.stock, Slot(3)), &Move { pieces: 1 })
        };
        store.transact(change).expect("room");
        self.fill(300..320);
        self.table.remove(&2);
        self.list.remove(0);
        self.page_list.remove(0);
        self.records.retain(|record| !record.ends_with(" changed"));
        self.stock += 1;
    }
}

/// Two heaps, and a table beside them.
pub(crate) struct InHeaps {
    map: BTreeMap<u64, u64>,
    ordered: BTreeMap<u64, u64>,
    queue: Vec<u64>,
    list: Vec<u64>,
    counter: i64,
    word: u64,
    table: BTreeMap<u64, u64>,
}

impl Default for InHeaps {
    fn default() -> InHeaps {
        let (first, later) = (0..FILLED, 100..100 + FILLED);
        let numbers = || first.clone().chain(later.clone());
        let popped = FILLED.div_ceil(3);
        InHeaps {
            map: numbers()
                .filter(|number| *number >= 100 || number % 3 != 0)
                .map(|number| (number, number * 2))
                .collect(),
            ordered: numbers()
                .filter(|number| *number >= 100 || number % 3 != 1)
                .map(|number| (number, number * 3))
                .collect(),
            queue: numbers().skip(popped as usize).collect(),
            list: numbers().map(|number| if number < 100 && number % 3 == 0 { 0 } else { number }).collect(),
            counter: 2 * FILLED as i64,
            word: 7,
            table: BTreeMap::from([(1, 10)]),
        }
    }
}

impl Model for InHeaps {
    fn commit_branch(&mut self) {
        self.table.insert(2, 20);
        self.list[1] = 501;
    }

    fn compare(&self, store: &Store) {
        let heap = store.memory().heap("heap").expect("it was created");
        let kept = InHeap::open(&heap).expect("a sound heap");
        let compare = || -> cedrat::heap::Result<()> {
            let mut map = BTreeMap::new();
            heap.atomically(|tx| {
                map.clear();
                kept.map.for_each(tx, |key, value| {
                    map.insert(key, value);
                    Ok(())
                })
            })?;
            same("map", map, &self.map);
            same("verified", heap.atomically(|tx| kept.map.verify(tx))?, &(self.map.len() as u64));
            same("ordered", heap.atomically(|tx| kept.ordered.range(tx, ..))?.into_iter().collect(), &self.ordered);
            same("verified", heap.atomically(|tx| kept.ordered.verify(tx))?, &(self.ordered.len() as u64));
            let elements = heap.atomically(|tx| {
                let len = kept.list.len(tx)?;
                (0..len).map(|index| kept.list.get(tx, index)).collect::<std::result::Result<Vec<_>, _>>()
            })?;
            same("list", elements.into_iter().flatten().collect(), &self.list);
            same("queue", heap.atomically(|tx| kept.queue.len(tx))?, &(self.queue.len() as u64));
            same("queue", heap.atomically(|tx| kept.queue.peek(tx))?, &self.queue.first().copied());
            same("counter", heap.atomically(|tx| kept.counter.get(tx))?, &self.counter);
            Ok(())
        };
        compare().expect("a sound heap");
        let words = store.memory().heap(WORDS).expect("it was created");
        let mut bytes = [0; 10];
        words.atomically(|tx| tx.read_bytes(&words, 11, &mut bytes)).expect("a sound heap");
        same("bytes", bytes, b"ten bytes!");
        let read = |at| words.atomically(|tx| tx.read(&words, at)).expect("a sound heap");
        same("words", [read(8 << 10), read(12 << 10), read(4 << 10)], &[self.word, 10, 0]);
        let table = |txn: &mut Txn| HashTable::<u64, u64>::open(txn, "table")?.iter(txn)?.collect::<Result<_>>();
        same("table", store.transact(table).expect("a sound disk"), &self.table);
    }

    fn change(&mut self, store: &Store) {
        let heap = store.memory().heap("heap").expect("it was created");
        let kept = InHeap::open(&heap).expect("a sound heap");
        // All of the queue, so that its order is compared as well.
        let mut popped = Vec::new();
        while let Some(number) = heap.atomically(|tx| kept.queue.pop(tx)).expect("a sound heap") {
            popped.push(number);
        }
        same("queue", popped, &self.queue);
        kept.fill(&heap, 300).expect("room");
        let numbers = 300..300 + FILLED;
        self.map.extend(numbers.clone().map(|number| (number, number * 2)));
        self.ordered.extend(numbers.clone().map(|number| (number, number * 3)));
        self.queue = numbers.clone().collect();
        self.list.extend(numbers);
        self.counter += FILLED as i64;
        let words = store.memory().heap(WORDS).expect("it was created");
        let change = |txn: &mut Txn| {
            HashTable::<u64, u64>::open(txn, "table")?.insert(txn, &3, &30)?;
            txn.heap(|tx| tx.update(&words, 8 << 10, |word| word + 1).map(drop))
        };
        store.transact(change).expect("room");
        self.word += 1;
        self.table.insert(3, 30);
    }
}

/// Two collections of objects, and a graph.
pub(crate) struct InGraph {
    objects: Vec<Vec<u8>>,
    first: Object,
    second: Object,
    large: Object,
    made: Object,
    unreachable: bool,
}

impl Default for InGraph {
    fn default() -> InGraph {
        let object = |number: u64| match number {
            3 => vec![7; 60],
            _ => [&(number + if number.is_multiple_of(2) { 100 } else { 0 }).to_le_bytes()[..], b" object"].concat(),
        };
        let mut objects: Vec<_> = (0..12).filter(|&number| number != 5).map(object).collect();
        objects.sort();
        let of = |class, data: Vec<u8>| Object { class, data, references: Vec::new() };
        let mut large = vec![0; 9000];
        large[4088..4096].fill(7);
        InGraph {
            objects,
            first: of(1, vec![8; 16]),
            second: of(1, vec![2; 8]),
            large: of(2, large),
            made: of(1, vec![5; 24]),
            unreachable: true,
        }
    }
}

/// Follows a reference that leads to an object.
fn follow(graph: &Graph, to: Reference) -> Object {
    graph.object(to.identity().expect("it leads to an object")).expect("the object is there")
}

fn without_references(object: &Object) -> Object {
    Object { references: Vec::new(), ..object.clone() }
}

impl Model for InGraph {
    fn commit_branch(&mut self) {
        self.second.data = vec![9; 8];
    }

    fn compare(&self, store: &Store) {
        for named in COLLECTIONS {
            let objects = collection(store, named);
            let read = |txn: &mut Txn| {
                let ids = objects.ids(txn)?;
                ids.into_iter().map(|id| objects.read(txn, id, <[u8]>::to_vec)).collect::<Result<Vec<_>>>()
            };
            let mut found = store.transact(read).expect("a sound disk");
            found.sort();
            same(named.0, found, &self.objects);
        }
        let graph = Graph::open(store, GRAPH, graph::Options::default()).expect("it was created");
        same("problems", graph.check().expect("a sound disk").problems, &Vec::new());
        same(
            "classes",
            graph.classes().iter().flatten().map(|class| class.to_vec()).collect(),
            &vec![b"small".to_vec(), b"large".to_vec()],
        );
        let roots: BTreeMap<_, _> = graph.roots().expect("a sound disk").into_iter().collect();
        same("roots", roots.keys().map(|name| &name[..]).collect(), &vec!["first", "made"]);
        let first = follow(&graph, roots["first"]);
        same("first", without_references(&first), &self.first);
        let [to_made, to_large] = first.references[..] else { panic!("{:?}", first.references) };
        same("root", to_made, &roots["made"]);
        let made = follow(&graph, to_made);
        same("made", without_references(&made), &self.made);
        same("references", made.references, &vec![roots["first"]]);
        let large = follow(&graph, to_large);
        same("large", without_references(&large), &self.large);
        let [to_first, to_second] = large.references[..] else { panic!("{:?}", large.references) };
        let second = follow(&graph, to_second);
        same("second", without_references(&second), &self.second);
        same("references", vec![to_first, second.references[0]], &vec![roots["first"]; 2]);
        let mut objects = 0;
        for page in graph.object_pages().expect("a sound disk") {
            objects += graph.objects_of_page(page).expect("a sound disk").len();
        }
        same("objects", objects, &(4 + usize::from(self.unreachable)));
    }

    fn change(&mut self, store: &Store) {
        for named in COLLECTIONS {
            let objects = collection(store, named);
            let change = |txn: &mut Txn| {
                objects.insert(txn, b"inserted")?;
                let ids = objects.ids(txn)?;
                for id in ids {
                    if objects.read(txn, id, |object| object == [7; 60])? {
                        objects.put(txn, id, &[0; 16])?;
                        objects.update(txn, id, Raise { by: 1 })?;
                    }
                }
                Ok(())
            };
            store.transact(change).expect("room");
        }
        let changed = self.objects.iter_mut().find(|object| **object == [7; 60]).expect("it is there");
        *changed = [&1_u64.to_le_bytes()[..], &[0; 8]].concat();
        self.objects.push(b"inserted".to_vec());
        self.objects.sort();
        let graph = Graph::open(store, GRAPH, graph::Options::default()).expect("it was created");
        let first = graph.root("first").expect("a sound disk").and_then(Reference::identity).expect("it was set");
        let mut changes = Changes::new();
        changes.patch(first, 8, &[6; 8]);
        graph.commit(&changes, Mode::Sync).expect("room");
        self.first.data[..8].fill(6);
        let mut collection = graph.collect([]).expect("no other collection runs");
        while collection.step(100).expect("a sound disk") != Stage::Done {
            if collection.stage() == Stage::Marked {
                collection.seal([]).expect("a sound disk");
            }
        }
        self.unreachable = false;
    }
}
