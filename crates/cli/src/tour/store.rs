//! The tour's store: how often each word occurs, and which pieces are counted.
//!
//! A hash table leads from a word to its counter. The counters lie on pages of the tour's own, many to a page,
//! and change only by an operation of its own, [`Increment`]: all of it written with what any user has.
//! Additions commute, so counters need no locks: two files with the same word are counted at the same time, and
//! the undo of one subtracts just what it had added.
//!
//! A new word gets its counter, at zero, in a short transaction before the one that counts. It stays if that
//! one is undone, with a count of zero that means nothing.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use cedrat::media::RealDisk;
use cedrat::pages::{BODY_LEN, Damaged, LayoutKind, PageId, PageMut, PageRef, Slot};
use cedrat::structures::HashTable;
use cedrat::txn::{Commit, FormatFresh, Operation, Options, RecordId, Refused, Result, Store, Txn, Undo};
use serde::{Deserialize, Serialize};

use super::plain::Counts;
use crate::retry::commit;

/// Adds to a counter; a negative amount takes away.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Increment {
    amount: i64,
}

impl Operation for Increment {
    const NAME: &'static str = "tour.increment.v1";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        let count = page.u64_at(offset(at))?;
        match count.checked_add_signed(self.amount) {
            Some(_) => Ok(Undo::op(Increment { amount: -self.amount })),
            None => Err(Refused::new("the counter would overflow")),
        }
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        let count = page.page_ref().u64_at(offset(at))?;
        page.put_u64(offset(at), count.wrapping_add_signed(self.amount))
    }
}

/// Number of counters on a page.
const COUNTERS_IN_PAGE: u16 = (BODY_LEN / size_of::<u64>()) as u16;

/// Where in a page's body a counter lies.
fn offset(at: Slot) -> usize {
    usize::from(at.0) * size_of::<u64>()
}

/// The place of a counter: page and slot.
type Place = (u64, u16);

fn record((page, slot): Place) -> RecordId {
    RecordId::new(PageId::new(page), Slot(slot))
}

/// Number of new words that get their counters in one transaction, so that other threads get in between.
const NAMED_AT_ONCE: usize = 1024;

/// No word: the key under which the place of the counter given last is kept.
const LAST_GIVEN: &str = "";

/// The open store of a tour.
pub(crate) struct WordStore {
    store: Store,
    /// The place of each word's counter.
    words: HashTable<String, Place>,
    /// Number of words of each counted piece.
    done: HashTable<u64, u64>,
    /// Held while new words get their counters, so that no word gets two.
    naming: Mutex<()>,
}

impl WordStore {
    /// Opens the store in `directory`, which is recovering it; makes it if it is not there.
    pub(crate) fn open(directory: &Path) -> Result<WordStore> {
        let media = Arc::new(RealDisk::new(directory));
        let store = Store::open(media, Options::default(), crate::registry())?;
        let (words, done) = store.transact(|txn| {
            let words = HashTable::open_or_create(txn, "tour.words")?;
            Ok((words, HashTable::open_or_create(txn, "tour.done")?))
        })?;
        Ok(WordStore { store, words, done, naming: Mutex::default() })
    }

    /// The store itself.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// The pieces that are counted.
    pub(crate) fn done(&self) -> Result<Vec<u64>> {
        self.store.transact(|txn| {
            let mut pieces = Vec::new();
            for entry in self.done.iter(txn)? {
                pieces.push(entry?.0);
            }
            Ok(pieces)
        })
    }

    /// Counts a piece, in one transaction: adds to the counter of each word, and notes that the piece is
    /// done. When half of the words are added, `halfway` is called with the transaction.
    pub(crate) fn count(
        &self,
        piece: u64,
        counts: &Counts,
        mut halfway: impl FnMut(&mut Txn) -> Result<()>,
    ) -> Result<()> {
        let counters = self.counters_of(counts)?;
        self.store.transact(|txn| {
            let half = counters.len() / 2;
            for (number, (counter, amount)) in counters.iter().enumerate() {
                if number == half {
                    halfway(txn)?;
                }
                let amount = *amount as i64; // a piece is far shorter than that
                txn.update_latched(record(*counter), &Increment { amount })?;
            }
            if counters.is_empty() {
                halfway(txn)?;
            }
            self.done.insert(txn, &piece, &counts.values().sum())?;
            Ok(())
        })
    }

    /// The counters of some words, in the order of their places, with what is to be added to each.
    ///
    /// No deadlock occurs: a look at a word holds one lock, and only one thread at a time assigns counters.
    fn counters_of(&self, counts: &Counts) -> Result<Vec<(Place, u64)>> {
        let mut counters = Vec::with_capacity(counts.len());
        let mut new = Vec::new();
        for (word, amount) in counts {
            let mut txn = self.store.begin();
            match self.words.get(&mut txn, &**word)? {
                Some(counter) => counters.push((counter, *amount)),
                None => new.push((&**word, *amount)),
            }
        }
        for some in new.chunks(NAMED_AT_ONCE) {
            let _alone = self.naming.lock().unwrap_or_else(PoisonError::into_inner);
            // It need not be durable by itself: transactions that count with these counters come later in the log.
            let (places, _ticket) = commit(&self.store, Commit::Async, |txn| {
                some.iter().map(|(word, _)| self.name(txn, word)).collect::<Result<Vec<_>>>()
            })?;
            counters.extend(places.into_iter().zip(some.iter().map(|(_, amount)| *amount)));
        }
        counters.sort_unstable();
        Ok(counters)
    }

    /// Gives a word the next counter, if no other thread did meanwhile.
    fn name(&self, txn: &mut Txn, word: &str) -> Result<Place> {
        if let Some(counter) = self.words.get(txn, word)? {
            return Ok(counter);
        }
        let counter = match self.words.get(txn, LAST_GIVEN)? {
            Some((page, slot)) if slot + 1 < COUNTERS_IN_PAGE => (page, slot + 1),
            _ => {
                let page = txn.allocate()?;
                txn.update_latched(RecordId::page(page), &FormatFresh::new(LayoutKind::RAW))?;
                (page.get(), 0)
            }
        };
        self.words.insert(txn, LAST_GIVEN, &counter)?;
        self.words.insert(txn, word, &counter)?;
        Ok(counter)
    }

    fn count_at(&self, (page, slot): Place) -> Result<u64> {
        Ok(self.store.read(PageId::new(page))?.u64_at(offset(Slot(slot)))?)
    }

    /// How often a word was counted.
    pub(crate) fn count_of(&self, txn: &mut Txn, word: &str) -> Result<u64> {
        match self.words.get(txn, word)? {
            Some(counter) => self.count_at(counter),
            None => Ok(0),
        }
    }

    /// Returns the number of words that were counted at least once.
    pub(crate) fn words_counted(&self, txn: &mut Txn) -> Result<u64> {
        let mut words = 0;
        for entry in self.words.iter(txn)? {
            let (word, counter) = entry?;
            words += u64::from(word != LAST_GIVEN && self.count_at(counter)? > 0);
        }
        Ok(words)
    }

    /// Closes the store in good order.
    pub(crate) fn close(self) -> Result<()> {
        let WordStore { store, words, done, .. } = self;
        drop((words, done));
        store.close()
    }
}
