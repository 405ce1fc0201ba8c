//! `cedrat load`: a new store from a dump.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::sync::Arc;

use cedrat::heap::{Heap, HeapOptions, WORD_LEN};
use cedrat::media::Media;
use cedrat::objects::{self, Objects};
use cedrat::structures::{Catalogue, Kind, Named, RawArrayList, RawHashTable, RawList, RawPageList, Records};
use cedrat::txn::{Commit, Options, Store, Txn};
use serde::Serialize;

use super::graph;
use super::line::{DumpedKind, Line, Reader};
use super::unfinished::Unfinished;
use crate::arguments::Load;
use crate::disks::Disks;
use crate::output::{self, Context, Failure, Outcome, fail, grouped, plain};

/// Number of elements, and of their bytes, of a transaction.
const ELEMENTS: usize = 256;
const BYTES: usize = 256 << 10;

/// The content of a loaded store.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    structures: Vec<Part>,
    heaps: Vec<Part>,
    /// Structures that the dump does not have.
    skipped: Vec<Part>,
    /// References to objects that the dump does not have: of unreachable objects to removed ones, or of a damaged store. They are
    /// null now.
    pub(super) lost_references: u64,
    /// Defects that a salvage accepts.
    #[serde(skip)]
    pub(super) problems: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Part {
    name: String,
    kind: String,
    /// Number of its lines in the dump.
    lines: u64,
}

/// A structure that is being loaded.
enum Target {
    HashTable(RawHashTable),
    ArrayList(RawArrayList),
    List(RawList),
    PageList(RawPageList),
    Records(Records),
    Objects(Objects),
    Graph(Box<graph::Loaded>),
    Heap(Heap),
}

/// A store that is being loaded.
struct Loader<R> {
    from: Reader<R>,
    store: Store,
    txn: Option<Txn>,
    elements: usize,
    bytes: usize,
    is_salvage: bool,
    report: Report,
}

/// Makes a store from a dump.
pub(crate) fn load(arguments: &Load, disks: &Disks) -> Outcome {
    let from: Box<dyn BufRead> = match arguments.from.to_str() {
        Some("-") => Box::new(io::stdin().lock()),
        _ => Box::new(BufReader::new(File::open(&arguments.from).while_doing(arguments.from.display())?)),
    };
    let mut from = Reader::new(from);
    // Refused before anything is created.
    let first = from.line()?;
    if first.is_none() {
        return fail(format!("{} is empty", arguments.from.display()));
    }
    let to = Unfinished::create(&arguments.directory)?;
    let report = load_into(&to, from, disks, false).while_doing(arguments.from.display())?;
    to.complete()?;
    if arguments.json {
        return output::json(&report);
    }
    print(&report)
}

fn open(media: Arc<dyn Media>, disks: &Disks, create: bool) -> Result<Store, Failure> {
    let options = Options { create, ..Options::default() };
    Ok(Store::open(media, disks.options(options), crate::registry())?)
}

/// Loads all lines behind the first one, closes the store, and checks it.
///
/// `is_salvage`: the dump is of a damaged store, which may have a key twice, references to lost objects, and blocks of heaps that
/// do not verify.
pub(super) fn load_into<R: BufRead>(
    to: &Unfinished,
    from: Reader<R>,
    disks: &Disks,
    is_salvage: bool,
) -> Result<Report, Failure> {
    let store = open(to.media(), disks, true)?;
    let mut loader = Loader { from, store, txn: None, elements: 0, bytes: 0, is_salvage, report: Report::default() };
    loader.all()?;
    let Loader { store, mut report, .. } = loader;
    store.close()?;
    check(to.media(), disks, &mut report, is_salvage).while_doing("checking the loaded store")?;
    Ok(report)
}

/// Opens the store again, and reads all pages and the blocks of heaps.
fn check(media: Arc<dyn Media>, disks: &Disks, report: &mut Report, is_salvage: bool) -> Outcome {
    let store = open(media, disks, false)?;
    store.check()?;
    for heap in store.memory().heaps().into_iter().filter(|heap| heap.first_offset() > 0) {
        match heap.verify().while_doing(format!("heap {}", heap.name())) {
            Err(Failure(problem)) if is_salvage => report.problems.push(problem),
            verified => drop(verified?),
        }
    }
    let catalogue = Catalogue::open(&store)?;
    let mut txn = store.begin();
    let found = catalogue.list(&mut txn)?.len();
    txn.rollback()?;
    drop(catalogue);
    if found != report.structures.len() {
        return fail(format!("it has {found} structures, and the dump has {}", report.structures.len()));
    }
    Ok(store.close()?)
}

