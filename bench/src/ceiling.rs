//! The bare group-commit loop: the limit for any store on this machine that only makes its committers' log records durable,
//! in order. Depends on no part of Cedrat.
//!
//! Several strategies are measured and the best one is the ceiling, because a ceiling set by an inefficient loop is
//! meaningless. A commit is acknowledged only when every commit before it is durable too, which is the guarantee of a log;
//! [`Strategy::Own`] does not give it, so it is shown beside the ceiling and is not part of it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::disk::{BLOCK_LEN, Block, Ring, wait_on, wake};

/// Bytes that one commit of the figure `commit` adds to the log: one insert into a hash table and its commit record.
pub(crate) const RECORD_LEN: usize = 64;

/// Maximum number of blocks of a batch: more than 200 committers can fill.
const BATCH_BLOCKS: usize = 16;

/// Number of batches whose waiters may be asleep at one time, far more than writes in flight.
const EVENTS: usize = 64;

/// Maximum distance of the oldest batch that is not durable from the open one: a write that the kernel delays must not make
/// the event slots wrap around.
const WINDOW: u64 = EVENTS as u64 / 2;

/// Maximum time that a gathering batch waits for committers that do not come.
const GATHER_AT_MOST: Duration = Duration::from_micros(100);

/// A strategy that makes commits durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// Each thread writes its own block and waits for no other.
    Own,
    /// Each thread writes its own block, then waits for all blocks before it.
    OwnInOrder,
    /// Committers share a batch; one of them writes it. At most `in_flight` batches are in flight.
    Leader { in_flight: u32 },
    /// Committers share a batch, one batch is in flight, and the next is sealed when all committers of the last one are
    /// back: so each write carries the records of all committers.
    Gather,
    /// Committers share a batch; one of the `writers` threads, which do nothing else, writes it.
    Writers { writers: u32 },
}

impl Strategy {
    /// Returns the strategies that are useful for this many committers.
    pub(crate) fn for_threads(threads: u32) -> Vec<Strategy> {
        let mut all = Vec::new();
        if threads <= 8 {
            all.extend([Strategy::Own, Strategy::OwnInOrder]);
        }
        if threads > 1 {
            all.push(Strategy::Gather);
        }
        let mut in_flight = 1;
        while in_flight <= threads.min(8) {
            all.push(Strategy::Leader { in_flight });
            if threads > 2 {
                all.push(Strategy::Writers { writers: in_flight });
            }
            in_flight *= 2;
        }
        all
    }

    /// Name in reports: variants of one system share their name.
    pub(crate) fn system(self) -> &'static str {
        match self {
            Strategy::Own => "unordered-writes",
            _ => "ceiling",
        }
    }

    pub(crate) fn name(self) -> String {
        match self {
            Strategy::Own => "own".into(),
            Strategy::OwnInOrder => "own-in-order".into(),
            Strategy::Gather => "gather".into(),
            Strategy::Leader { in_flight } => format!("leader-{in_flight}"),
            Strategy::Writers { writers } => format!("writers-{writers}"),
        }
    }

    pub(crate) fn named(name: &str) -> Option<Strategy> {
        let number = |text: &str| text.parse().ok().filter(|n| (1..=32).contains(n));
        match name {
            "own" => Some(Strategy::Own),
            "own-in-order" => Some(Strategy::OwnInOrder),
            "gather" => Some(Strategy::Gather),
            _ => match name.split_once('-')? {
                ("leader", n) => Some(Strategy::Leader { in_flight: number(n)? }),
                ("writers", n) => Some(Strategy::Writers { writers: number(n)? }),
                _ => None,
            },
        }
    }
}

/// Makes commits durable by one of the strategies. Shared by all committers.
pub(crate) enum Loop {
    Own(OwnWrites),
    Shared(Group),
}

