//! Array, lists and records against vectors in memory: commits, rollbacks, savepoints, reopening.

use cedrat_pages::{LayoutKind, PAGE_LEN, PageId, PoolError, Slot};
use cedrat_structures::{
    ArrayList, Catalogue, ELEMENT_LEN_MAX, HashTable, Kind, List, Named, PageList, RECORD_LEN_MAX, RawArrayList,
    RawHashTable, RawList, RawPageList, Records, StructureError, check_named, drop_named,
};
use cedrat_sync::{Arc, thread};
use cedrat_txn::{Commit, Error, FormatFresh, PageLocks, RecordId, Result, Store, Txn};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::common::{Bench, check_all, in_vain};

/// The common interface of all three sequences.
trait Sequence: Sized {
    const LEN_MAX: usize;
    fn create(txn: &mut Txn, name: &str) -> Result<Self>;
    fn open(txn: &mut Txn, name: &str) -> Result<Self>;
    fn apply(&self, txn: &mut Txn, model: &mut Vec<Vec<u8>>, step: &Step) -> Result<()>;
    fn all(&self, txn: &mut Txn) -> Result<Vec<Vec<u8>>>;
    fn at(&self, txn: &mut Txn, index: u64) -> Result<Option<Vec<u8>>>;
}

#[derive(Clone, Debug)]
enum Step {
    PushBack(Vec<u8>),
    PushFront(Vec<u8>),
    Insert(Index, Vec<u8>),
    Set(Index, Vec<u8>),
    Remove(Index),
    PopFront,
    PopBack,
}

/// Implements it for a list; only one of them pops at its back.
macro_rules! list {
    ($list:ident, $raw:ident, $len_max:expr, $pop_back:expr) => {
        impl Sequence for $list<Vec<u8>> {
            const LEN_MAX: usize = $len_max - 2;

            fn create(txn: &mut Txn, name: &str) -> Result<Self> {
                $list::create(txn, name)
            }

            fn open(txn: &mut Txn, name: &str) -> Result<Self> {
                $list::open(txn, name)
            }

            fn apply(&self, txn: &mut Txn, model: &mut Vec<Vec<u8>>, step: &Step) -> Result<()> {
                match step {
                    Step::PushBack(element) => {
                        self.push_back(txn, element)?;
                        model.push(element.clone());
                    }
                    Step::PushFront(element) => {
                        self.push_front(txn, element)?;
                        model.insert(0, element.clone());
                    }
                    Step::Insert(index, element) => {
                        let index = index.index(model.len() + 1);
                        self.insert(txn, index as u64, element)?;
                        model.insert(index, element.clone());
                    }
                    Step::Set(index, element) if !model.is_empty() => {
                        let index = index.index(model.len());
                        self.set(txn, index as u64, element)?;
                        model[index] = element.clone();
                    }
                    Step::Remove(index) if !model.is_empty() => {
                        let index = index.index(model.len());
                        assert_eq!(self.remove(txn, index as u64)?, model.remove(index));
                    }
                    Step::Set(..) | Step::Remove(_) => {
                        let error = self.remove(txn, 0).unwrap_err();
                        assert!(matches!(StructureError::of(&error), Some(StructureError::OutOfBounds { .. })));
                    }
                    Step::PopFront => {
                        let first = (!model.is_empty()).then(|| model.remove(0));
                        assert_eq!(self.pop_front(txn)?, first);
                    }
                    Step::PopBack => $pop_back(self, txn, model)?,
                }
                Ok(())
            }

            fn all(&self, txn: &mut Txn) -> Result<Vec<Vec<u8>>> {
                let all = self.iter(txn)?.collect::<Result<Vec<_>>>()?;
                assert_eq!(self.len(txn)?, all.len() as u64);
                assert_eq!(self.is_empty(txn)?, all.is_empty());
                Ok(all)
            }

            fn at(&self, txn: &mut Txn, index: u64) -> Result<Option<Vec<u8>>> {
                self.get(txn, index)
            }
        }
    };
}