impl<R: BufRead> Loader<R> {
    /// Reads a line; the end of the file is none.
    fn line(&mut self) -> Result<Line, Failure> {
        match self.from.line()? {
            Some(line) => Ok(line),
            None => self.from.refuse("the file ends behind it, and is not complete"),
        }
    }

    fn all(&mut self) -> Outcome {
        loop {
            match self.line()? {
                Line::Structure { name, kind, schema, element_bytes } => {
                    let created = self.create(&name, kind, schema, element_bytes);
                    let target = self.at_line(created)?;
                    let lines = self.lines(target)?;
                    self.report.structures.push(Part { name, kind: kind.name().into(), lines });
                }
                Line::Heap { name, file, bytes, bytes_max, chunk_bytes, blocks, address } => {
                    let address = address.map(|address| address as usize);
                    let file = Some(file);
                    let options =
                        HeapOptions { size: bytes, size_max: bytes_max, file, address, blocks, chunk_len: chunk_bytes };
                    let created = self.store.memory().create_heap(&name, &options).map_err(Failure::from);
                    let target = Target::Heap(self.at_line(created)?);
                    let lines = self.lines(target)?;
                    self.report.heaps.push(Part { name, kind: "heap".into(), lines });
                }
                Line::Skipped { name, kind } => self.report.skipped.push(Part { name, kind, lines: 0 }),
                Line::EndOfDump { structures, heaps, skipped } => return self.ended([structures, heaps, skipped]),
                other => return self.from.refuse(format_args!("no {} line is expected here", other.name())),
            }
        }
    }

    /// Compares the last line with what was loaded, and refuses lines behind it.
    fn ended(&mut self, counts: [u64; 3]) -> Outcome {
        let Report { structures, heaps, skipped, .. } = &self.report;
        if counts != [structures, heaps, skipped].map(|parts| parts.len() as u64) {
            return self.from.refuse("it counts other structures or heaps than the dump has");
        }
        match self.from.line()? {
            None => Ok(()),
            Some(_) => self.from.refuse("it comes behind the end of the dump"),
        }
    }

    /// Adds the number of the line to a failure.
    fn at_line<T>(&self, done: Result<T, Failure>) -> Result<T, Failure> {
        done.or_else(|Failure(why)| self.from.refuse(why))
    }

    fn create(
        &mut self,
        name: &str,
        kind: DumpedKind,
        schema: u32,
        element_bytes: Option<u16>,
    ) -> Result<Target, Failure> {
        let store = self.store.clone();
        match kind {
            DumpedKind::Objects => {
                return Ok(Target::Objects(Objects::create(&store, name, objects::Options::default())?));
            }
            DumpedKind::Graph => {
                return Ok(Target::Graph(Box::new(graph::Loaded::create(&store, name, self.is_salvage)?)));
            }
            _ => {}
        }
        let element_bytes = match (kind, element_bytes) {
            (DumpedKind::ArrayList, None) => return fail("an array list has no element_bytes"),
            (_, element_bytes) => element_bytes.unwrap_or_default(),
        };
        let target = store.transact(|txn| {
            let catalogue = Catalogue::open(&store)?;
            let (target, kind, root) = match kind {
                DumpedKind::HashTable => {
                    let table = RawHashTable::create(txn)?;
                    let root = table.root();
                    (Target::HashTable(table), Kind::HashTable, root)
                }
                DumpedKind::ArrayList => {
                    let list = RawArrayList::create(txn, element_bytes)?;
                    let root = list.root();
                    (Target::ArrayList(list), Kind::ArrayList, root)
                }
                DumpedKind::List => {
                    let list = RawList::create(txn)?;
                    let root = list.root();
                    (Target::List(list), Kind::List, root)
                }
                DumpedKind::PageList => {
                    let list = RawPageList::create(txn)?;
                    let root = list.root();
                    (Target::PageList(list), Kind::PageList, root)
                }
                _ => return Ok(Target::Records(Records::create(txn, name)?)),
            };
            catalogue.add(txn, &Named { name: name.into(), kind, root, schema })?;
            Ok(target)
        });
        Ok(target?)
    }

