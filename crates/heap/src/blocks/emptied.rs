//! Spans of which all blocks are free: they become free spans when a heap has no other space.

use std::time::Instant;

use cedrat_sync::{Arc, planted};

use super::arena::{Blocks, Emptied, Emptying};
use super::layout::Span;
use crate::error::{Error, Interrupt};
use crate::heap::Core;
use crate::memory::Shared;
use crate::options::Commit;
use crate::stripes::Look;
use crate::tx::{Descriptor, Tx};

/// Reason why some spans of free blocks did not become free spans.
#[derive(Debug)]
pub(super) enum Uncleared {
    /// They are to be cleared at the end of the transaction that needs them: it has itself locked their words in the table,
    /// or there is no session left to clear them in, and no other transaction has locked all of these words.
    BeforeEnd,
    /// Another transaction has locked their words: a stripe, and its state.
    Locked(u32, Look),
    /// Another session is clearing them.
    Elsewhere,
    /// The transaction that was to clear them failed.
    Failed(Interrupt),
}

impl Tx<'_> {
    /// Takes adjacent spans that the table marks as free. If there are none, returns the reason why some may become free,
    /// if any.
    pub(super) fn take_spans(&self, core: &Arc<Core>, blocks: &Blocks, count: u64) -> Result<u64, Option<Uncleared>> {
        let ended = blocks.clearings_ended();
        let take = || blocks.take_spans(core, count, |span| self.is_held(core, blocks, span));
        let failed = |error: Error| Some(Uncleared::Failed(error.into()));
        if let Some(first) = take().map_err(failed)? {
            return Ok(first);
        }
        let oldest = self.shared.slots.oldest_start();
        let emptied = blocks.take_emptied(core, self.this.arena, oldest).map_err(failed)?;
        let own = u64::from(!emptied.spans.is_empty());
        let uncleared = self.clear_emptied(core, emptied);
        if let Some(first) = take().map_err(failed)? {
            return Ok(first);
        }
        let elsewhere = blocks.clearings_begun() > ended + own && !planted!("clearing_elsewhere_ignored");
        Err(uncleared.or(elsewhere.then_some(Uncleared::Elsewhere)))
    }

    #[cold]
    fn clear_emptied(&self, core: &Arc<Core>, emptied: Emptying<'_>) -> Option<Uncleared> {
        if emptied.spans.is_empty() {
            return None;
        }
        let is_own = |&(_, lock): &(u32, Look)| lock == Look::owned_by(self.this.number);
        let Ok(mut descriptor) = self.shared.take_descriptor() else {
            // The end of this transaction would not find more, and no later attempt would report the lock.
            let locks: Vec<(u32, Look)> = emptied.spans.iter().filter_map(|of| locked(self.shared, core, of)).collect();
            let is_foreign = locks.len() == emptied.spans.len() && !locks.iter().any(is_own);
            emptied.spans.iter().for_each(|of| emptied.blocks.give_emptied(of));
            return match locks.first() {
                Some(&(stripe, lock)) if is_foreign && !planted!("lock_unnoticed_by_last_session") => {
                    Some(Uncleared::Locked(stripe, lock))
                }
                _ => Some(Uncleared::BeforeEnd),
            };
        };
        let (locks, cleared) = clear(self.shared, &mut descriptor, core, emptied);
        self.shared.give_back_descriptor(descriptor);
        match (locks.iter().any(is_own), cleared) {
            (true, _) => Some(Uncleared::BeforeEnd),
            (false, Err(failed)) => Some(Uncleared::Failed(failed)),
            (false, Ok(())) => locks.first().map(|&(stripe, lock)| Uncleared::Locked(stripe, lock)),
        }
    }

    /// Returns that the heap is full, unless a transaction that began later may find more.
    pub(super) fn nothing_left(
        &mut self,
        core: &Arc<Core>,
        blocks: &Blocks,
        len: u64,
        uncleared: Option<Uncleared>,
    ) -> Interrupt {
        match uncleared {
            Some(Uncleared::BeforeEnd) if !planted!("own_lock_hides_spans") => {
                if let Some(failed) = self.failure_at_end() {
                    return failed;
                }
                self.this.clears_at_end = Some(Arc::clone(core));
                self.this.conflict()
            }
            Some(Uncleared::Failed(failed)) => failed,
            Some(Uncleared::Locked(stripe, lock)) => self.met(stripe, lock),
            Some(Uncleared::Elsewhere) => Interrupt::CONFLICT,
            _ if blocks.more_later_than(self.slot().started()) => Interrupt::CONFLICT,
            _ => core.full(len),
        }
    }

    /// Clears the spans that the transaction could not clear before its end, so that its next attempt finds them.
    #[cold]
    pub(crate) fn clear_at_end(&mut self, core: &Arc<Core>) {
        let Some(blocks) = core.blocks.as_ref().filter(|_| !core.is_dropped()) else { return };
        let (interrupted, half_done) = (self.this.interrupted, self.this.half_done);
        let oldest = self.shared.slots.oldest_start();
        // It fails only where a chunk could not be loaded, which has stopped the store: the next attempt meets that.
        let Ok(emptied) = blocks.take_emptied(core, self.this.arena, oldest) else { return };
        // The next attempt meets the locks that remain, but not a log that is full: only the clearing needs this space.
        let (_, cleared) = clear(self.shared, self.this, core, emptied);
        let failed = cleared.err().filter(|why| !why.is_conflict());
        self.this.clearing_failed = failed.map(|why| (Instant::now(), why));
        (self.this.interrupted, self.this.half_done) = (interrupted, half_done);
    }

    /// Returns why the spans could not be cleared at the end of an earlier attempt of this transaction: each further attempt
    /// would fail in the same way.
    fn failure_at_end(&mut self) -> Option<Interrupt> {
        if planted!("failed_clearing_repeated") {
            return None;
        }
        let since = self.slot().repeated_since()?;
        let (_, why) = self.this.clearing_failed.take_if(|&mut (at, _)| at >= since)?;
        Some(why)
    }
}