list!(List, RawList, RawList::ELEMENT_LEN_MAX, |_: &List<_>, _: &mut Txn, _: &mut Vec<Vec<u8>>| Ok::<(), Error>(()));
list!(PageList, RawPageList, RECORD_LEN_MAX, |list: &PageList<Vec<u8>>, txn: &mut Txn, model: &mut Vec<Vec<u8>>| {
    assert_eq!(list.pop_back(txn)?, model.pop());
    Ok::<(), Error>(())
});

const ELEMENT_LEN: u16 = 700;

impl Sequence for ArrayList<Vec<u8>> {
    const LEN_MAX: usize = ELEMENT_LEN as usize - 2;

    fn create(txn: &mut Txn, name: &str) -> Result<Self> {
        ArrayList::create(txn, name, ELEMENT_LEN)
    }

    fn open(txn: &mut Txn, name: &str) -> Result<Self> {
        ArrayList::open(txn, name)
    }

    fn apply(&self, txn: &mut Txn, model: &mut Vec<Vec<u8>>, step: &Step) -> Result<()> {
        match step {
            Step::PushBack(element) | Step::PushFront(element) | Step::Insert(_, element) => {
                assert_eq!(self.push(txn, element)?, model.len() as u64);
                model.push(element.clone());
            }
            Step::Set(index, element) if !model.is_empty() => {
                let index = index.index(model.len());
                self.set(txn, index as u64, element)?;
                model[index] = element.clone();
            }
            Step::Set(_, element) => {
                let error = self.set(txn, 0, element).unwrap_err();
                assert!(matches!(StructureError::of(&error), Some(StructureError::OutOfBounds { .. })));
            }
            Step::Remove(_) | Step::PopFront | Step::PopBack => assert_eq!(self.pop(txn)?, model.pop()),
        }
        Ok(())
    }

    fn all(&self, txn: &mut Txn) -> Result<Vec<Vec<u8>>> {
        assert_eq!(self.is_empty(txn)?, self.len(txn)? == 0);
        self.iter(txn)?.collect()
    }

    fn at(&self, txn: &mut Txn, index: u64) -> Result<Option<Vec<u8>>> {
        self.get(txn, index)
    }
}

#[derive(Clone, Copy, Debug)]
enum Ending {
    Commit,
    RollBack,
    ToSavepoint,
}

fn steps(len_max: usize) -> impl Strategy<Value = Vec<(Vec<Step>, Ending)>> {
    let element = prop_oneof![
        6 => prop::collection::vec(any::<u8>(), 0..60),
        2 => (any::<u8>(), 0..len_max).prop_map(|(fill, len)| vec![fill; len]),
        1 => any::<u8>().prop_map(move |fill| vec![fill; len_max]),
    ];
    let step = prop_oneof![
        4 => element.clone().prop_map(Step::PushBack),
        2 => element.clone().prop_map(Step::PushFront),
        4 => (any::<Index>(), element.clone()).prop_map(|(index, element)| Step::Insert(index, element)),
        3 => (any::<Index>(), element).prop_map(|(index, element)| Step::Set(index, element)),
        3 => any::<Index>().prop_map(Step::Remove),
        1 => Just(Step::PopFront),
        1 => Just(Step::PopBack),
    ];
    let ending = prop_oneof![3 => Just(Ending::Commit), 1 => Just(Ending::RollBack), 1 => Just(Ending::ToSavepoint)];
    prop::collection::vec((prop::collection::vec(step, 1..40), ending), 1..10)
}

