//! Entry points for hostile bytes, as functions of bytes. The fuzz targets call them, and so does a test with bounded random
//! input.
//!
//! Each must return a result or an error, never a panic, a hang, or memory that grows with lengths in the bytes. None may
//! change what it refuses (R2).

use std::collections::BTreeMap;
use std::sync::Arc;

use cedrat::graph::{self, Graph, Identity, Mode, Reference};
use cedrat::heap::{Heap, HeapCounter, HeapMap, HeapOptions, HeapOrderedMap, HeapQueue, HeapVec};
use cedrat::pages::layout::Layouts;
use cedrat::structures::{ArrayList, HashTable};
use cedrat::txn::{Commit, OpenError, Options, Store, Txn, Vote};
use cedrat_media::{Durability, Image, Media, OpenMode, SECTOR_LEN, SimDisk, write_all_at};
use cedrat_pages::{Damaged, PAGE_LEN, PageBuf, PageId, Slot, verify};
use cedrat_wal::{Log, LogError, Lsn};

use crate::repair::{self, Target};

/// Makes a small store with a table, a list, and transactions that ended in each way, as a kill leaves it.
pub fn sample() -> Image {
    let disk = SimDisk::new();
    let options = Options { partitions: 2, ..Options::simulated() };
    let store = Store::open(Arc::new(disk.clone()), options, cedrat::registry()).expect("a new store");
    let fill = |txn: &mut Txn, from: u64| {
        let table = HashTable::<u64, String>::open_or_create(txn, "table")?;
        let list = ArrayList::<u64>::open_or_create(txn, "list", 10)?;
        for number in from..from + 40 {
            table.insert(txn, &number, &"value ".repeat(number as usize % 20))?;
            list.push(txn, &number)?;
        }
        Ok(())
    };
    store.transact(|txn| fill(txn, 0)).expect("room");
    store.checkpoint().expect("room");
    store.transact(|txn| fill(txn, 100)).expect("room");
    let mut undone = store.begin();
    fill(&mut undone, 200).expect("room");
    undone.rollback().expect("always possible");
    let mut unfinished = store.begin();
    fill(&mut unfinished, 300).expect("room");
    store.log().force(store.log().current_lsn()).expect("an honest disk");
    let image = disk.image();
    drop(unfinished);
    image
}

/// Name of the heap of [`whole_sample`].
const HEAP: &str = "heap";

/// Values in a heap of [`whole_sample`], each under its name.
struct InHeap {
    map: HeapMap<u64, u64>,
    ordered: HeapOrderedMap<u64, u64>,
    queue: HeapQueue<u64>,
    list: HeapVec<u64>,
    counter: HeapCounter,
}

impl InHeap {
    fn open(heap: &Heap) -> cedrat::heap::Result<InHeap> {
        Ok(InHeap {
            map: HeapMap::open(heap, "map")?,
            ordered: HeapOrderedMap::open(heap, "ordered")?,
            queue: HeapQueue::open(heap, "queue")?,
            list: HeapVec::open(heap, "list")?,
            counter: HeapCounter::open(heap, "counter")?,
        })
    }

    fn fill(&self, heap: &Heap, from: u64) -> cedrat::heap::Result<()> {
        heap.atomically(|tx| {
            for number in from..from + 60 {
                self.map.insert(tx, number, number)?;
                self.ordered.insert(tx, number * 7 % 64, number)?;
                self.queue.push(tx, number)?;
                self.list.push(tx, number)?;
                self.counter.add(tx, 1)?;
            }
            Ok(())
        })
    }

    /// Reads all of it, whatever it contains.
    fn walk(&self, heap: &Heap) -> cedrat::heap::Result<()> {
        heap.atomically(|tx| self.map.for_each(tx, |_, _| Ok(())))?;
        heap.atomically(|tx| self.map.verify(tx))?;
        heap.atomically(|tx| self.map.get(tx, &7))?;
        heap.atomically(|tx| self.ordered.range(tx, ..))?;
        heap.atomically(|tx| self.ordered.verify(tx))?;
        heap.atomically(|tx| self.ordered.first(tx))?;
        heap.atomically(|tx| self.ordered.last(tx))?;
        heap.atomically(|tx| self.list.get(tx, 3))?;
        heap.atomically(|tx| self.list.push(tx, 3))?;
        heap.atomically(|tx| self.list.pop(tx))?;
        heap.atomically(|tx| self.counter.get(tx))?;
        heap.atomically(|tx| (0..5).try_for_each(|_| self.queue.pop(tx).map(drop)))?;
        heap.atomically(|tx| self.queue.push(tx, 5))?;
        heap.atomically(|tx| self.map.insert(tx, 1_000, 1).map(drop))?;
        heap.atomically(|tx| self.ordered.remove(tx, &5).map(drop))?;
        heap.atomically(|tx| self.ordered.insert(tx, 6, 5).map(drop))?;
        heap.atomically(|tx| self.map.clear(tx))?;
        heap.atomically(|tx| self.ordered.clear(tx))?;
        heap.atomically(|tx| self.list.clear(tx))?;
        heap.atomically(|tx| self.queue.remove_as(tx, "queue"))
    }
}

