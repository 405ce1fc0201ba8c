//! Objects reachable from roots, breadth first.
//!
//! A bit in memory for each place says whether its object was met. The queue is a temporary file of all that were met, in the
//! order of the search, each with its origin: so it is also the way back to a root.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use cedrat::graph::Identity;

use crate::output::{Context, Failure};

const ENTRY_LEN: usize = 16;

/// Entries that are written to the file at a time.
const FRESH_MAX: usize = 1 << 16;

/// Words of the marks of neighbours. A page has slots of any number, though not many at a time: so not all of a page are together.
const MARK_WORDS: usize = 2;

/// Objects whose identities, as numbers, differ by less than this are neighbours, if they are of one multiple of it.
const NEIGHBOURS: u64 = 64 * MARK_WORDS as u64;

/// Origin by which an object was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The root of this number.
    Root(usize),
    /// The object that was met as this.
    Met(u64),
}

const OF_ROOT: u64 = 1 << 63;

impl By {
    fn word(self) -> u64 {
        match self {
            By::Root(number) => OF_ROOT | number as u64,
            By::Met(number) => number,
        }
    }

    fn of(word: u64) -> By {
        if word & OF_ROOT != 0 { By::Root((word & !OF_ROOT) as usize) } else { By::Met(word) }
    }
}

/// Objects that were met, in that order.
#[derive(Debug)]
pub(super) struct Reach {
    marks: HashMap<u64, [u64; MARK_WORDS]>,
    file: File,
    in_file: u64,
    fresh: Vec<u8>,
}

impl Reach {
    pub(super) fn new() -> Result<Reach, Failure> {
        let file = tempfile::tempfile().while_doing("making a temporary file")?;
        Ok(Reach { marks: HashMap::new(), file, in_file: 0, fresh: Vec::new() })
    }

    /// Returns the number of reached objects.
    pub(super) fn len(&self) -> u64 {
        self.in_file + (self.fresh.len() / ENTRY_LEN) as u64
    }

    /// Meets an object, if it is the first time.
    pub(super) fn meet(&mut self, identity: Identity, by: By) -> Result<(), Failure> {
        let (group, word, bit) = bit(identity);
        let marks = self.marks.entry(group).or_default();
        if marks[word] & bit == 0 {
            marks[word] |= bit;
            self.fresh.extend(identity.get().to_le_bytes());
            self.fresh.extend(by.word().to_le_bytes());
            if self.fresh.len() >= FRESH_MAX * ENTRY_LEN {
                let at = self.in_file * ENTRY_LEN as u64;
                self.file.write_all_at(&self.fresh, at).while_doing("writing to a temporary file")?;
                self.in_file = self.len();
                self.fresh.clear();
            }
        }
        Ok(())
    }

    /// Whether an object was met.
    pub(super) fn has_met(&self, identity: Identity) -> bool {
        let (group, word, bit) = bit(identity);
        self.marks.get(&group).is_some_and(|marks| marks[word] & bit != 0)
    }

    /// The object that was met as this, and who has led to it.
    pub(super) fn get(&self, number: u64) -> Result<(Identity, By), Failure> {
        let mut entry = [0; ENTRY_LEN];
        if number < self.in_file {
            let at = number * ENTRY_LEN as u64;
            self.file.read_exact_at(&mut entry, at).while_doing("reading from a temporary file")?;
        } else {
            let at = (number - self.in_file) as usize * ENTRY_LEN;
            entry.copy_from_slice(&self.fresh[at..at + ENTRY_LEN]);
        }
        let [identity, by] = [0, 8].map(|at| u64::from_le_bytes(*entry[at..].first_chunk().expect("16 bytes")));
        Ok((Identity::new(identity).expect("only identities are met"), By::of(by)))
    }
}

fn bit(identity: Identity) -> (u64, usize, u64) {
    let (group, number) = (identity.get() / NEIGHBOURS, identity.get() % NEIGHBOURS);
    (group, number as usize / 64, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reached_objects_are_listed_in_order() {
        let mut reach = Reach::new().unwrap();
        // On each page others of the numbers that slots can have.
        let identity = |number: u64| Identity::new((number / 300 + 1) << 16 | (number % 60_000 + 1)).unwrap();
        let count = 2 * FRESH_MAX as u64 + 100;
        for number in 0..count {
            let by = if number == 0 { By::Root(7) } else { By::Met(number / 2) };
            assert!(!reach.has_met(identity(number)));
            for by in [by, By::Root(9)] {
                reach.meet(identity(number), by).unwrap(); // the second time says nothing new
            }
        }
        assert_eq!(reach.len(), count);
        assert_eq!(reach.get(0).unwrap(), (identity(0), By::Root(7)));
        for number in (1..count).step_by(999).chain([FRESH_MAX as u64, count - 1]) {
            assert_eq!(reach.get(number).unwrap(), (identity(number), By::Met(number / 2)));
        }
    }
}