fn run<S: Sequence>(transactions: &[(Vec<Step>, Ending)]) -> Result<()> {
    let mut bench = Bench::new();
    bench.store().transact(|txn| S::create(txn, "s"))?;
    let mut model: Vec<Vec<u8>> = Vec::new();
    for (steps, ending) in transactions {
        let store: &Store = bench.store();
        let mut txn = store.begin();
        let sequence = S::open(&mut txn, "s")?;
        let mut now = model.clone();
        let (first, second) = steps.split_at(steps.len() / 2);
        for step in first {
            sequence.apply(&mut txn, &mut now, step)?;
        }
        let (savepoint, then) = (txn.savepoint(), now.clone());
        for step in second {
            sequence.apply(&mut txn, &mut now, step)?;
        }
        assert_eq!(sequence.all(&mut txn)?, now);
        match ending {
            Ending::Commit => {
                txn.commit(cedrat_txn::Commit::Sync)?;
                model = now;
            }
            Ending::RollBack => txn.rollback()?,
            Ending::ToSavepoint => {
                txn.rollback_to(savepoint)?;
                txn.commit(cedrat_txn::Commit::Sync)?;
                model = then;
            }
        }
        bench.reopen();
        let store = bench.store();
        store.transact(|txn| {
            let sequence = S::open(txn, "s")?;
            assert_eq!(sequence.all(txn)?, model);
            for index in [0, model.len() / 2, model.len()] {
                assert_eq!(sequence.at(txn, index as u64)?.as_ref(), model.get(index));
            }
            Ok(())
        })?;
        check_all(store);
    }
    let before = bench.store().pool().len_pages();
    bench.store().transact(|txn| cedrat_structures::drop_named(txn, "s"))?;
    bench.store().transact(|txn| S::create(txn, "s"))?;
    check_all(bench.store());
    assert_eq!(bench.store().pool().len_pages(), before, "the dropped one's pages are used again");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_list_does_what_a_vector_does(transactions in steps(<List<Vec<u8>>>::LEN_MAX)) {
        run::<List<Vec<u8>>>(&transactions).unwrap();
    }

    #[test]
    fn page_list_behaves_like_vector(transactions in steps(<PageList<Vec<u8>>>::LEN_MAX)) {
        run::<PageList<Vec<u8>>>(&transactions).unwrap();
    }

    #[test]
    fn array_list_behaves_like_vector(transactions in steps(<ArrayList<Vec<u8>>>::LEN_MAX)) {
        run::<ArrayList<Vec<u8>>>(&transactions).unwrap();
    }
}

#[test]
fn too_large_list_element_names_limit() -> Result<()> {
    let bench = Bench::new();
    bench.store().transact(|txn| {
        let too_large = |done: Result<()>, limit: usize| match done {
            Err(Error::TooLarge { limit: stated, .. }) => assert_eq!(stated, limit as u64),
            other => panic!("{other:?}"),
        };
        let list = RawList::create(txn)?;
        list.push_back(txn, &[1; RawList::ELEMENT_LEN_MAX])?;
        too_large(list.push_back(txn, &[1; RawList::ELEMENT_LEN_MAX + 1]), RawList::ELEMENT_LEN_MAX);
        let list = RawPageList::create(txn)?;
        list.push_back(txn, &[1; RECORD_LEN_MAX])?;
        too_large(list.insert(txn, 0, &[1; RECORD_LEN_MAX + 1]), RECORD_LEN_MAX);
        let array = RawArrayList::create(txn, 9)?;
        array.push(txn, &[1; 9])?;
        too_large(array.set(txn, 0, &[1; 10]), 9);
        too_large(RawArrayList::create(txn, ELEMENT_LEN_MAX + 1).map(|_| ()), ELEMENT_LEN_MAX.into());
        let records = Records::create(txn, "r")?;
        too_large(records.insert(txn, &[1; 3801]).map(|_| ()), 3800);
        Ok(())
    })
}

#[test]
fn records_keep_their_places() -> Result<()> {
    let mut bench = Bench::new();
    let places = bench.store().transact(|txn| {
        let records = Records::create(txn, "r")?;
        (0..200_u8).map(|n| records.insert(txn, &vec![n; usize::from(n) * 7])).collect::<Result<Vec<_>>>()
    })?;
    in_vain(bench.store(), |txn| -> Result<()> {
        let records = Records::open(txn, "r")?;
        for (n, &place) in places.iter().enumerate() {
            if n % 2 == 0 {
                records.delete(txn, place)?
            } else {
                records.update(txn, place, b"x")?
            }
            records.insert(txn, b"another")?;
        }
        Ok(())
    })?;
    bench.reopen();
    bench.store().transact(|txn| {
        let records = Records::open(txn, "r")?;
        assert_eq!(records.all(txn)?.len(), 200);
        for (n, &place) in places.iter().enumerate() {
            assert_eq!(records.read(txn, place)?, vec![n as u8; n * 7]);
        }
        records.delete(txn, places[0])?;
        let error = records.read(txn, places[0]).unwrap_err();
        assert!(matches!(StructureError::of(&error), Some(StructureError::NoSuchRecord { .. })), "{error}");
        let link = RecordId::new(places[0].page, Slot(0));
        assert!(records.read(txn, link).is_err() && records.delete(txn, link).is_err(), "the link is no record");
        Ok(())
    })?;
    check_all(bench.store());
    Ok(())
}

