//! `cedrat dump` and `cedrat load`: a store as lines of text, and back.

mod graph;
mod line;
mod load;
mod salvage;
mod source;
mod spool;
mod unfinished;

use std::io::{self, BufWriter, Write};

use cedrat::heap::WORD_LEN;
use cedrat::objects::{self, Objects};
use cedrat::structures::{Catalogue, Kind, Named, RawArrayList, RawHashTable, RawList, RawPageList, Records};
use cedrat::txn::{RecordId, Store, Txn};
use cedrat_heap::HeapInfo;

use crate::arguments::Dump;
use crate::disks::Disks;
use crate::output::{self, Context, Outcome, plain};
use crate::verify::ToRead;
use line::{DumpedKind, Hex, Line, VERSION, Word, Writer};

pub(crate) use load::load;
pub(crate) use salvage::salvage;

/// Number of words of a heap in a line.
const WORDS: usize = 512;

/// A dump that is being written, with the number of lines since the last structure began.
struct Dumped<W> {
    to: Writer<W>,
    lines: u64,
    structures: u64,
    heaps: u64,
    skipped: u64,
}

/// Prints a store.
pub(crate) fn dump(arguments: &Dump, disks: &Disks) -> Outcome {
    let ToRead { recovered, lsn, heaps } = ToRead::open(&arguments.read, disks)?;
    let id = recovered.store.log().control().store;
    let to = Writer::new(BufWriter::new(io::stdout().lock()));
    let mut dumped = Dumped { to, lines: 0, structures: 0, heaps: 0, skipped: 0 };
    dumped.to.line(&Line::Dump { version: VERSION, store: Hex(id.to_vec()), lsn: lsn.get() })?;
    dumped.structures(&recovered.store)?;
    heaps.iter().try_for_each(|info| dumped.heap(&recovered.store, info).while_doing(format!("heap {}", info.name)))?;
    let Dumped { structures, heaps, skipped, .. } = dumped;
    dumped.to.line(&Line::EndOfDump { structures, heaps, skipped })?;
    Ok(dumped.to.flush()?)
}

impl<W: Write> Dumped<W> {
    /// Writes a line of a structure or a heap.
    fn line(&mut self, line: &Line) -> Outcome {
        self.lines += 1;
        Ok(self.to.line(line)?)
    }

    /// Ends a structure or a heap.
    fn end(&mut self) -> Outcome {
        let lines = std::mem::take(&mut self.lines);
        Ok(self.to.line(&Line::End { lines })?)
    }

    fn structures(&mut self, store: &Store) -> Outcome {
        let catalogue = Catalogue::open(store)?;
        let mut txn = store.begin();
        for named in catalogue.list(&mut txn)? {
            let Some(kind) = dumped_kind(named.kind) else {
                self.skipped += 1;
                let kind = named.kind.to_string();
                output::note(format_args!("skipped: {}, {kind}: only its own program can read it", plain(&named.name)));
                self.to.line(&Line::Skipped { name: named.name, kind })?;
                continue;
            };
            self.structures += 1;
            let element_bytes = match named.kind {
                Kind::ArrayList => Some(RawArrayList::open(store, named.root)?.element_len()),
                _ => None,
            };
            let (name, schema) = (named.name.clone(), named.schema);
            self.to.line(&Line::Structure { name, kind, schema, element_bytes })?;
            self.elements(store, &mut txn, &named).while_doing(&named.name)?;
            self.end()?;
        }
        Ok(txn.rollback()?)
    }

    /// Writes the elements of a structure of a known kind.
    fn elements(&mut self, store: &Store, txn: &mut Txn, named: &Named) -> Outcome {
        match named.kind {
            Kind::HashTable => {
                for entry in RawHashTable::open(store, named.root)?.iter(txn)? {
                    let (key, value) = entry?;
                    self.line(&Line::Entry { key: Hex(key), value: Hex(value) })?;
                }
                Ok(())
            }
            Kind::ArrayList => self.ordered(RawArrayList::open(store, named.root)?.iter(txn)?),
            Kind::List => self.ordered(RawList::open(store, named.root)?.iter(txn)?),
            Kind::PageList => self.ordered(RawPageList::open(store, named.root)?.iter(txn)?),
            Kind::Records => {
                for (at, bytes) in Records::open_root(store, named.root)?.all(txn)? {
                    self.line(&Line::Record { at: place(at), bytes: Hex(bytes) })?;
                }
                Ok(())
            }
            Kind::Objects => {
                let objects = Objects::open(store, &named.name, objects::Options::default())?;
                for id in objects.ids(txn)? {
                    let bytes = objects.read(txn, id, <[u8]>::to_vec)?;
                    self.line(&Line::Record { at: place(id), bytes: Hex(bytes) })?;
                }
                Ok(())
            }
            _ => graph::dump(self, store, &named.name),
        }
    }

    fn ordered(&mut self, elements: impl Iterator<Item = cedrat::prelude::Result<Vec<u8>>>) -> Outcome {
        for element in elements {
            self.line(&Line::Element { bytes: Hex(element?) })?;
        }
        Ok(())
    }

    /// Begins a heap of `bytes` bytes.
    fn begin_heap(&mut self, info: &HeapInfo, bytes: u64) -> Outcome {
        self.heaps += 1;
        let HeapInfo { name, file, .. } = info.clone();
        let (bytes_max, chunk_bytes) = (info.size_max, info.chunk_len);
        let (blocks, address) = (info.blocks, info.address);
        Ok(self.to.line(&Line::Heap { name, file, bytes, bytes_max, chunk_bytes, blocks, address })?)
    }

    fn heap(&mut self, store: &Store, info: &HeapInfo) -> Outcome {
        let heap = store.memory().heap(&info.name)?;
        self.begin_heap(info, heap.size())?;
        let mut words = [0; WORDS];
        let step = WORDS as u64 * WORD_LEN;
        for offset in (0..heap.size()).step_by(WORDS * WORD_LEN as usize) {
            let words = &mut words[..(step.min(heap.size() - offset) / WORD_LEN) as usize];
            heap.read_image(offset, words)?;
            words_in(offset, words).try_for_each(|line| self.line(&line))?;
        }
        self.end()
    }
}

/// Returns the lines of words from a byte offset of a heap on, without those that are zero.
fn words_in(offset: u64, words: &[u64]) -> impl Iterator<Item = Line> + '_ {
    let step = WORDS as u64 * WORD_LEN;
    words.chunks(WORDS).zip((offset..).step_by(step as usize)).filter_map(|(words, offset)| {
        let (first, last) = (words.iter().position(|&word| word != 0)?, words.iter().rposition(|&word| word != 0)?);
        let words = words[first..=last].iter().copied().map(Word).collect();
        Some(Line::Words { offset: offset + first as u64 * WORD_LEN, words })
    })
}

/// Page and slot of a record.
fn place(at: RecordId) -> String {
    format!("{}:{}", at.page, at.slot)
}

fn dumped_kind(kind: Kind) -> Option<DumpedKind> {
    match kind {
        Kind::HashTable => Some(DumpedKind::HashTable),
        Kind::ArrayList => Some(DumpedKind::ArrayList),
        Kind::List => Some(DumpedKind::List),
        Kind::PageList => Some(DumpedKind::PageList),
        Kind::Records => Some(DumpedKind::Records),
        Kind::Objects => Some(DumpedKind::Objects),
        Kind::Graph => Some(DumpedKind::Graph),
        _ => None,
    }
}