    /// Loads the lines of a structure or a heap, and returns their number.
    fn lines(&mut self, mut target: Target) -> Result<u64, Failure> {
        let mut count = 0;
        loop {
            match self.line()? {
                Line::End { lines } if lines == count => {
                    self.commit()?;
                    if let Target::Graph(graph) = target {
                        let ended = graph.end();
                        self.report.lost_references += self.at_line(ended)?;
                    }
                    return Ok(count);
                }
                Line::End { lines } => {
                    return self.from.refuse(format_args!("it counts {lines} lines, and there are {count}"));
                }
                line => {
                    count += 1;
                    let added = self.add(&mut target, &line);
                    self.at_line(added)?;
                }
            }
        }
    }

    fn add(&mut self, target: &mut Target, line: &Line) -> Outcome {
        match (target, line) {
            (Target::Graph(graph), Line::Class { number, definition }) => {
                graph.class(*number, definition.as_ref().map(|bytes| &bytes.0[..]))
            }
            (Target::Graph(graph), Line::Node { identity, class, data, references }) => {
                let references: Vec<u64> = references.iter().map(|word| word.0).collect();
                graph.node(identity.0, *class, &data.0, &references)
            }
            (Target::Graph(graph), Line::Root { name, to }) => graph.root(name, to.0),
            (Target::Heap(heap), Line::Words { offset, words }) => {
                let words: Vec<u64> = words.iter().map(|word| word.0).collect();
                debug_assert_eq!(WORD_LEN, 8);
                Ok(heap.write_image(*offset, &words)?)
            }
            (target, line) => self.element(target, line),
        }
    }

    /// Adds an element in the current transaction.
    fn element(&mut self, target: &Target, line: &Line) -> Outcome {
        let txn = self.txn.get_or_insert_with(|| self.store.begin());
        let len = match (target, line) {
            (Target::HashTable(table), Line::Entry { key, value }) => {
                // A salvage has the entries first that the table itself would find.
                if self.is_salvage && table.contains(txn, &key.0)? {
                    return Ok(());
                }
                if table.put(txn, &key.0, &value.0)? {
                    return fail("the key is there twice");
                }
                key.0.len() + value.0.len()
            }
            (Target::ArrayList(list), Line::Element { bytes }) => {
                list.push(txn, &bytes.0)?;
                bytes.0.len()
            }
            (Target::List(list), Line::Element { bytes }) => {
                list.push_back(txn, &bytes.0)?;
                bytes.0.len()
            }
            (Target::PageList(list), Line::Element { bytes }) => {
                list.push_back(txn, &bytes.0)?;
                bytes.0.len()
            }
            (Target::Records(records), Line::Record { bytes, .. }) => {
                records.insert(txn, &bytes.0)?;
                bytes.0.len()
            }
            (Target::Objects(objects), Line::Record { bytes, .. }) => {
                objects.insert(txn, &bytes.0)?;
                bytes.0.len()
            }
            (_, other) => return fail(format!("no {} line is expected here", other.name())),
        };
        (self.elements, self.bytes) = (self.elements + 1, self.bytes + len);
        if self.elements < ELEMENTS && self.bytes < BYTES { Ok(()) } else { self.commit() }
    }

    fn commit(&mut self) -> Outcome {
        (self.elements, self.bytes) = (0, 0);
        match self.txn.take() {
            Some(txn) => Ok(txn.commit(Commit::NoFlush).map(drop)?),
            None => Ok(()),
        }
    }
}

fn print(report: &Report) -> Outcome {
    let text = |part: &Part| format!("{}, {}: {} lines", part.name, part.kind, grouped(part.lines));
    let mut rows = vec![("structures", report.structures.len().to_string())];
    rows.extend(report.structures.iter().map(|part| ("", text(part))));
    rows.push(("heaps", report.heaps.len().to_string()));
    rows.extend(report.heaps.iter().map(|part| ("", text(part))));
    for part in &report.skipped {
        rows.push(("skipped", format!("{}, {}: the dump does not have it", plain(&part.name), part.kind)));
    }
    if report.lost_references > 0 {
        let lost = grouped(report.lost_references);
        rows.push(("references", format!("{lost} to objects that are not in the dump are null")));
    }
    output::rows(&rows)
}
