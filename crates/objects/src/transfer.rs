//! Transfer of records between cache and pages: the only code of a cache that waits for I/O, never under its latch (E19.18).
//!
//! | step | under the latch | without it |
//! |---|---|---|
//! | admit | reserve memory; wait until the record is in no phase; enter it as `Loading` | check whether the page still has it |
//! | | set its bytes: `Present` | |
//! | flush | wait until the record is in no phase; copy it: `Flushing` | write the copy to the page |
//! | | its oldest change that is in no page is one after the copy: `Present` | |
//! | make room | choose a victim; drop it if its page has it | else flush it |
//!
//! Changes continue while a record is flushed: the copy is written to the page, and [`Kept::after`](crate::kept::Kept) notes
//! the first change that is not in it. `since` stays until the page has the copy, so the log is held (E19.4).
//!
//! Memory is reserved before a record is entered, so a thread that waits for space has no record in an I/O phase. It waits
//! while other records are in one, or other reservations exist, because these end; otherwise there is no space.

use cedrat_pages::PageId;
use cedrat_pages::layout::Versioned;
use cedrat_sync::{Condvar, MutexGuard, planted};
use cedrat_txn::object_cache::KeptRecord;
use cedrat_txn::{Error, RecordId, Refused, Result};

use crate::cache::{Cache, Pages};
use crate::error::ObjectError;
use crate::kept::{Image, Kept, OVERHEAD_BYTES, Owed, Phase};
use crate::state::{Flush, Source, State};

pub(crate) type Latched<'c> = MutexGuard<'c, State>;

/// Condition variables on which threads wait for the end of a phase. Records share them by their place.
#[derive(Default)]
pub(crate) struct Waiting {
    records: [Condvar; 16],
    room: Condvar,
}

impl Waiting {
    fn record(&self, at: RecordId) -> &Condvar {
        &self.records[(at.page.get() ^ u64::from(at.slot.0)) as usize % self.records.len()]
    }
}

/// A record in an I/O phase. Dropped by an error or a panic, it ends the phase without an effect.
struct Transfer<'c> {
    cache: &'c Cache,
    at: RecordId,
    is_ended: bool,
}

impl<'c> Transfer<'c> {
    fn of(cache: &'c Cache, at: RecordId) -> Transfer<'c> {
        Transfer { cache, at, is_ended: false }
    }

    /// Ends the phase, after `end` has stored the result of the I/O. Returns the held latch.
    fn end(mut self, end: impl FnOnce(&mut State)) -> Latched<'c> {
        let mut state = self.cache.state.lock();
        end(&mut state);
        self.end_phase(&mut state);
        state
    }

    fn end_phase(&mut self, state: &mut State) {
        self.is_ended = true;
        state.end_phase(self.at);
        let waiting = &self.cache.waiting;
        waiting.record(self.at).notify_all();
        waiting.room.notify_all();
    }
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        if !self.is_ended {
            let cache = self.cache;
            self.end_phase(&mut cache.state.lock());
        }
    }
}

/// Reserved memory of a cache. Dropping it releases the memory under the latch: declare it before a guard of the latch, which
/// is then dropped first.
pub(crate) struct Reservation<'c> {
    cache: &'c Cache,
    bytes: u64,
}

impl<'c> Reservation<'c> {
    pub(crate) fn none(cache: &'c Cache) -> Reservation<'c> {
        Reservation { cache, bytes: 0 }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Releases `bytes` of it, at most all.
    pub(crate) fn release(&mut self, state: &mut State, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        if bytes > 0 {
            self.bytes -= bytes;
            state.used_bytes -= bytes;
            state.reserved_bytes -= bytes;
            self.cache.waiting.room.notify_all();
        }
    }
}

/// All records must stay.
pub(crate) struct NothingEvictable {
    /// The reason, if one could be evicted otherwise.
    why: Option<Error>,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let cache = self.cache;
            self.release(&mut cache.state.lock(), u64::MAX);
        }
    }
}

impl Cache {
    /// Waits until the record is in no phase of I/O.
    pub(crate) fn settle(&self, state: &mut Latched<'_>, at: RecordId) {
        while state.is_busy(at) {
            self.waiting.record(at).wait(state);
        }
    }

    /// Waits until no record is in a phase of I/O.
    pub(crate) fn settle_all(&self, state: &mut Latched<'_>) {
        while state.busy > 0 {
            self.waiting.room.wait(state);
        }
    }