impl Loop {
    pub(crate) fn new(ring: Ring, strategy: Strategy) -> Loop {
        match strategy {
            Strategy::Own => Loop::Own(OwnWrites::new(ring, false)),
            Strategy::OwnInOrder => Loop::Own(OwnWrites::new(ring, true)),
            Strategy::Leader { in_flight } => Loop::Shared(Group::new(ring, in_flight, Who::Committers)),
            Strategy::Gather => Loop::Shared(Group::new(ring, 1, Who::LastBack)),
            Strategy::Writers { writers } => Loop::Shared(Group::new(ring, writers, Who::Writers)),
        }
    }

    /// Returns the number of writer threads to run beside the committers, each in [`Loop::write_until`].
    pub(crate) fn writers(&self) -> u32 {
        match self {
            Loop::Shared(group) if group.who == Who::Writers => group.in_flight_max,
            _ => 0,
        }
    }

    /// Returns when the record is durable. All records have one length, which divides that of a block.
    pub(crate) fn commit(&self, record: &[u8]) -> io::Result<()> {
        match self {
            Loop::Own(own) => own.commit(record),
            Loop::Shared(group) => group.commit(record),
        }
    }

    /// Main loop of a writer thread; returns soon after `stop` and [`Loop::wake_writers`].
    pub(crate) fn write_until(&self, stop: &AtomicBool) -> io::Result<()> {
        match self {
            Loop::Own(_) => Ok(()),
            Loop::Shared(group) => group.write_until(stop),
        }
    }

    pub(crate) fn wake_writers(&self) {
        if let Loop::Shared(group) = self {
            drop(group.state.lock());
            group.work.notify_all();
        }
    }
}

/// Each committer writes a block of its own.
pub(crate) struct OwnWrites {
    ring: Ring,
    next: AtomicU64,
    /// `Some` if a commit also waits for those before it.
    order: Option<Order>,
}

struct Order {
    prefix: Mutex<Prefix>,
    /// One word for each block that may be in flight: 1 while its writer sleeps.
    asleep: Vec<AtomicU32>,
}

/// Blocks below `durable` are durable; bit i of `written` stands for block `durable + i`.
struct Prefix {
    durable: u64,
    written: u64,
}

impl OwnWrites {
    fn new(ring: Ring, in_order: bool) -> OwnWrites {
        let order = in_order.then(|| Order {
            prefix: Mutex::new(Prefix { durable: 0, written: 0 }),
            asleep: (0..EVENTS).map(|_| AtomicU32::new(0)).collect(),
        });
        OwnWrites { ring, next: AtomicU64::new(0), order }
    }

    fn commit(&self, record: &[u8]) -> io::Result<()> {
        let mut block = Block::ZERO;
        block.0[..record.len()].copy_from_slice(record);
        let mine = self.next.fetch_add(1, Ordering::Relaxed);
        self.ring.write(mine, &[block])?;
        if let Some(order) = &self.order {
            order.done(mine);
        }
        Ok(())
    }
}

impl Order {
    /// Records that block `mine` is written and returns when all blocks up to it are.
    fn done(&self, mine: u64) {
        let word = |block: u64| &self.asleep[block as usize % EVENTS];
        let mut prefix = self.prefix.lock().expect("no committer panics");
        prefix.written |= 1 << (mine - prefix.durable);
        if prefix.durable < mine && prefix.written & 1 == 0 {
            word(mine).store(1, Ordering::Relaxed);
            drop(prefix);
            while word(mine).load(Ordering::Acquire) == 1 {
                wait_on(word(mine), 1, None);
            }
            return;
        }
        let first = prefix.durable;
        while prefix.written & 1 == 1 {
            prefix.written >>= 1;
            prefix.durable += 1;
        }
        let woken = || (first..prefix.durable).filter(|&block| block != mine);
        // Under the lock: later, the word might belong to a later block.
        woken().for_each(|block| word(block).store(0, Ordering::Release));
        let woken: Vec<u64> = woken().collect();
        drop(prefix);
        woken.iter().for_each(|&block| wake(word(block), 1));
    }
}

/// Thread that writes a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    /// A committer, as soon as fewer batches than allowed are in flight.
    Committers,
    /// The committer that fills it to the expected size.
    LastBack,
    Writers,
}

