//! Calls that make the kept stores, as the versions named in `README.md` had them but for what the API has changed since.
//!
//! Each function ends with a call of `end` while the store is open: the process exits there, or takes an image of the disk.

use std::path::Path;
use std::sync::Arc;

use cedrat::graph::{self, Changes, Graph, Identity, Mode, Reference};
use cedrat::heap::{Heap, HeapCounter, HeapMap, HeapOptions, HeapOrderedMap, HeapQueue, HeapVec};
use cedrat::media::{Durability, Encryption, Key, Media, OpenMode, RealDisk};
use cedrat::objects::{ObjectDelta, Objects, UndoPolicy, register_delta};
use cedrat::pages::{Damaged, LayoutKind, PageId, PageMut, PageRef, Slot};
use cedrat::prelude::*;
use cedrat::structures::{Catalogue, Kind, Named, PageList, Records, drop_named};
use cedrat::txn::{BackupOptions, FormatFresh, Vote};
use cedrat::wal::{LogOptions, SEGMENT_LEN_MIN};
use cedrat_media::write_all_at;
use serde::{Deserialize, Serialize};

/// Identifier of the prepared branch of each store.
pub(crate) const BRANCH: &[u8] = b"branch";

/// Adds pieces to a stock, or removes them: an operation of the program's own.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Move {
    pub(crate) pieces: i64,
}

impl Operation for Move {
    const NAME: &'static str = "kept.move.v1";

    fn prepare(&self, page: &PageRef<'_>, article: Slot) -> std::result::Result<Undo, Refused> {
        match page.u64_at(usize::from(article.0) * 8)?.checked_add_signed(self.pieces) {
            Some(_) => Ok(Undo::op(Move { pieces: -self.pieces })),
            None => Err(Refused::new("too few pieces")),
        }
    }

    fn redo(&self, page: &mut PageMut<'_>, article: Slot) -> std::result::Result<(), Damaged> {
        let at = usize::from(article.0) * 8;
        let stock = page.page_ref().u64_at(at)?;
        page.put_u64(at, stock.wrapping_add_signed(self.pieces))
    }
}

/// Adds to the first eight bytes of an object: a delta of the program's own.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Raise {
    pub(crate) by: u64,
}

impl ObjectDelta for Raise {
    const NAME: &'static str = "kept.raise.v1";

    fn apply(&self, object: &mut [u8]) -> std::result::Result<(), Refused> {
        let number = object.first_chunk_mut().ok_or(Refused::new("an object begins with a number"))?;
        *number = u64::from_le_bytes(*number).wrapping_add(self.by).to_le_bytes();
        Ok(())
    }
}

pub(crate) fn registry() -> Registry {
    cedrat::registry().operation::<Move>().with(register_delta::<Raise>)
}

/// Options of all stores: small files, and no threads.
pub(crate) fn options() -> Options {
    let log = LogOptions { block_len_max: 32 << 10, unwritten_max: 128 << 10, ..LogOptions::default() };
    Options {
        pool_bytes: 1 << 20,
        log_limit_bytes: 64 * SEGMENT_LEN_MIN,
        segment_len: SEGMENT_LEN_MIN,
        partitions: 2,
        background: false,
        redo_threads: 0,
        log,
        ..Options::default()
    }
}

fn new_store(directory: &Path) -> Store {
    cedrat::open_with(directory, options(), registry()).expect("a new store")
}

fn force(store: &Store) {
    store.log().force(store.log().current_lsn()).expect("a sound disk");
}

/// Number of elements that are inserted at once.
pub(crate) const FILLED: u64 = 11;
/// Length of the values of the wide table: one of them takes most of a page.
pub(crate) const WIDE: usize = 2800;

/// Structures of pages, each under its name.
pub(crate) struct InPages {
    pub(crate) table: HashTable<u64, String>,
    /// Its values are long and of zeros, so that it has many pages and few bytes.
    pub(crate) wide: HashTable<String, Vec<u8>>,
    pub(crate) array: ArrayList<u64>,
    pub(crate) list: List<String>,
    pub(crate) page_list: PageList<(u64, String)>,
    pub(crate) records: Records,
    pub(crate) stock: PageId,
}

impl InPages {
    fn create(txn: &mut Txn) -> Result<InPages> {
        let stock = txn.allocate()?;
        txn.update(RecordId::page(stock), &FormatFresh::new(LayoutKind::RAW))?;
        let kept = InPages {
            table: HashTable::create(txn, "table")?,
            wide: HashTable::create(txn, "wide")?,
            array: ArrayList::create(txn, "array", 10)?,
            list: List::create(txn, "list")?,
            page_list: PageList::create(txn, "page list")?,
            records: Records::create(txn, "records")?,
            stock,
        };
        let store = txn.store().clone();
        let named = Named { name: "stock".to_string(), kind: Kind::User(1024), root: stock, schema: 0 };
        Catalogue::open(&store)?.add(txn, &named)?;
        Ok(kept)
    }