/// Names, frees and allocates blocks, one of a few words and one of several spans.
fn use_blocks(heap: &Heap) -> cedrat::heap::Result<()> {
    heap.roots()?;
    heap.atomically(|tx| {
        for (name, len) in [("small", 40), ("wide", 12_000)] {
            let before = tx.root(heap, name)?;
            let block = tx.allocate(heap, len)?;
            tx.write_bytes(heap, block, &[9; 40])?;
            tx.set_root(heap, name, block, "bytes")?;
            if let Some(before) = before {
                tx.free(heap, before.offset)?;
            }
        }
        Ok(())
    })
}

/// Makes a store with everything that recovery reads: a table and a list, a heap with one of each structure and a checkpoint,
/// a prepared transaction and a loser over pages and heaps.
pub fn whole_sample() -> Image {
    let disk = SimDisk::from_image(sample());
    let store = open(&disk).expect("a sound store");
    let options = HeapOptions { chunk_len: 16 << 10, ..HeapOptions::new(256 << 10) };
    let heap = store.memory().create_heap(HEAP, &options).expect("room");
    let kept = InHeap::open(&heap).expect("room");
    kept.fill(&heap, 0).expect("room");
    use_blocks(&heap).expect("room");
    store.checkpoint().expect("room");
    kept.fill(&heap, 100).expect("room");
    // Only one of them writes words of the heap: otherwise they would block each other.
    let change = |number: u64, in_heap: bool| {
        let mut txn = store.begin();
        let table = HashTable::<u64, String>::open(&mut txn, "table").expect("it is there");
        table.insert(&mut txn, &number, &"prepared ".repeat(9)).expect("room");
        if in_heap {
            txn.heap(|tx| kept.list.set(tx, number % 50, number).map(drop)).expect("room");
        }
        txn
    };
    let Ok(Vote::Prepared(prepared)) = change(501, true).prepare(b"branch") else {
        unreachable!("it has changed something")
    };
    drop(prepared);
    let loser = change(502, false);
    store.log().force(store.log().current_lsn()).expect("an honest disk");
    let image = disk.image();
    drop(loser);
    image
}

fn open(disk: &SimDisk) -> Result<Store, OpenError> {
    let options = Options { create: false, partitions: 2, ..Options::simulated() };
    Store::open(Arc::new(disk.clone()), options, cedrat::registry())
}

/// Opens, checks, walks and writes the whole store, changed behind its checksums. Returns the number of entries of its table,
/// or the first error.
pub fn repaired(sample: &Image, target: Option<Target>, input: &[u8]) -> Result<u64, String> {
    used_whole(&repair::changed(sample, target, input))
}

/// Like [`repaired`], with one byte of a record changed; `None` if there is none. See [`repair::changed_record`].
pub fn repaired_record(sample: &Image, older: usize, at: usize, byte: u8) -> Option<Result<u64, String>> {
    repair::changed_record(sample, older, at, byte).map(|disk| used_whole(&disk))
}

fn used_whole(disk: &SimDisk) -> Result<u64, String> {
    // Each of these reads bytes that the others refuse.
    let looked = unchanged_by(disk, read_log).map_err(|error| error.to_string());
    let use_all = || -> cedrat::Result<u64> {
        let store = open(disk)?;
        let checked = store.check().map(drop);
        for branch in store.in_doubt().unwrap() {
            store.prepared(&branch.id)?.rollback()?;
        }
        for heap in store.memory().heaps() {
            // Each of these reads words that the others refuse.
            let verified = heap.verify().map(drop).and(use_blocks(&heap));
            InHeap::open(&heap).and_then(|kept| kept.walk(&heap)).and(verified)?;
        }
        let length = store.transact(|txn| {
            let table = HashTable::<u64, String>::open(txn, "table")?;
            table.get(txn, &7)?;
            table.insert(txn, &7, &"seven".to_string())?;
            let list = ArrayList::<u64>::open(txn, "list")?;
            list.get(txn, 3)?;
            table.len(txn)
        })?;
        store.checkpoint()?;
        checked.map(|()| length)
    };
    use_all().map_err(|error| error.to_string()).and_then(|length| looked.map(|_| length))
}