/// Room of deleted records is used again, on all pages and by records of other lengths.
#[test]
fn room_of_deleted_records_is_reused() -> Result<()> {
    let mut bench = Bench::new();
    bench.store().transact(|txn| Records::create(txn, "r").map(drop))?;
    let mut pages = Vec::new();
    for round in 0..8_usize {
        let store = bench.store();
        let len = 300 + 100 * (round % 2);
        let insert = |txn: &mut Txn| {
            let records = Records::open(txn, "r")?;
            (0..300).map(|_| records.insert(txn, &vec![1; len])).collect::<Result<Vec<_>>>()
        };
        let delete = |txn: &mut Txn, places: Vec<RecordId>| {
            let records = Records::open(txn, "r")?;
            places.into_iter().try_for_each(|place| records.delete(txn, place))
        };
        let places = store.transact(insert)?;
        in_vain(store, |txn| delete(txn, places.clone()))?;
        store.transact(|txn| delete(txn, places.clone()))?;
        in_vain(store, insert)?;
        let records = store.transact(|txn| Records::open(txn, "r"))?;
        let checked = records.check(&store.begin())?;
        checked.expect_sound();
        assert_eq!(checked.elements, 0);
        pages.push(checked.pages.len());
        bench.reopen();
    }
    assert!(pages[7] <= pages[1] + 2, "S8: {pages:?}");
    Ok(())
}

/// S8: a deletion that fails leaves nothing, if its transaction commits nevertheless. Its page would be marked as listed, and
/// not be found.
#[test]
fn deletion_refused_halfway_is_undone() -> Result<()> {
    let locks = Arc::new(PageLocks::default());
    let bench = Bench::with(Arc::<PageLocks>::clone(&locks));
    let store = bench.store();
    let big = vec![1; 3000];
    let records = store.transact(|txn| Records::create(txn, "r"))?;
    let fill = |txn: &mut Txn| (0..4).map(|_| records.insert(txn, &big)).collect::<Result<Vec<_>>>();
    let places = store.transact(fill)?;
    let mut txn = store.begin();
    records.update(&mut txn, places[0], &big)?;
    let searches = locks.counts().searches;
    let other = {
        let (store, records, at) = (store.clone(), records.clone(), places[0]);
        thread::spawn(move || {
            let mut txn = store.begin();
            records.insert(&mut txn, b"small").unwrap();
            records.read(&mut txn, at).unwrap(); // waits for the first transaction
            txn.rollback().unwrap();
        })
    };
    // Its search for a cycle must end before the first transaction waits: then that one closes the cycle, and is refused.
    while locks.counts().searches == searches {
        thread::yield_now();
    }
    // The root page, where the second transaction reads which page is next, must not change.
    assert!(matches!(records.delete(&mut txn, places[1]), Err(Error::Deadlock(_))));
    txn.commit(Commit::Sync)?;
    other.join().unwrap();
    let pages = || records.check(&store.begin()).map(|checked| checked.pages.len());
    let before = pages()?;
    for (at, _) in store.transact(|txn| records.all(txn))? {
        store.transact(|txn| records.delete(txn, at))?;
    }
    store.transact(fill)?;
    assert_eq!(pages()?, before, "a page is not found any more");
    Ok(())
}

/// Whether a record is unknown to read, update and delete.
fn is_unknown(records: &Records, txn: &mut Txn, place: RecordId) -> bool {
    let none = |result: Result<()>| {
        let error = result.expect_err("there is nothing");
        matches!(StructureError::of(&error), Some(StructureError::NoSuchRecord { .. }))
    };
    none(records.read(txn, place).map(drop))
        && none(records.update(txn, place, b"another's"))
        && none(records.delete(txn, place))
}