    /// Inserts elements with these numbers into each.
    pub(crate) fn fill(&self, txn: &mut Txn, numbers: std::ops::Range<u64>) -> Result<()> {
        for number in numbers {
            self.table.insert(txn, &number, &format!("value {number}"))?;
            self.wide.insert(txn, &format!("wide {number}"), &vec![0; WIDE])?;
            self.array.push(txn, &number)?;
            self.list.push_back(txn, &format!("element {number}"))?;
            self.page_list.push_front(txn, &(number, format!("record {number}")))?;
            self.records.insert(txn, format!("record {number}").as_bytes())?;
        }
        txn.update(RecordId::new(self.stock, Slot(3)), &Move { pieces: 500 })
    }

    /// Changes and removes some.
    fn change(&self, txn: &mut Txn) -> Result<()> {
        for number in (0..FILLED).step_by(3) {
            self.table.remove(txn, &number)?;
            self.array.set(txn, number, &(number * 1_000))?;
        }
        self.table.insert(txn, &1, &"changed".to_string())?;
        self.array.pop(txn)?;
        self.list.insert(txn, 2, &"inserted".to_string())?;
        self.list.remove(txn, 7)?;
        self.page_list.remove(txn, 5)?;
        self.page_list.set(txn, 6, &(6, "set".to_string()))?;
        let all = self.records.all(txn)?;
        for (at, record) in all.iter().step_by(4) {
            self.records.update(txn, *at, &[record, &b" changed"[..]].concat())?;
        }
        for (at, _) in all.iter().skip(1).step_by(4) {
            self.records.delete(txn, *at)?;
        }
        txn.update(RecordId::new(self.stock, Slot(3)), &Move { pieces: -120 })
    }
}

/// Makes a store of pages: all structures, an operation of the program's own, a dropped table; changes that are in the pages
/// and others that are in the log only; a rollback, a prepared branch and a loser.
pub(crate) fn pages(directory: &Path, end: impl FnOnce()) {
    fill_pages(&new_store(directory), |_| {}, end);
}

/// Makes the content of a store of pages. Calls `step` three times, between its transactions, and `end` when all is done.
fn fill_pages(store: &Store, mut step: impl FnMut(usize), end: impl FnOnce()) {
    let kept = store.transact(InPages::create).expect("room");
    store.transact(|txn| kept.fill(txn, 0..FILLED)).expect("room");
    store.transact(|txn| HashTable::<u64, u64>::create(txn, "dropped").map(drop)).expect("room");
    store.checkpoint().expect("room");
    step(0);
    store.transact(|txn| kept.change(txn)).expect("room");
    step(1);
    store.transact(|txn| kept.fill(txn, 100..100 + FILLED)).expect("room");
    store.transact(|txn| drop_named(txn, "dropped").map(drop)).expect("it is there");
    let mut undone = store.begin();
    kept.fill(&mut undone, 200..202).expect("room");
    undone.rollback().expect("always possible");
    let mut branch = store.begin();
    kept.table.insert(&mut branch, &501, &"prepared".to_string()).expect("room");
    branch.update(RecordId::new(kept.stock, Slot(3)), &Move { pieces: 7 }).expect("no overflow");
    let Ok(Vote::Prepared(prepared)) = branch.prepare(BRANCH) else { unreachable!("it has changed something") };
    let mut loser = store.begin();
    kept.table.insert(&mut loser, &502, &"lost".to_string()).expect("room");
    kept.list.push_back(&mut loser, &"lost".to_string()).expect("room");
    force(store);
    step(2);
    end();
    drop((prepared, loser));
}

/// Directories and files of a store with copies.
pub(crate) const STORE: &str = "store";
pub(crate) const ARCHIVE: &str = "archive";
pub(crate) const FULL: &str = "full";
pub(crate) const INCREMENT: &str = "increment";
pub(crate) const STREAM: &str = "stream";

/// Options of the store with copies.
pub(crate) fn archived_options(directory: &Path) -> Options {
    cedrat::archived_in(directory.join(ARCHIVE), Options { archive_run_bytes: 1, ..options() })
}

/// Makes a store of pages in a directory, and beside it its archive, a full backup, an increment, and the stream of a full backup.
pub(crate) fn copies(directory: &Path, end: impl FnOnce()) {
    let options = archived_options(directory);
    let store = cedrat::open_with(directory.join(STORE), options, registry()).expect("a new store");
    let step = |number| {
        store.extend_archive().expect("a sound disk");
        match number {
            0 => drop(cedrat::backup(&store, directory.join(FULL), BackupOptions::default()).expect("a sound disk")),
            1 => {
                let chain = cedrat::backup_chain(&[directory.join(FULL)]).expect("a backup");
                let options = BackupOptions { since: Some(&chain), ..BackupOptions::default() };
                cedrat::backup(&store, directory.join(INCREMENT), options).expect("a sound disk");
            }
            _ => {
                let stream = std::fs::File::create(directory.join(STREAM)).expect("a directory");
                store.backup_to_stream(stream, BackupOptions::default()).expect("a sound disk");
            }
        }
    };
    fill_pages(&store, step, end);
}