/// Returns the word of a span in the table.
fn table_word(core: &Core, of: &Emptied) -> u64 {
    core.blocks.as_ref().expect("it has emptied spans").layout.table_word(of.open.span)
}

/// Returns the stripe of a span's word in the table, and its state, if a transaction has locked it.
fn locked(shared: &Shared, core: &Core, of: &Emptied) -> Option<(u32, Look)> {
    let stripe = shared.stripes.of(core.salt, table_word(core, of));
    let seen = shared.stripes.look(stripe);
    seen.is_locked().then_some((stripe, seen))
}

/// Turns spans of free blocks into free spans, except those whose words in the table are locked; returns these locks.
///
/// It does so in a transaction of its own, which persists whatever the outcome of the one that needs the spans: before it
/// has committed, words that hold committed headers must not be stored to. No other session has the spans, so it fails only
/// if another transaction locks their words meanwhile.
fn clear(
    shared: &Shared,
    this: &mut Descriptor,
    core: &Arc<Core>,
    emptied: Emptying<'_>,
) -> (Vec<(u32, Look)>, Result<(), Interrupt>) {
    let blocks = emptied.blocks;
    let (mut clear, mut locks) = (Vec::new(), Vec::new());
    for of in &emptied.spans {
        match locked(shared, core, of) {
            Some(lock) if !planted!("locked_span_ends_clearing") => {
                blocks.give_emptied(of);
                locks.push(lock);
            }
            _ => clear.push(of),
        }
    }
    let mut tx = Tx::begin(shared, this);
    let written = clear.iter().try_for_each(|of| tx.write_word(core, table_word(core, of), Span::Free.to_word()));
    let cleared = written.and_then(|()| tx.commit(Commit::Async));
    drop(tx);
    for of in clear {
        if cleared.is_ok() { blocks.give_spans(of.open.span, 1) } else { blocks.give_emptied(of) }
    }
    (locks, cleared.map(drop))
}