/// S6: an address in another collection cannot be read, changed or deleted, and later inserts go to the right
/// collection.
#[test]
fn a_place_of_another_collection_is_refused() -> Result<()> {
    let bench = Bench::new();
    let (first, second, list) = bench
        .store()
        .transact(|txn| Ok((Records::create(txn, "first")?, Records::create(txn, "second")?, RawList::create(txn)?)))?;
    let place = bench.store().transact(|txn| {
        (0..3).try_for_each(|_| first.insert(txn, &[1; 3000]).map(drop))?;
        let place = second.insert(txn, b"second")?;
        (0..3).try_for_each(|_| second.insert(txn, &[2; 3000]).map(drop))?;
        // 24 bytes long, like a link, and with the root at the same offset.
        let node: Vec<u8> = [[0; 6].as_slice(), &first.root().get().to_le_bytes()].concat();
        list.push_back(txn, &node)?;
        list.push_back(txn, b"in slot 1")?;
        Ok(place)
    })?;
    bench.store().transact(|txn| {
        assert!(is_unknown(&first, txn, place));
        let own = first.insert(txn, b"first")?;
        assert!(first.all(txn)?.iter().any(|(at, _)| *at == own), "it is in its collection");
        assert_eq!(second.all(txn)?.len(), 4);
        assert_eq!(second.read(txn, place)?, b"second");
        // Pages of other structures, and pages that do not exist: the number may be arbitrary.
        let pages = bench.store().pool().len_pages();
        for page in (0..pages + 2).chain([1 << 30, 1 << 47, u64::MAX]) {
            let is_own = first.all(txn)?.iter().any(|(at, _)| at.page.get() == page);
            assert!(is_own || is_unknown(&first, txn, RecordId::new(PageId::new(page), Slot(1))), "page {page}");
        }
        Ok(())
    })?;
    check_all(bench.store());
    Ok(())
}

/// S6: a freed page keeps its bytes, and its collection's root may belong to another one by now.
#[test]
fn record_id_of_dropped_structure_is_refused() -> Result<()> {
    let bench = Bench::new();
    let (root, place) = bench.store().transact(|txn| {
        let records = Records::create(txn, "r")?;
        let place = records.insert(txn, b"gone")?;
        Ok((records.root(), place))
    })?;
    in_vain(bench.store(), |txn| Records::open_root(bench.store(), root)?.drop(txn))?;
    bench.store().transact(|txn| {
        assert_eq!(Records::open(txn, "r")?.read(txn, place)?, b"gone", "the drop was rolled back");
        Ok(())
    })?;
    bench.store().transact(|txn| drop_named(txn, "r"))?;
    let again = bench.store().transact(|txn| Records::create(txn, "r"))?;
    assert_eq!(again.root(), root, "the root page is used again");
    bench.store().transact(|txn| {
        assert!(is_unknown(&again, txn, place));
        Ok(())
    })
}

/// A page number without a root is refused, and not reported as damage: it comes from a caller.
#[test]
fn a_wild_root_is_refused() {
    let bench = Bench::new();
    let store = bench.store();
    for page in [0, 1, store.pool().len_pages(), 999_999, 1 << 48, u64::MAX].map(PageId::new) {
        let refused = [
            Records::open_root(store, page).map(drop),
            RawList::open(store, page).map(drop),
            RawPageList::open(store, page).map(drop),
            RawArrayList::open(store, page).map(drop),
            RawHashTable::open(store, page).map(drop),
        ];
        for result in refused {
            let error = result.unwrap_err();
            assert!(matches!(StructureError::of(&error), Some(StructureError::WrongRoot { .. })), "{error}");
        }
    }
}