/// The name and the content of the encrypted file.
pub(crate) const ENCRYPTED: (&str, [u8; 1200]) = ("encrypted", [7; 1200]);

/// The keys of the encrypted file.
pub(crate) fn keys() -> Encryption {
    Encryption::with_key(Key::new(*b"the key that encrypts kept files"))
}

/// Makes an encrypted directory with one file.
pub(crate) fn encrypted(directory: &Path, end: impl FnOnce()) {
    let disk: Arc<dyn Media> = Arc::new(RealDisk::new(directory));
    let disk = keys().open_or_create(&disk).expect("a new directory");
    let file = disk.open(ENCRYPTED.0, OpenMode::Create).expect("a new file");
    write_all_at(&*disk, file, 0, &ENCRYPTED.1, Durability::Durable).expect("a sound disk");
    end();
}

/// Name of the heap of words.
pub(crate) const WORDS: &str = "words";

/// Values of a heap, each under its name.
pub(crate) struct InHeap {
    pub(crate) map: HeapMap<u64, u64>,
    pub(crate) ordered: HeapOrderedMap<u64, u64>,
    pub(crate) queue: HeapQueue<u64>,
    pub(crate) list: HeapVec<u64>,
    pub(crate) counter: HeapCounter,
}

impl InHeap {
    pub(crate) fn open(heap: &Heap) -> cedrat::heap::Result<InHeap> {
        Ok(InHeap {
            map: HeapMap::open(heap, "map")?,
            ordered: HeapOrderedMap::open(heap, "ordered")?,
            queue: HeapQueue::open(heap, "queue")?,
            list: HeapVec::open(heap, "list")?,
            counter: HeapCounter::open(heap, "counter")?,
        })
    }

    pub(crate) fn fill(&self, heap: &Heap, from: u64) -> cedrat::heap::Result<()> {
        heap.atomically(|tx| {
            for number in from..from + FILLED {
                self.map.insert(tx, number, number * 2)?;
                self.ordered.insert(tx, number, number * 3)?;
                self.queue.push(tx, number)?;
                self.list.push(tx, number)?;
                self.counter.add(tx, 1)?;
            }
            Ok(())
        })
    }

    fn change(&self, heap: &Heap) -> cedrat::heap::Result<()> {
        heap.atomically(|tx| {
            for number in (0..FILLED).step_by(3) {
                self.map.remove(tx, &number)?;
                self.ordered.remove(tx, &(number + 1))?;
                self.queue.pop(tx)?;
                self.list.set(tx, number, 0)?;
            }
            Ok(())
        })
    }
}

/// Makes a store with two heaps, one with structures in blocks, one of words: committed changes in a checkpoint and others in
/// the log only, and a prepared branch over heaps and pages.
pub(crate) fn heaps(directory: &Path, end: impl FnOnce()) {
    let store = new_store(directory);
    let choices = HeapOptions { chunk_len: 4096, blocks: true, ..HeapOptions::new(64 << 10) };
    let heap = store.memory().create_heap("heap", &choices).expect("room");
    let words = store.memory().create_heap(WORDS, &HeapOptions { chunk_len: 4096, ..HeapOptions::raw(16 << 10) });
    let words = words.expect("room");
    let table = store.transact(|txn| HashTable::<u64, u64>::create(txn, "table")).expect("room");
    let kept = InHeap::open(&heap).expect("room");
    kept.fill(&heap, 0).expect("room");
    words.atomically(|tx| tx.write_bytes(&words, 11, b"ten bytes!")).expect("room");
    store.checkpoint().expect("room");
    kept.change(&heap).expect("room");
    kept.fill(&heap, 100).expect("room");
    words.atomically(|tx| tx.update(&words, 8 << 10, |word| word + 7).map(drop)).expect("room");
    store
        .transact(|txn| {
            table.insert(txn, &1, &10)?;
            txn.heap(|tx| tx.write(&words, 12 << 10, 10))
        })
        .expect("room");
    let mut branch = store.begin();
    table.insert(&mut branch, &2, &20).expect("room");
    branch.heap(|tx| kept.list.set(tx, 1, 501).map(drop)).expect("room");
    let Ok(Vote::Prepared(prepared)) = branch.prepare(BRANCH) else { unreachable!("it has changed something") };
    force(&store);
    end();
    drop(prepared);
}