/// Committers share batches.
pub(crate) struct Group {
    ring: Ring,
    in_flight_max: u32,
    who: Who,
    state: Mutex<State>,
    /// For idle writer threads.
    work: Condvar,
    events: Vec<Event>,
    /// Batches below are durable; follows the prefix, for the assertion that guards the events.
    durable: AtomicU64,
}

/// Word on which a batch's committers sleep, in a cache line of its own. Holds `batch * 4 + stage`.
#[repr(align(64))]
struct Event(AtomicU32);

const OPEN: u32 = 0;
const LEADER_WANTED: u32 = 1;
const DURABLE: u32 = 2;

fn event_word(batch: u64, stage: u32) -> u32 {
    ((batch as u32) << 2) | stage
}

struct State {
    /// The batch that accepts records; earlier ones are sealed.
    open: u64,
    open_len: usize,
    buffer: Vec<Block>,
    spare: Vec<Vec<Block>>,
    in_flight: u32,
    /// Gathering: expected bytes of all recent committers.
    expected_len: usize,
    /// Whether a sleeper of the open batch was asked to lead it.
    leader_called: bool,
    prefix: Prefix,
    /// Block of the ring for the next batch.
    place: u64,
}

impl Group {
    fn new(ring: Ring, in_flight_max: u32, who: Who) -> Group {
        let state = State {
            open: 0,
            open_len: 0,
            buffer: vec![Block::ZERO; BATCH_BLOCKS],
            spare: Vec::new(),
            in_flight: 0,
            expected_len: 0,
            leader_called: false,
            prefix: Prefix { durable: 0, written: 0 },
            place: 0,
        };
        Group {
            ring,
            in_flight_max,
            who,
            state: Mutex::new(state),
            work: Condvar::new(),
            events: (0..EVENTS).map(|_| Event(AtomicU32::new(event_word(0, OPEN)))).collect(),
            durable: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no committer panics")
    }

    fn event(&self, batch: u64) -> &AtomicU32 {
        &self.events[batch as usize % EVENTS].0
    }

    fn commit(&self, record: &[u8]) -> io::Result<()> {
        let mut state = self.lock();
        let at = state.open_len;
        assert!(at + record.len() <= BATCH_BLOCKS * BLOCK_LEN, "a batch holds a record of every committer");
        state.buffer[at / BLOCK_LEN].0[at % BLOCK_LEN..][..record.len()].copy_from_slice(record);
        state.open_len += record.len();
        let batch = state.open;
        let first = at == 0;
        match self.who {
            Who::Writers => {
                drop(state);
                if first {
                    self.work.notify_one();
                }
            }
            Who::Committers | Who::LastBack if self.may_seal(&state) => self.lead(state)?,
            Who::Committers | Who::LastBack => drop(state),
        }
        let patience = (first && self.who == Who::LastBack).then_some(GATHER_AT_MOST);
        self.follow(batch, patience)?;
        assert!(self.durable.load(Ordering::Acquire) > batch, "a commit is durable when it returns");
        Ok(())
    }

    /// Returns whether the calling thread may write the open batch now.
    fn may_seal(&self, state: &State) -> bool {
        let gathered = self.who != Who::LastBack || state.open_len >= state.expected_len;
        gathered && !state.leader_called && self.may_write(state)
    }

    fn may_write(&self, state: &State) -> bool {
        state.in_flight < self.in_flight_max && state.open - state.prefix.durable < WINDOW
    }

    /// Returns when `batch` is durable; writes it when asked to, or when no other thread did within `patience`.
    fn follow(&self, batch: u64, patience: Option<Duration>) -> io::Result<()> {
        let event = self.event(batch);
        loop {
            let seen = event.load(Ordering::Acquire);
            if seen >> 2 != (batch as u32) & (u32::MAX >> 2) || seen & 3 == DURABLE {
                return Ok(());
            }
            if seen & 3 == OPEN {
                let since = Instant::now();
                wait_on(event, seen, patience);
                if patience.is_some_and(|patience| since.elapsed() >= patience) {
                    let state = self.lock();
                    if state.open == batch && !state.leader_called && self.may_write(&state) {
                        self.lead(state)?;
                    }
                }
                continue;
            }
            let open = event_word(batch, OPEN);
            if event.compare_exchange(seen, open, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                let mut state = self.lock();
                state.leader_called = false;
                self.lead(state)?;
            }
        }
    }

    /// Seals the open batch, writes it, and wakes its waiters.
    fn lead(&self, mut state: MutexGuard<'_, State>) -> io::Result<()> {
        let blocks = state.open_len.div_ceil(BLOCK_LEN);
        let fresh = state.spare.pop().unwrap_or_else(|| vec![Block::ZERO; BATCH_BLOCKS]);
        let buffer = std::mem::replace(&mut state.buffer, fresh);
        let (batch, len) = (state.open, state.open_len);
        let place = state.place;
        state.open += 1;
        state.open_len = 0;
        state.in_flight += 1;
        // A run never crosses the ring's end, so its block number is its position in the ring.
        let left = self.ring.blocks() - place % self.ring.blocks();
        let place = if left < blocks as u64 { place + left } else { place };
        state.place = place + blocks as u64;
        self.event(state.open).store(event_word(state.open, OPEN), Ordering::Release);
        drop(state);

        self.ring.write(place, &buffer[..blocks])?;

        let mut state = self.lock();
        state.spare.push(buffer);
        state.in_flight -= 1;
        let first = state.prefix.durable;
        state.prefix.written |= 1 << (batch - first);
        while state.prefix.written & 1 == 1 {
            state.prefix.written >>= 1;
            state.prefix.durable += 1;
        }
        let end = state.prefix.durable;
        self.durable.store(end, Ordering::Release);
        // Under the lock: later, the event might belong to a later batch.
        for batch in first..end {
            self.event(batch).store(event_word(batch, DURABLE), Ordering::Release);
        }
        state.expected_len = len + state.open_len;
        let call = self.who != Who::Writers && state.open_len > 0 && self.may_seal(&state);
        let next = state.open;
        if call {
            state.leader_called = true;
            self.event(next).store(event_word(next, LEADER_WANTED), Ordering::Release);
        }
        drop(state);
        if call {
            wake(self.event(next), 1);
        }
        for batch in first..end {
            wake(self.event(batch), i32::MAX);
        }
        Ok(())
    }

    fn write_until(&self, stop: &AtomicBool) -> io::Result<()> {
        let mut state = self.lock();
        loop {
            while state.open_len == 0 || !self.may_write(&state) {
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                state = self.work.wait(state).expect("no committer panics");
            }
            self.lead(state)?;
            state = self.lock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn every_strategy_acknowledges_every_commit() {
        const THREADS: u32 = 8;
        let dir = std::env::current_exe().unwrap();
        for strategy in Strategy::for_threads(THREADS) {
            assert_eq!(Strategy::named(&strategy.name()), Some(strategy));
            let path = dir.with_file_name(format!("ceiling-{}-{}", std::process::id(), strategy.name()));
            let group = Arc::new(Loop::new(Ring::create(&path, 64).unwrap(), strategy));
            let stop = AtomicBool::new(false);
            thread::scope(|scope| {
                for _ in 0..group.writers() {
                    scope.spawn(|| group.write_until(&stop).unwrap());
                }
                let committers: Vec<_> = (0..THREADS)
                    .map(|_| scope.spawn(|| (0..100).for_each(|_| group.commit(&[7; RECORD_LEN]).unwrap())))
                    .collect();
                committers.into_iter().for_each(|committer| committer.join().unwrap());
                stop.store(true, Ordering::Relaxed);
                group.wake_writers();
            });
            if let Loop::Shared(group) = &*group {
                let state = group.lock();
                assert_eq!((state.open_len, state.in_flight), (0, 0), "{strategy:?}");
                assert_eq!(state.prefix.durable, state.open, "{strategy:?}");
            }
            std::fs::remove_file(&path).unwrap();
        }
    }
}