/// Damage is reported with its position, also for a page whose checksum is valid and whose layout is wrong for its
/// structure.
#[test]
fn damage_names_file_and_offset() -> Result<()> {
    type Look = fn(&mut Txn) -> Result<()>;
    let looks: [(&str, Look); 5] = [
        ("list", |txn| List::<Vec<u8>>::open(txn, "list")?.get(txn, 0).map(drop)),
        ("page list", |txn| PageList::<Vec<u8>>::open(txn, "page list")?.get(txn, 0).map(drop)),
        ("array", |txn| ArrayList::<Vec<u8>>::open(txn, "array")?.get(txn, 0).map(drop)),
        ("records", |txn| Records::open(txn, "records")?.all(txn).map(drop)),
        ("table", |txn| HashTable::<u64, u64>::open(txn, "table")?.get(txn, &1).map(drop)),
    ];
    let bench = Bench::new();
    bench.store().transact(|txn| {
        List::create(txn, "list")?.push_back(txn, &vec![1_u8])?;
        PageList::create(txn, "page list")?.push_back(txn, &vec![1_u8])?;
        ArrayList::create(txn, "array", ELEMENT_LEN)?.push(txn, &vec![1_u8])?;
        Records::create(txn, "records")?.insert(txn, &[1])?;
        HashTable::<u64, u64>::create(txn, "table")?.insert(txn, &1, &1).map(drop)
    })?;
    for (name, look) in looks {
        let (error, page) = in_vain(bench.store(), |txn| {
            look(txn)?;
            let named = Catalogue::open(txn.store())?.list(txn)?.into_iter().find(|named| named.name == name);
            let named = named.expect("it was just made");
            let pages = check_named(txn, &named)?.expect("it is known").pages;
            let page = pages.into_iter().find(|page| *page != named.root).expect("it has more than its root");
            // This format has no undo.
            txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind(1000)))?;
            Ok::<_, Error>((look(txn).expect_err("the page is none of its own"), page))
        })?;
        let names_place = matches!(&error, Error::Pages(PoolError::Damaged { file, offset, .. })
            if file.ends_with("pages") && offset / PAGE_LEN as u64 == page.get());
        assert!(names_place, "{name}: {error}");
    }
    Ok(())
}

/// A key that is no number below 1,000, as an identifier or a date refuses most bytes.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(try_from = "u16")]
struct Refusing(u16);

impl TryFrom<u16> for Refusing {
    type Error = &'static str;

    fn try_from(number: u16) -> std::result::Result<Refusing, Self::Error> {
        if number < 1000 { Err("too small") } else { Ok(Refusing(number)) }
    }
}

/// The bytes of one number are those of another, too: no decoding fails.
#[test]
fn elements_of_other_types_are_refused() {
    let mut bench = Bench::new();
    bench
        .store()
        .transact(|txn| {
            HashTable::<String, (i64, u64)>::create(txn, "table to be renamed")?.insert(txn, "key", &(-1, 2))?;
            HashTable::<Refusing, i64>::create(txn, "refusing")?;
            List::<i64>::create(txn, "list")?;
            PageList::<i64>::create(txn, "page list")?;
            ArrayList::<i64>::create(txn, "array", 8)?;
            let root = RawList::create(txn)?.root();
            let untyped = Named { name: "without types".into(), kind: Kind::List, root, schema: 0 };
            let catalogue = Catalogue::open(txn.store())?;
            let table = catalogue.remove(txn, "table to be renamed")?;
            catalogue.add(txn, &Named { name: "table".into(), ..table })?;
            catalogue.add(txn, &untyped)
        })
        .unwrap();
    bench.reopen();
    let mut txn = bench.store().begin();
    let refused = |opened: Option<Error>| {
        let error = opened.expect("S9");
        assert!(matches!(StructureError::of(&error), Some(StructureError::OtherTypes { .. })), "{error}");
    };
    refused(HashTable::<String, (u64, u64)>::open(&mut txn, "table").err());
    refused(HashTable::<(String, i64), u64>::open(&mut txn, "table").err());
    refused(HashTable::<String, (u64, u64)>::open_or_create(&mut txn, "table").err());
    refused(HashTable::<Refusing, u64>::open(&mut txn, "refusing").err());
    refused(List::<u64>::open(&mut txn, "list").err());
    refused(PageList::<String>::open(&mut txn, "page list").err());
    refused(ArrayList::<u64>::open(&mut txn, "array").err());
    // Types that encode alike, and an entry without a schema as earlier versions wrote it.
    assert_eq!(
        HashTable::<String, (i32, u32)>::open(&mut txn, "table").unwrap().get(&mut txn, "key").unwrap(),
        Some((-1, 2))
    );
    List::<u64>::open(&mut txn, "without types").unwrap();
    drop_named(&mut txn, "table").unwrap();
}