/// Name of the graph.
pub(crate) const GRAPH: &str = "graph";

/// Collections of objects: their names and policies of undo.
pub(crate) const COLLECTIONS: [(&str, UndoPolicy); 2] =
    [("committed only", UndoPolicy::CommittedOnly), ("inverses", UndoPolicy::Inverses)];

/// Opens or creates a collection.
pub(crate) fn collection(store: &Store, (name, undo): (&str, UndoPolicy)) -> Objects {
    let options = cedrat::objects::Options { undo, ..cedrat::objects::Options::default() };
    Objects::open_or_create(store, name, options).expect("room")
}

/// Makes a store with two collections of objects and a graph: changes in the pages and others in the log only, a prepared
/// branch of the graph and a loser in each collection.
pub(crate) fn objects(directory: &Path, end: impl FnOnce()) {
    let store = new_store(directory);
    for named in COLLECTIONS {
        let objects = collection(&store, named);
        let insert = |txn: &mut Txn| {
            (0..12_u64).map(|number| objects.insert(txn, &[&number.to_le_bytes()[..], b" object"].concat())).collect()
        };
        let ids: Vec<_> = store.transact(insert).expect("room");
        objects.flush_all(&store).expect("room");
        let change = |txn: &mut Txn| {
            for &id in ids.iter().step_by(2) {
                objects.update(txn, id, Raise { by: 100 })?;
            }
            objects.put(txn, ids[3], &[7; 60])?;
            objects.remove(txn, ids[5])
        };
        store.transact(change).expect("room");
    }
    let graph = Graph::create(&store, GRAPH, graph::Options::default()).expect("a new graph");
    let ids = graph_before(&graph);
    store.checkpoint().expect("room");
    graph_after(&graph, &ids);

    let losers = COLLECTIONS.map(|named| {
        let objects = collection(&store, named);
        let id = store.transact(|txn| objects.ids(txn)).expect("a sound disk")[0];
        let mut loser = store.begin();
        objects.update(&mut loser, id, Raise { by: 5_000 }).expect("room");
        loser
    });
    let mut changes = Changes::new();
    changes.patch(ids[1], 8, &[9; 8]);
    let branch = graph.prepare(&changes, BRANCH).expect("room");
    assert!(matches!(branch.vote, Vote::Prepared(_)));
    force(&store);
    end();
    drop((branch, losers));
}

/// Objects in a cycle, one in pieces, an unreachable one, roots.
fn graph_before(graph: &Graph) -> Vec<Identity> {
    for definition in [b"small", b"large"] {
        graph.define_class(definition).expect("room");
    }
    let mut changes = Changes::new();
    let second = changes.next(1);
    let first = changes.add(1, &[1; 40], &[second, second, Reference::NULL]);
    changes.add(1, &[2; 8], &[first]);
    let large = changes.add(2, &[0; 9000], &[first, second]);
    changes.add(1, b"unreachable", &[first]);
    changes.set_root("first", first).set_root("large", large);
    graph.commit(&changes, Mode::Sync).expect("room").identities
}

fn graph_after(graph: &Graph, ids: &[Identity]) {
    let mut changes = Changes::new();
    let made = changes.add(1, &[5; 24], &[ids[0].into()]);
    changes.patch(ids[2], 4096, &[7; 8]).set_root("made", made).remove_root("large");
    changes.put(ids[0], 1, &[8; 16], &[made, ids[2].into()]);
    graph.commit(&changes, Mode::Sync).expect("room");
}

/// Number of entries of the log alone, and the long one among them.
pub(crate) const ENTRIES: u64 = 30;
/// Number of the long entry.
pub(crate) const LONG: u64 = 12;

/// Returns the content of an entry.
pub(crate) fn entry(number: u64) -> Vec<u8> {
    let mut entry = format!("entry {number}").into_bytes();
    if number == LONG {
        entry.resize(100_000, 0);
    }
    entry
}

/// Makes a log without a store, whose first five entries are given up.
pub(crate) fn log_alone(directory: &Path, end: impl FnOnce()) {
    let media: Arc<dyn Media> = Arc::new(RealDisk::new(directory));
    let log = LogOptions {
        block_len_max: 32 << 10,
        segment_len: SEGMENT_LEN_MIN,
        log_bytes_max: 64 * SEGMENT_LEN_MIN,
        ..LogOptions::default()
    };
    let options = cedrat_wal::EntryLogOptions { log, background: false, ..cedrat_wal::EntryLogOptions::default() };
    let log = cedrat_wal::EntryLog::open(&media, &options).expect("a new log");
    let lsns: Vec<_> = (0..ENTRIES).map(|number| log.append(&entry(number)).expect("room")).collect();
    log.force(lsns[lsns.len() - 1]).expect("a sound disk");
    log.truncate(lsns[4]).expect("a sound disk");
    end();
}
