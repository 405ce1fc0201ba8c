//! The entries of several runs, in order.

use cedrat_media::Media;
use cedrat_sync::planted;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::LogError;
use crate::index::Entry;
use crate::index::run::Run;

/// The number of blocks of a run that are read at a time.
const BLOCKS_AT_ONCE: usize = 16;

/// The sorted entries of several runs.
pub(crate) struct Merged<'r> {
    media: &'r dyn Media,
    inputs: Vec<Input<'r>>,
    /// The next entry of each input that has one.
    next: BinaryHeap<Reverse<(Entry, usize)>>,
}

struct Input<'r> {
    run: &'r Run,
    /// The next block to be read.
    block: usize,
    entries: VecDeque<Entry>,
}

impl Input<'_> {
    fn next(&mut self, media: &dyn Media) -> Result<Option<Entry>, LogError> {
        if self.entries.is_empty() {
            let blocks = BLOCKS_AT_ONCE.min(self.run.blocks() - self.block);
            self.run.read(media, self.block, blocks, &mut |entry| self.entries.push_back(entry))?;
            self.block += blocks;
        }
        Ok(self.entries.pop_front())
    }
}

impl<'r> Merged<'r> {
    pub(crate) fn new(media: &'r dyn Media, runs: &'r [Run]) -> Result<Merged<'r>, LogError> {
        let inputs = runs.iter().map(|run| Input { run, block: 0, entries: VecDeque::new() }).collect();
        let mut merged = Merged { media, inputs, next: BinaryHeap::new() };
        (0..runs.len()).try_for_each(|input| merged.advance(input))?;
        Ok(merged)
    }

    fn advance(&mut self, input: usize) -> Result<(), LogError> {
        let entry = self.inputs[input].next(self.media)?;
        self.next.extend(entry.map(|entry| Reverse((entry, input))));
        Ok(())
    }
}

impl Iterator for Merged<'_> {
    type Item = Result<Entry, LogError>;

    fn next(&mut self) -> Option<Result<Entry, LogError>> {
        let Reverse((entry, input)) =
            if planted!("index_merged_out_of_order") { self.next.drain().next() } else { self.next.pop() }?;
        Some(self.advance(input).map(|()| entry))
    }
}