    /// Reserves memory, and evicts other records if necessary. Returns no reservation if all others must stay.
    ///
    /// A record whose page cannot be written stays, and hinders no request while another one can be evicted: it holds the log,
    /// so the checkpoints report it (E19.4).
    pub(crate) fn reserve<'c>(
        &'c self,
        mut state: Latched<'c>,
        bytes: u64,
        except: RecordId,
        pages: &dyn Pages,
    ) -> Result<(Result<Reservation<'c>, NothingEvictable>, Latched<'c>)> {
        let mut unwritable: Vec<PageId> = Vec::new();
        let mut why = None;
        loop {
            if state.used_bytes + bytes <= self.cache_bytes {
                state.used_bytes += bytes;
                state.reserved_bytes += bytes;
                return Ok((Ok(Reservation { cache: self, bytes }), state));
            }
            match state.victim(|at| at != except && !unwritable.contains(&at.page)) {
                Some(victim) => match self.flush_latched(state, victim, pages) {
                    Ok(flushed) => {
                        state = flushed;
                        state.statistics.evictions += u64::from(state.drop_flushed(victim));
                    }
                    Err(stopped @ Error::Stopped(_)) => return Err(stopped),
                    Err(_) if planted!("unwritable_victim_refuses") => return Err(Error::Misuse("planted")),
                    Err(error) => {
                        unwritable.push(victim.page);
                        why = Some(error);
                        state = self.state.lock();
                    }
                },
                None if state.busy > 0 || state.reserved_bytes > 0 => self.waiting.room.wait(&mut state),
                None => return Ok((Err(NothingEvictable { why }), state)),
            }
        }
    }

    /// Like [`reserve`](Cache::reserve), with an error if there is no space.
    pub(crate) fn need_space<'c>(
        &'c self,
        state: Latched<'c>,
        bytes: u64,
        except: RecordId,
        pages: &dyn Pages,
    ) -> Result<(Reservation<'c>, Latched<'c>)> {
        let (room, state) = self.reserve(state, bytes, except, pages)?;
        let (held_bytes, cache_bytes) = (state.used_bytes, self.cache_bytes);
        let full = || ObjectError::CacheFull { held_bytes, cache_bytes }.into();
        match room {
            Ok(room) => Ok((room, state)),
            Err(NothingEvictable { why }) => Err(why.unwrap_or_else(full)),
        }
    }

    /// Adds a record as its page has it, in reserved memory, unless it is in the cache by now. `None`: the page no longer has
    /// this version (E19.17).
    pub(crate) fn admit<'c>(
        &'c self,
        mut room: Reservation<'c>,
        mut state: Latched<'c>,
        at: RecordId,
        found: &Image,
        pages: &dyn Pages,
    ) -> Result<Option<Latched<'c>>> {
        self.settle(&mut state, at);
        if state.kept(at).is_some() {
            room.release(&mut state, u64::MAX);
            return Ok(Some(state));
        }
        room.release(&mut state, OVERHEAD_BYTES); // used by the entry
        state.begin_load(at);
        drop(state);
        let loading = Transfer::of(self, at);
        if !planted!("page_not_asked_again") && !pages.has(at, found.version)? {
            return Ok(None);
        }
        Ok(Some(loading.end(|state| {
            room.release(state, u64::MAX);
            state.with(at, |kept| *kept = Kept { phase: Phase::Loading, ..Kept::clean(at, found) });
        })))
    }

    /// Writes the flushable state of a record to its page (E19.5, E19.8).
    pub(crate) fn flush_latched<'c>(
        &'c self,
        mut state: Latched<'c>,
        at: RecordId,
        pages: &dyn Pages,
    ) -> Result<Latched<'c>> {
        self.settle(&mut state, at);
        let Some(flush) = state.begin_flush(at) else { return Ok(state) };
        drop(state);
        let flushing = Transfer::of(self, at);
        write(&flush, pages)?;
        Ok(flushing.end(|state| state.finish_flush(&flush)))
    }
}

fn write(flush: &Flush, pages: &dyn Pages) -> Result<()> {
    let &Flush { at, since, version, committed, .. } = flush;
    let write = |bytes: &[u8]| pages.flush_record(&KeptRecord { at, bytes, since, version, committed });
    match &flush.source {
        Source::Bytes(bytes) => write(bytes),
        Source::Page(owed) => write(&paid(at, owed, pages)?),
    }
}

/// Returns the bytes for the page of a record that is not in the cache: those of the page, with the owed undo.
fn paid(at: RecordId, owed: &[Owed], pages: &dyn Pages) -> Result<Vec<u8>> {
    let page = pages.read(at.page)?;
    let versioned = Versioned::of(&page)?;
    let record = versioned.get(at.slot)?;
    let mut record = record.ok_or_else(|| Refused::new(format!("there is no record at {at}")))?.to_vec();
    Owed::pay(owed, versioned.version(at.slot)?, &mut record)?;
    Ok(record)
}
