//! The clock, and the protocol that computes the durable LSN (E3).
//!
//! Many appenders draw LSNs from one counter, each under the latch of its partition's tail. A thread that computes
//! the durable LSN holds no latch. Three numbers must therefore be published in the right order:
//!
//! ```text
//! appender                                     reader of durable_lsn
//! 1. drawing  := newest + 1                    1. clock := newest
//! 2. lsn      := newest += 1                   2. per partition: drawing
//! 3. fill the record's place                   3. per partition: first_unflushed
//! 4. first_unflushed := lsn, if it was none    durable := min(clock, drawing - 1, first_unflushed - 1)
//! 5. drawing  := none
//! ```
//!
//! Why it holds: a reader whose clock covers an LSN has seen step 2 of its appender, and so step 1. Its load of
//! `drawing` then returns that bound or a later value; if it returns the value of step 5 or later, it sees step 4 as
//! well. (Step 2 is a release, the reader's first step an acquire; later draws by other threads only lengthen the
//! release sequence. Steps 1 and 5 are both releases: the reader may load the bound of the *next* draw, which must
//! make step 4 of this one visible.) Flushing moves `first_unflushed` forward, under the latch, only after the bytes
//! before it are durable.
//!
//! The partition's durable offset is published before `first_unflushed` moves (E3.6). Step 4 is a release too: its
//! value may be read without those of steps 1, 2 and 5. It follows, under the latch, every flush before it, whose
//! offset it must make visible.

use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{planted, prefetch_to_write};

use crate::Lsn;

/// No LSN: no draw is in progress, or nothing is unflushed.
const NONE: u64 = u64::MAX;

/// Keeps an integer that many threads write on a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Alone<T>(pub(crate) T);

/// The one clock of a store.
#[derive(Debug)]
pub(crate) struct Clock {
    newest: Alone<AtomicU64>,
    /// The largest durable LSN computed so far, by which the result never decreases (E3.5).
    durable: Alone<AtomicU64>,
}

/// The bounds that one partition publishes. Written only under the latch of its tail, next to which they lie.
#[derive(Debug)]
pub(crate) struct Bounds {
    drawing: AtomicU64,
    first_unflushed: AtomicU64,
}

impl Bounds {
    pub(crate) fn new() -> Bounds {
        Bounds { drawing: AtomicU64::new(NONE), first_unflushed: AtomicU64::new(NONE) }
    }

    /// Returns the partition's bound: every smaller LSN of this partition drawn when the reader read the clock is
    /// durable.
    pub(crate) fn lower(&self) -> u64 {
        let drawing = self.drawing.load(Ordering::Acquire);
        let first_unflushed = self.first_unflushed.load(Ordering::Acquire);
        drawing.min(first_unflushed)
    }

    /// Publishes that everything before `first` is durable; `None`: everything is. The caller holds the tail's latch.
    pub(crate) fn flushed_before(&self, first: Option<Lsn>) {
        self.first_unflushed.store(first.map_or(NONE, Lsn::get), Ordering::Release);
    }
}

/// The order of the appender's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Steps {
    /// The bound first, then the draw.
    BoundThenDraw,
    /// A planted fault: the draw first.
    #[cfg_attr(not(any(test, feature = "planted-faults")), allow(dead_code))]
    DrawThenBound,
}

impl Clock {
    /// Creates a clock that has drawn all numbers up to `newest`, all of them durable.
    pub(crate) fn new(newest: Lsn) -> Clock {
        Clock { newest: Alone(AtomicU64::new(newest.get())), durable: Alone(AtomicU64::new(newest.get())) }
    }

    /// Returns the newest LSN drawn.
    #[inline]
    pub(crate) fn newest(&self) -> Lsn {
        Lsn::new(self.newest.0.load(Ordering::SeqCst))
    }

    /// Prefetches the cache lines that a draw writes.
    #[inline]
    pub(crate) fn prefetch_to_draw(&self, bounds: &Bounds) {
        prefetch_to_write(&self.newest);
        prefetch_to_write(bounds);
    }

    /// Draws an LSN and fills its place, under the latch of the tail to which `bounds` belongs.
    #[inline]
    pub(crate) fn draw<R>(&self, bounds: &Bounds, steps: Steps, fill: impl FnOnce(Lsn) -> R) -> R {
        if steps == Steps::BoundThenDraw && !planted!("bound_not_published") {
            let bound = self.newest.0.load(Ordering::Relaxed) + 1;
            bounds.drawing.store(bound, Ordering::Release); // E3.1
        }
        // Sequentially consistent, as is `newest`: a heap's commit draws and then reads a flag, which a checkpoint
        // sets before it reads the clock.
        let drawn = if planted!("lsn_left_out") { 2 } else { 1 };
        let lsn = self.newest.0.fetch_add(drawn, Ordering::SeqCst) + drawn;
        if steps == Steps::DrawThenBound {
            bounds.drawing.store(lsn, Ordering::Relaxed);
        }
        let filled = fill(Lsn::new(lsn));
        if bounds.first_unflushed.load(Ordering::Relaxed) == NONE {
            bounds.first_unflushed.store(lsn, Ordering::Release); // E3.6
        }
        bounds.drawing.store(NONE, Ordering::Release); // E3.1
        filled
    }