/// Opens, checks, reads and collects a graph whose pages and records are changed behind their checksums. Returns the number
/// of objects, or the first error.
pub fn repaired_graph(sample: &Image, input: &[u8]) -> Result<u64, String> {
    let target = if input.first().is_some_and(|first| first & 3 == 0) { Target::Records } else { Target::Pages };
    let disk = repair::changed(sample, Some(target), input);
    let use_all = || -> Result<u64, Box<dyn std::error::Error>> {
        let store = open(&disk)?;
        let graph = Graph::open(&store, GRAPH, graph::Options::default())?;
        let checked = graph.check().map(drop);
        let mut objects = 0;
        for page in graph.object_pages()? {
            for identity in graph.objects_of_page(page)? {
                graph.read(identity)?;
                objects += 1;
            }
        }
        graph.roots()?;
        let mut collection = graph.collect([])?;
        while collection.step(100)? != graph::Stage::Done {
            if collection.stage() == graph::Stage::Marked {
                collection.seal([])?;
            }
        }
        checked?;
        Ok(objects)
    };
    use_all().map_err(|error| error.to_string())
}

/// Changes of the bytes of some files, read from fuzz input: any input means some changes.
struct Changes<'a> {
    input: &'a [u8],
}

impl Changes<'_> {
    fn number(&mut self, bytes: usize) -> Option<u64> {
        let (number, rest) = self.input.split_at_checked(bytes)?;
        self.input = rest;
        Some(number.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Makes one change to one of the files; `None` when the input is used up.
    fn make(&mut self, disk: &SimDisk, names: &[String]) -> Option<()> {
        let name = &names[self.number(1)? as usize % names.len()];
        let kind = self.number(1)?;
        let file = disk.open(name, OpenMode::ReadWrite).expect("a file of the sample");
        let length = disk.len(file).expect("a file of the sample");
        // Most important bytes lie at the beginnings of files.
        let offset = match kind & 0x30 {
            0x00 => self.number(2)?,
            0x10 => self.number(2)? % 256,
            0x20 => self.number(4)?,
            _ => length.saturating_sub(self.number(2)?),
        } % length.max(1);
        let write = |at: u64, bytes: &[u8]| {
            write_all_at(disk, file, at, bytes, Durability::Durable).expect("room");
        };
        match kind & 7 {
            0 => disk.set_len(file, offset).expect("possible"),
            1 => write(offset / SECTOR_LEN as u64 * SECTOR_LEN as u64, &[0; SECTOR_LEN]),
            2 => {
                let mut sector = [0; SECTOR_LEN];
                let from = self.number(2)? * SECTOR_LEN as u64 % length.max(1);
                disk.read_at(file, from, &mut sector).expect("a file of the sample");
                write(offset / SECTOR_LEN as u64 * SECTOR_LEN as u64, &sector);
            }
            _ => {
                let count = (self.number(1)? as usize % 16 + 1).min(self.input.len());
                let (bytes, rest) = self.input.split_at(count);
                self.input = rest;
                write(offset, bytes);
            }
        }
        Some(())
    }
}

/// Returns the sample with the files whose names begin with `folder` changed by `input`.
fn changed(sample: &Image, folder: &str, input: &[u8]) -> SimDisk {
    let disk = SimDisk::from_image(sample.clone());
    let names: Vec<String> = sample.names().filter(|name| name.starts_with(folder)).map(String::from).collect();
    let mut changes = Changes { input };
    while changes.make(&disk, &names).is_some() {}
    disk
}

/// Reads the whole log of a changed store.
fn read_log(disk: &SimDisk) -> Result<u64, LogError> {
    let media: Arc<dyn Media> = Arc::new(disk.clone());
    let found = Log::look(&media)?;
    let mut scan = found.scan(found.control().checkpoint.scan_lsn.max(Lsn::new(1)))?;
    let mut records = 0;
    while let Some(scanned) = scan.next()? {
        records += 1;
        if records % 16 == 0 {
            found.read(scanned.record.position)?;
        }
    }
    Ok(records)
}

fn unchanged_by<T>(disk: &SimDisk, look: impl FnOnce(&SimDisk) -> T) -> T {
    let before = disk.image().hash();
    let seen = look(disk);
    assert!(disk.image().hash() == before, "looking changed a file");
    seen
}

/// Reads a changed log. Returns the number of records, or an error that names a file.
pub fn log_reader(sample: &Image, input: &[u8]) -> Result<u64, String> {
    let disk = changed(sample, "log/", input);
    unchanged_by(&disk, read_log).map_err(|error| error.to_string())
}

/// Reads a changed control file, like [`log_reader`].
pub fn control_file(sample: &Image, input: &[u8]) -> Result<u64, String> {
    let disk = changed(sample, "control", input);
    unchanged_by(&disk, read_log).map_err(|error| error.to_string())
}

/// Opens, checks, reads and writes a store, with changes in any of its files. Returns the number of entries of its table, or
/// the first error.
pub fn store(sample: &Image, input: &[u8]) -> Result<u64, String> {
    let disk = changed(sample, "", input);
    let options = Options { create: false, ..Options::simulated() };
    let open_and_use = || -> cedrat::Result<u64> {
        let store = Store::open(Arc::new(disk), options, cedrat::registry())?;
        store.check()?;
        store.transact(|txn| {
            let table = HashTable::<u64, String>::open(txn, "table")?;
            table.get(txn, &7)?;
            table.insert(txn, &7, &"seven".to_string())?;
            table.len(txn)
        })
    };
    open_and_use().map_err(|error| error.to_string())
}

/// Name of the graph in [`graph_sample`].
const GRAPH: &str = "graph";

/// Makes a small store with a graph: objects in cycles, one in pieces, an unreachable one, and roots.
pub fn graph_sample() -> Image {
    let disk = SimDisk::new();
    let store = Store::open(Arc::new(disk.clone()), Options::simulated(), cedrat::registry()).expect("a new store");
    let graph = Graph::create(&store, GRAPH, graph::Options::default()).expect("a new graph");
    for definition in [b"small", b"large"] {
        graph.define_class(definition).expect("room");
    }
    let mut changes = graph::Changes::new();
    let second = changes.next(1);
    let first = changes.add(1, &[1; 40], &[second, second, Reference::NULL]);
    changes.add(1, &[2; 8], &[first]);
    let large = changes.add(2, &[3; 9000], &[first, second]);
    changes.add(1, b"an unreachable object", &[first]);
    changes.set_root("first", first).set_root("large", large);
    let last = changes.add(1, &[], &[]);
    changes.set_root("last", last);
    graph.commit(&changes, Mode::Sync).expect("room");
    drop(graph);
    store.close().expect("an honest disk");
    disk.image()
}

/// The whole content of a graph.
#[derive(Debug, PartialEq)]
struct Content {
    objects: BTreeMap<u64, Vec<u8>>,
    roots: BTreeMap<String, Reference>,
}

impl Content {
    /// Reads a graph, which must be sound, except for references to objects that do not exist: a commit may contain invented
    /// references (E21.4).
    fn of(graph: &Graph) -> Content {
        let mut problems = graph.check().expect("nothing keeps it from looking").problems;
        problems.retain(|problem| !problem.contains("is not an object"));
        assert!(problems.is_empty(), "E21.4: {problems:?}");
        let mut objects = BTreeMap::new();
        for page in graph.object_pages().expect("an honest disk") {
            for identity in graph.objects_of_page(page).expect("an honest disk") {
                objects.insert(identity.get(), graph.read(identity).expect("it is there"));
            }
        }
        Content { objects, roots: graph.roots().expect("an honest disk").into_iter().collect() }
    }
}

/// Returns valid changes of each kind: variants with some other bytes are more likely to pass the first validations.
fn sensible_changes(sample: &Content) -> Vec<u8> {
    let mut changes = graph::Changes::new();
    let there: Vec<Identity> = sample.objects.keys().filter_map(|&number| Identity::new(number)).collect();
    let next = changes.next(1);
    let made = changes.add(1, &[5; 24], &[there[0].into(), next]);
    changes.add(2, &[6; 16], &[made]);
    for &identity in &there {
        changes.patch(identity, 8, &[7; 8]);
    }
    changes.patch_reference(there[0], 48, made);
    changes.put(there[1], 2, &[8; 4000], &[made, there[0].into()]);
    changes.set_root("made", made).remove_root("last").set_root("first", there[1]);
    changes.as_bytes().to_vec()
}

/// Returns the buffer of a commit for fuzz input: the input itself, or valid changes with some bytes of the input in them.
fn buffer(sample: &Content, input: &[u8]) -> Vec<u8> {
    let Some((&kind, mut rest)) = input.split_first() else { return Vec::new() };
    if kind & 1 == 0 {
        return rest.to_vec();
    }
    let mut buffer = sensible_changes(sample);
    while let [high, low, how, byte, left @ ..] = rest {
        rest = left;
        let at = usize::from(u16::from_be_bytes([*high, *low])) % buffer.len().max(1);
        match how & 7 {
            0 => buffer.truncate(at),
            1 => drop(buffer.drain(at..(at + usize::from(*byte)).min(buffer.len()))),
            2 => buffer.splice(at..at, std::iter::repeat_n(*byte, usize::from(how >> 3))).for_each(drop),
            // Words that may be taken for references and numbers.
            3 if at + 8 <= buffer.len() => {
                let from = usize::from(*byte) * 8 % (buffer.len() - 7);
                buffer.copy_within(from..from + 8, at / 8 * 8);
            }
            _ if at < buffer.len() => buffer[at] = *byte,
            _ => {}
        }
    }
    buffer
}

/// Commits a buffer to a graph. Any bytes are refused without an effect, or they are committed and the graph is sound, also
/// after another opening. They are committed by a branch too, or rolled back with one. Returns the number of objects, or the
/// reason of the refusal.
pub fn graph_commit(sample: &Image, input: &[u8]) -> Result<u64, String> {
    let disk = SimDisk::from_image(sample.clone());
    let open = || {
        let options = Options { create: false, ..Options::simulated() };
        let store = Store::open(Arc::new(disk.clone()), options, cedrat::registry()).expect("an honest disk");
        let graph = Graph::open(&store, GRAPH, graph::Options::default()).expect("an honest disk");
        (store, graph)
    };
    let (store, graph) = open();
    let before = Content::of(&graph);
    let buffer = buffer(&before, input);
    let (done, stays) = match input.first().map_or(0, |kind| kind >> 1 & 3) {
        0 | 1 => (graph.commit(&buffer, Mode::Async).map(drop), true),
        how => {
            let prepared = graph.prepare(&buffer, b"branch");
            let ended = prepared.and_then(|branch| match (branch.vote, how) {
                (Vote::ReadOnly, _) => Ok(()),
                (Vote::Prepared(prepared), 2) => prepared.commit(Commit::Sync).map(drop),
                (Vote::Prepared(prepared), _) => prepared.rollback(),
            });
            (ended, how == 2)
        }
    };
    let after = Content::of(&graph);
    if done.is_err() || !stays {
        assert_eq!(after, before, "what is refused, or rolled back, has done nothing (E21.1)");
    }
    drop(graph);
    store.close().expect("an honest disk");
    let (store, graph) = open();
    assert_eq!(Content::of(&graph), after, "what was committed is there");
    let mut collection = graph.collect([]).expect("no other collection runs");
    while collection.step(100).expect("an honest disk") != graph::Stage::Done {
        if collection.stage() == graph::Stage::Marked {
            collection.seal([]).expect("an honest disk");
        }
    }
    drop(collection);
    let kept = Content::of(&graph);
    assert_eq!(kept.roots, after.roots);
    assert!(kept.objects.iter().all(|(identity, bytes)| after.objects.get(identity) == Some(bytes)), "E21.5");
    drop(graph);
    store.close().expect("an honest disk");
    done.map(|()| after.objects.len() as u64).map_err(|error| error.to_string())
}

/// Reads any bytes as a page of each layout. Returns the number of layouts that accept them.
pub fn page_reader(input: &[u8]) -> u64 {
    let mut bytes = [0; PAGE_LEN];
    let length = input.len().min(PAGE_LEN);
    bytes[..length].copy_from_slice(&input[..length]);
    let id = PageId::new(7);
    let _ = verify(&bytes, id);
    let mut sensible = 0;
    for layout in Layouts::default().iter() {
        // With the kind of this layout: otherwise most input would end there.
        bytes[6..8].copy_from_slice(&layout.kind().0.to_le_bytes());
        let page = PageBuf::from_bytes(id, &bytes);
        let page = page.page_ref();
        let mut total = 0;
        let mut each = |_: Slot, record: &[u8]| total += record.len();
        let read: Result<(), Damaged> = layout.records(&page, &mut each);
        sensible += u64::from(read.is_ok() && layout.check(&page).is_ok());
        assert!(total <= PAGE_LEN * PAGE_LEN, "more than a page can hold");
    }
    sensible
}