    /// Returns the durable LSN that a thread computed last; cheap, and possibly lower than the current one.
    #[inline]
    pub(crate) fn known_durable(&self) -> Lsn {
        Lsn::new(self.durable.0.load(Ordering::Acquire))
    }

    /// Computes the LSN up to which every record is durable, in all partitions.
    pub(crate) fn durable<'a>(&self, partitions: impl Iterator<Item = &'a Bounds>) -> Lsn {
        let clock = self.newest.0.load(Ordering::Acquire); // E3.2: the clock first
        let bound = partitions.map(Bounds::lower).min().unwrap_or(NONE);
        let clock = if planted!("clock_read_last") { self.newest().get() } else { clock };
        let durable = clock.min(bound - 1);
        let before = self.durable.0.fetch_max(durable, Ordering::AcqRel);
        if planted!("durable_goes_back") {
            return Lsn::new(durable);
        }
        Lsn::new(before.max(durable)) // E3.5
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cedrat_sync::{Arc, Mutex, explore, thread};

    /// Two partitions, two appenders with a flush each, one reader. A set of numbers stands for the disk: a flush
    /// adds the content of its partition's buffer.
    fn appenders_and_a_reader(steps: Steps) {
        struct Play {
            clock: Clock,
            partitions: [(Mutex<Vec<u64>>, Bounds); 2],
            stable: Mutex<Vec<u64>>,
        }
        let play = Arc::new(Play {
            clock: Clock::new(Lsn::ZERO),
            partitions: [0, 1].map(|_| (Mutex::new(Vec::new()), Bounds::new())),
            stable: Mutex::new(Vec::new()),
        });
        let appenders: Vec<_> = (0..2)
            .map(|partition| {
                let play = Arc::clone(&play);
                thread::spawn(move || {
                    let (tail, bounds) = &play.partitions[partition];
                    for _ in 0..2 {
                        let mut tail = tail.lock();
                        play.clock.draw(bounds, steps, |lsn| tail.push(lsn.get()));
                        drop(tail);
                        let mut tail = play.partitions[partition].0.lock();
                        play.stable.lock().append(&mut tail);
                        bounds.flushed_before(None);
                    }
                })
            })
            .collect();
        let mut before = Lsn::ZERO;
        for _ in 0..3 {
            let durable = play.clock.durable(play.partitions.iter().map(|(_, bounds)| bounds));
            let stable = play.stable.lock();
            assert!((1..=durable.get()).all(|lsn| stable.contains(&lsn)), "E3.2");
            assert!(before <= durable, "E3.5");
            before = durable;
        }
        for appender in appenders {
            appender.join().expect("an appender does not panic");
        }
        let durable = play.clock.durable(play.partitions.iter().map(|(_, bounds)| bounds));
        assert_eq!(durable, Lsn::new(4), "in the end everything is durable");
    }

    /// Computes the durable LSN while a record is made: between its draw and the filling of its place.
    #[test]
    fn record_being_made_is_not_durable() {
        explore(1, 1, || {
            let (clock, bounds) = (Clock::new(Lsn::ZERO), Bounds::new());
            let durable = || clock.durable(std::iter::once(&bounds));
            let (lsn, during) = clock.draw(&bounds, Steps::BoundThenDraw, |lsn| (lsn, durable()));
            assert!(during < lsn, "E3.1");
            assert!(durable() < lsn, "E3.1: it lies in the buffer");
            bounds.flushed_before(None);
            assert_eq!(durable(), lsn);
        });
    }

    /// A record is drawn after the bounds of its partition were read.
    #[test]
    fn record_drawn_meanwhile_is_not_durable() {
        explore(1, 1, || {
            let (clock, bounds) = (Clock::new(Lsn::ZERO), Bounds::new());
            let draw = std::iter::from_fn(|| {
                clock.draw(&bounds, Steps::BoundThenDraw, |_| ());
                None
            });
            assert_eq!(clock.durable(std::iter::once(&bounds).chain(draw)), Lsn::ZERO, "E3.2");
        });
    }

    /// A reader has read the clock; before it continues, another one computes a later durable LSN.
    #[test]
    fn durable_lsn_does_not_go_back() {
        explore(1, 1, || {
            let (clock, bounds) = (Clock::new(Lsn::ZERO), Bounds::new());
            let mut later = Some(());
            let mut other = Lsn::ZERO;
            let durable = clock.durable(std::iter::from_fn(|| {
                later.take()?;
                clock.draw(&bounds, Steps::BoundThenDraw, |_| ());
                bounds.flushed_before(None);
                other = clock.durable(std::iter::once(&bounds));
                Some(&bounds)
            }));
            assert_eq!((durable, other), (Lsn::new(1), Lsn::new(1)), "E3.5");
        });
    }

    #[test]
    fn no_unwritten_record_is_ever_called_durable() {
        explore(0x5eed, 20_000, || appenders_and_a_reader(Steps::BoundThenDraw));
    }

    /// The search can fail: with the steps in the wrong order it finds the gap.
    #[cfg(cedrat_shuttle)]
    #[test]
    fn lsn_drawn_before_bound_is_caught() {
        let caught = std::panic::catch_unwind(|| {
            explore(0x5eed, 20_000, || appenders_and_a_reader(Steps::DrawThenBound));
        });
        let panic = caught.expect_err("the planted fault is found");
        let message = panic.downcast_ref::<&str>().expect("the message of an assertion");
        assert!(message.contains("E3.2"), "{message}");
    }
}
