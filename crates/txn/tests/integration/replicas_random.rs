//! Random histories of a store and its replicas: transactions, prepared branches, checkpoints and truncation; faults of connections and
//! of disks, kills and power losses of either at any call; views, promotions, and the return of the old store.

#![cfg(not(cedrat_shuttle))] // needs threads of the system

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use cedrat_heap::HeapOptions;
use cedrat_media::{Call, Fault as DiskFault, Kill, Loss, SimDisk};
use cedrat_pages::PageId;
use cedrat_txn::{
    Commit, Error, Follower, Options, Prepared, Quorum, ReplicaError, ReplicaOptions, RestoreTarget, Result, Store,
    View, Vote, open_as_of, promote,
};
use cedrat_wal::{CONTROL_FILE, Log, Lsn};

use crate::common::*;
use crate::links::*;

/// The pages of transactions, which are followed by those of branches.
const PAGES: usize = 3;
const BRANCHES: usize = 6;
/// The number of histories without a variable.
const SEEDS: u64 = 40;
const STEPS: usize = 60;
const KIND: &str = "test.filling";

/// The committed numbers of all pages, and the branches in doubt, each of which has added one to its page.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    numbers: [i64; PAGES + BRANCHES],
    in_doubt: BTreeSet<usize>,
}

/// The state from an LSN on.
struct Noted {
    lsn: Lsn,
    state: State,
    /// Whether it begins with this LSN. If not, it may have begun at any one since the state before.
    is_exact: bool,
}

struct Replica {
    name: String,
    disk: SimDisk,
    follower: Option<Follower>,
    /// The LSN that the store has seen acknowledged.
    acknowledged: Lsn,
    /// The length of the disk's journal just before that.
    acknowledged_at: usize,
    /// Whether it has not followed this store yet, but one that was replaced by a promotion.
    is_strange: bool,
    /// Whether it has records that the store lacks.
    is_foreign: bool,
}

/// The number of events, which show that the histories are varied.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    follows: u64,
    torn: u64,
    failed_disks: u64,
    gaps: u64,
    replica_crashes: u64,
    store_crashes: u64,
    views: u64,
    promotions: u64,
    foreign: u64,
}

struct History {
    random: Random,
    options: Options,
    disk: SimDisk,
    store: Option<Store>,
    pages: Vec<PageId>,
    now: State,
    noted: Vec<Noted>,
    /// The state that an interrupted operation may have made.
    perhaps: Option<State>,
    replicas: Vec<Replica>,
    limit_bytes: u64,
    /// Whether the disk of the store fails at some call.
    is_struck: bool,
    /// The store that a promotion has replaced, and the newest LSN of both.
    old: Option<(Store, Lsn)>,
    counts: Counts,
}

impl Replica {
    fn new(number: usize) -> Replica {
        let (name, disk, acknowledged) = (format!("replica {number}"), SimDisk::new(), Lsn::ZERO);
        let (follower, acknowledged_at, is_strange, is_foreign) = (None, 0, false, false);
        Replica { name, disk, follower, acknowledged, acknowledged_at, is_strange, is_foreign }
    }

    fn follower(&mut self) -> Follower {
        let open = || Follower::open(replica_files(&self.disk), &self.name).expect("E25.1");
        self.follower.take().unwrap_or_else(open)
    }

    fn up_to(&mut self) -> Option<Lsn> {
        let follower = self.follower();
        let up_to = follower.up_to();
        self.follower = Some(follower);
        up_to
    }
}

fn loss(random: &mut Random) -> Loss {
    let seed = random.below(1 << 40);
    match random.below(8) {
        0 => Loss::Everything,
        1 => Loss::Nothing,
        2 => Loss::TornLast(seed),
        3 => Loss::Whole(seed),
        _ => Loss::Random(seed),
    }
}

/// Returns a disk after the end of its process or its machine at a place of its journal.
fn ended(disk: &SimDisk, at: usize, random: &mut Random) -> SimDisk {
    let (journal, seed) = (disk.journal(), random.below(1 << 40));
    if random.below(3) > 0 {
        return journal.crash(at, loss(random));
    }
    let mut cursor = journal.cursor();
    cursor.advance_to(at);
    cursor.kill(if random.below(2) == 0 { Kill::Process(seed) } else { Kill::FailedSync(seed) })
}

fn disk_fault(random: &mut Random) -> DiskFault {
    let bits = random.below(8);
    let nth = 1 + random.below(1 << bits);
    let other = std::io::ErrorKind::Other;
    let fault = match random.below(6) {
        0 => DiskFault::power_loss(Call::Any),
        1 => DiskFault::error(Call::Write, other),
        2 => DiskFault::error(Call::Sync, other),
        3 => DiskFault::forgetful_sync(),
        4 => DiskFault::error(Call::SyncDirectory, other),
        _ => DiskFault::error(Call::Any, std::io::ErrorKind::StorageFull),
    };
    fault.nth(nth)
}

fn link_fault(random: &mut Random) -> Fault {
    let bits = 4 + random.below(14);
    let place = random.below(1 << bits) as usize;
    match random.below(12) {
        0 | 1 => Fault::Cut(place),
        2 | 3 => Fault::Flip(place),
        4 => Fault::Repeat(1 + place % 8),
        5 if place.is_multiple_of(4) => Fault::Lose(1 + place % 8),
        6 if place.is_multiple_of(4) => Fault::Swap(1 + place % 8),
        _ => Fault::None,
    }
}

/// Whether a disk has lost its power.
fn is_off(disk: &SimDisk) -> bool {
    media(disk).list("").is_err()
}

/// Reads the state of a store. A view has no branch.
fn state_of(store: &Store, pages: &[PageId]) -> State {
    let number = |id: &[u8]| usize::from(id[0]);
    let in_doubt: BTreeSet<usize> = store.in_doubt().unwrap().iter().map(|branch| number(&branch.id)).collect();
    let mut numbers = [0; PAGES + BRANCHES];
    for (index, number) in numbers.iter_mut().enumerate() {
        let branch = index.checked_sub(PAGES).is_some_and(|branch| in_doubt.contains(&branch));
        *number = read_number(store, at(pages[index], 0)).unwrap() - i64::from(branch);
    }
    let heap = store.memory().heap("words").unwrap();
    let word = store.memory().run(Commit::Async, |tx| tx.read(&heap, 0)).unwrap().value;
    assert_eq!(word as i64, numbers[..PAGES].iter().sum::<i64>(), "E25.2: half a transaction");
    State { numbers, in_doubt }
}

impl History {
    fn new(seed: u64) -> History {
        let mut random = Random::new(seed);
        let options = match random.below(3) {
            0 => options(),
            1 => Options { redo_on_demand_bytes: 0, ..Options::simulated_growth() },
            _ => Options { partitions: 3, ..Options::simulated_growth() },
        };
        let disk = SimDisk::new();
        let store = Store::open(media(&disk), options.clone(), registry().record_kind(KIND)).unwrap();
        let pages: Vec<_> = (0..PAGES + BRANCHES).map(|_| store.transact(page_with_zeros).unwrap()).collect();
        let words = HeapOptions { chunk_len: 4096, size: 4096, ..HeapOptions::raw(1 << 16) };
        store.memory().create_heap("words", &words).unwrap();
        store.checkpoint().unwrap();
        let limit_bytes = [u64::MAX, 1 << 20, 96 << 10][random.below(3) as usize];
        let replicas = (0..=random.below(3) as usize).map(Replica::new).collect();
        let now = State { numbers: [0; PAGES + BRANCHES], in_doubt: BTreeSet::new() };
        let (noted, counts) = (Vec::new(), Counts::default());
        let mut history = History {
            random,
            options,
            disk,
            store: Some(store),
            pages,
            now,
            noted,
            perhaps: None,
            replicas,
            limit_bytes,
            is_struck: false,
            old: None,
            counts,
        };
        history.note(history.store().log().current_lsn(), false);
        history
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn open(&self, disk: &SimDisk) -> Store {
        Store::open(media(disk), self.options.clone(), registry().record_kind(KIND)).expect("E20")
    }

    fn below(&mut self, bound: u64) -> usize {
        self.random.below(bound) as usize
    }

    fn note(&mut self, lsn: Lsn, is_exact: bool) {
        self.noted.push(Noted { lsn, state: self.now.clone(), is_exact });
    }

    /// Returns the states that the store may have had after an LSN.
    fn expected(&self, lsn: Lsn) -> Vec<State> {
        let next = self.noted.partition_point(|noted| noted.lsn <= lsn);
        let before = next.checked_sub(1).map(|index| &self.noted[index].state);
        let later = self.noted.get(next).filter(|noted| !noted.is_exact).map(|noted| &noted.state);
        before.into_iter().chain(later).cloned().collect()
    }

    /// Changes the store. If it fails, the store has stopped, or has no space.
    fn operation(&mut self) {
        if self.store().log().is_stopped() {
            return;
        }
        let done = match self.below(16) {
            0..=7 => self.add(),
            8 => self.fill(),
            9 => self.prepare(),
            10 => self.decide(),
            11 => self.lose(),
            12 => self.store().log().promise().map_err(Error::from),
            _ => self.store().checkpoint(),
        };
        match done {
            Ok(()) => {
                let lsn = self.store().log().current_lsn();
                self.note(lsn, false);
                self.perhaps = None;
            }
            Err(error) if self.store().log().is_stopped() || is_off(&self.disk) => drop(error),
            Err(_) if self.is_struck => self.perhaps = None,
            Err(Error::LogFull { .. }) => self.perhaps = None,
            Err(other) => panic!("{other}"),
        }
    }

    /// Adds to some pages, and the sum of that to a word.
    fn add(&mut self) -> Result<()> {
        let (mut after, mut sum) = (self.now.clone(), 0);
        let heap = self.store().memory().heap("words").unwrap();
        let mut txn = self.store().begin();
        for _ in 0..1 + self.below(3) {
            let (page, amount) = (self.below(PAGES as u64), 1 + self.below(9) as i64);
            txn.update(at(self.pages[page], 0), &Add { amount })?;
            (after.numbers[page], sum) = (after.numbers[page] + amount, sum + amount);
        }
        txn.heap(|tx| tx.update(&heap, 0, |value| value + sum as u64))?;
        let mode = if self.below(2) == 0 { Commit::Sync } else { Commit::Async };
        self.perhaps = Some(after.clone());
        let lsn = txn.commit(mode)?.lsn();
        self.now = after;
        self.note(lsn, true);
        Ok(())
    }

    /// Writes much log.
    fn fill(&mut self) -> Result<()> {
        for _ in 0..1 + self.below(12) {
            let len = self.below(7000);
            self.store().transact(|txn| txn.log_record(KIND, &vec![7; len]).map(drop))?;
        }
        Ok(())
    }

    fn prepare(&mut self) -> Result<()> {
        let free = (0..BRANCHES).find(|branch| !self.now.in_doubt.contains(branch));
        let Some(branch) = free else { return Ok(()) };
        let mut after = self.now.clone();
        after.in_doubt.insert(branch);
        let mut txn = self.store().begin();
        txn.update(at(self.pages[PAGES + branch], 0), &Add { amount: 1 })?;
        self.perhaps = Some(after.clone());
        let Vote::Prepared(prepared) = txn.prepare(&[branch as u8])? else { panic!("it has changed something") };
        drop::<Prepared>(prepared);
        self.now = after;
        Ok(())
    }

    fn decide(&mut self) -> Result<()> {
        let Some(branch) = self.now.in_doubt.first().copied() else { return Ok(()) };
        let (mut after, commits) = (self.now.clone(), self.below(2) == 0);
        after.in_doubt.remove(&branch);
        after.numbers[PAGES + branch] += i64::from(commits);
        let prepared = self.store().prepared(&[branch as u8])?;
        self.perhaps = Some(after.clone());
        if commits {
            prepared.commit(Commit::Sync)?;
        } else {
            prepared.rollback()?;
        }
        self.now = after;
        Ok(())
    }

    fn lose(&mut self) -> Result<()> {
        let page = self.below(PAGES as u64);
        let mut txn = self.store().begin();
        txn.update(at(self.pages[page], 1), &Add { amount: 1 })?;
        txn.rollback().map(drop)
    }

    /// Ends the store, within its last operation perhaps, and opens it again.
    fn store_ends(&mut self) {
        let (before, durable) = (self.disk.journal_len(), self.store().log().durable_lsn());
        let was_stopped = self.store().log().is_stopped() || is_off(&self.disk);
        if !was_stopped && self.below(4) == 0 {
            let store = self.store.take().unwrap();
            store.close().unwrap();
            self.disk = self.disk.journal().crash(self.disk.journal_len(), Loss::Everything);
        } else {
            self.operation();
            let at = if was_stopped {
                self.disk.journal_len()
            } else {
                before + self.below((self.disk.journal_len() - before + 1) as u64)
            };
            let disk = ended(&self.disk, at, &mut self.random);
            drop(self.store.take());
            self.disk = disk;
        }
        self.counts.store_crashes += 1;
        self.opened_again(durable);
    }

    fn opened_again(&mut self, durable: Lsn) {
        let end = Log::look(&media(&self.disk)).unwrap().end_lsn();
        assert!(end > durable, "E1: {end} {durable}");
        for index in 0..self.replicas.len() {
            let replica = &mut self.replicas[index];
            if !replica.is_strange
                && !replica.is_foreign
                && let Some(up_to) = replica.up_to()
            {
                assert!(up_to < end, "E25.2: {} has {up_to}, and the store {end}", replica.name);
            }
        }
        let kept = self.noted.partition_point(|noted| noted.lsn < end);
        let next = self.noted.get(kept).map(|noted| noted.state.clone());
        let mut candidates = vec![self.noted[kept - 1].state.clone()];
        candidates.extend(next);
        candidates.extend(self.perhaps.take());
        self.noted.truncate(kept);
        let store = self.open(&self.disk);
        self.now = state_of(&store, &self.pages);
        assert!(candidates.contains(&self.now), "{:?} of {candidates:?}", self.now);
        let lsn = store.log().current_lsn();
        self.store = Some(store);
        self.note(lsn, false);
    }

    /// Ends a replica at any call since its last acknowledgement. It has everything that was acknowledged.
    fn replica_ends(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        drop(replica.follower.take());
        let (begin, len) = (replica.acknowledged_at, replica.disk.journal_len());
        let at = begin + self.random.below((len - begin + 1) as u64) as usize;
        replica.disk = ended(&replica.disk, at, &mut self.random);
        replica.acknowledged_at = 0;
        let up_to = replica.up_to().unwrap_or(Lsn::ZERO);
        assert!(up_to >= replica.acknowledged, "E25.1: {up_to} of {}", replica.acknowledged);
        self.counts.replica_crashes += 1;
    }

    fn options_of_replicas(&self) -> ReplicaOptions {
        ReplicaOptions { limit_bytes: self.limit_bytes, ..replica_options() }
    }

    /// Whether the store keeps the log for a replica, from a record up to this LSN on.
    fn keeps_log_for(&self, name: &str, up_to: Lsn) -> bool {
        let consumers = self.store().consumers();
        let known = consumers.iter().find(|it| it.name == name);
        known.is_some_and(|it| it.released_bytes.is_none() && it.needs <= up_to)
    }

    /// Connects a replica until it has what the store has now, or the connection ends.
    fn connection(&mut self, index: usize, is_faulty: bool) {
        let none = (Fault::None, Fault::None);
        let links = if is_faulty { (link_fault(&mut self.random), link_fault(&mut self.random)) } else { none };
        let mut fails = false;
        self.is_struck = false;
        if is_faulty && self.below(3) == 0 {
            fails = true;
            let replica = &self.replicas[index].disk;
            match self.random.below(4) {
                0 => replica.set_capacity(Some(replica.space() + (self.random.below(40) << 13))),
                _ => replica.inject(disk_fault(&mut self.random)),
            }
        } else if is_faulty && self.below(6) == 0 {
            self.is_struck = true;
            self.disk.inject(disk_fault(&mut self.random));
        }
        let name = self.replicas[index].name.clone();
        let until = self.store().log().durable_lsn();
        let server = self.store().replica_server(self.options_of_replicas());
        let mut follower = match self.replicas[index].follower.take() {
            Some(follower) => follower,
            None => match Follower::open(replica_files(&self.replicas[index].disk), &name) {
                Ok(follower) => follower,
                Err(error) if fails => return self.disk_failed(index, &error),
                Err(error) => panic!("E25.1: {error}"),
            },
        };
        let had = follower.up_to();
        // Without its newest record, the log may have begun to keep itself for this replica behind that.
        let is_kept = self.keeps_log_for(&name, had.unwrap_or(Lsn::MAX));
        let base = self.base_of(index);
        let mut sent = (Lsn::ZERO, 0);
        let (followed, served) = follow_over(&server, &mut follower, until, pair_with(links.0, links.1), |lsn| {
            sent = (lsn, self.replicas[index].disk.journal_len());
            while self.below(5) == 0 {
                self.operation();
            }
        });
        let is_released = !self.keeps_log_for(&name, Lsn::MAX);
        // A replica whose base was not complete has got another one, of this store.
        self.replicas[index].is_foreign &= self.base_of(index) == base;
        self.store_has_seen(index, &follower, sent);
        self.replicas[index].follower = Some(follower);
        self.disk.clear_faults();
        let is_known = links != none || fails || std::mem::take(&mut self.is_struck) || self.store().log().is_stopped();
        match followed {
            Ok(()) => self.followed(index),
            Err(Error::Replica(
                ReplicaError::Torn { .. } | ReplicaError::Invalid { .. } | ReplicaError::Refused { .. },
            )) if is_known => {
                self.counts.torn += 1;
            }
            Err(Error::Replica(ReplicaError::Gap { up_to, kept_from })) => {
                // The log has forgotten an opening between both, and with it the proof that it had no record.
                let is_forgotten = kept_from == up_to.next();
                let is_late = !is_kept || is_released || is_forgotten || self.replicas[index].is_strange;
                assert!(is_late, "E25.4: it is kept for {up_to}, {kept_from}");
                self.counts.gaps += 1;
                self.replicas[index] = Replica::new(index);
            }
            Err(Error::Replica(ReplicaError::OtherHistory { .. })) if self.replicas[index].is_strange => {
                self.counts.foreign += 1;
                self.replicas[index] = Replica::new(index);
            }
            Err(error) if fails => self.disk_failed(index, &error),
            Err(other) => panic!("{links:?}: {had:?}: {other}; {served:?}"),
        }
        self.replicas[index].disk.clear_faults();
        self.replicas[index].disk.set_capacity(None);
    }

    /// Returns the control file of a replica's base, which identifies it, without a call of the disk.
    fn base_of(&self, index: usize) -> Option<Vec<u8>> {
        let image = self.replicas[index].disk.image();
        image.file(&format!("base/{CONTROL_FILE}"))
    }

    fn store_has_seen(&mut self, index: usize, follower: &Follower, sent: (Lsn, usize)) {
        let statuses = self.store().replicas();
        let replica = &mut self.replicas[index];
        let Some(status) = statuses.iter().find(|status| status.name == replica.name) else { return };
        // Without a base it has not said its name yet: the status is that of the replica before it.
        if status.up_to > replica.acknowledged && follower.up_to().is_some() {
            assert!(follower.up_to() >= Some(status.up_to), "E25.1: {status:?} of {:?}", follower.up_to());
            replica.acknowledged = status.up_to;
        }
        if sent.0 >= replica.acknowledged && sent.1 > replica.acknowledged_at {
            replica.acknowledged_at = sent.1;
        }
        let have = statuses.iter().filter(|status| status.up_to >= replica.acknowledged).count();
        if !self.store().log().is_stopped() {
            let quorum = |replicas| Quorum { replicas, wait_max: Duration::ZERO };
            let lsn = self.replicas[index].acknowledged;
            self.store().wait_replicated(lsn, quorum(have)).expect("E25.7");
            self.store().wait_replicated(lsn, quorum(have + 1)).expect_err("E25.7");
        }
    }

    fn followed(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        assert!(!replica.is_foreign, "E25.5: {} has other records than the store", replica.name);
        replica.is_strange = false;
        self.counts.follows += 1;
    }

    /// The disk of a replica has failed, and works again.
    fn disk_failed(&mut self, index: usize, _error: &Error) {
        self.counts.failed_disks += 1;
        self.replicas[index].disk.clear_faults();
        self.replicas[index].disk.set_capacity(None);
        if is_off(&self.replicas[index].disk) || self.below(3) == 0 {
            self.replica_ends(index);
        }
    }

    /// Reads a replica as of a random moment.
    fn view(&mut self, index: usize) {
        let Some(up_to) = self.replicas[index].up_to().filter(|_| !self.replicas[index].is_strange) else { return };
        let files = replica_files(&self.replicas[index].disk);
        let begin = Log::look(&files.base).unwrap().end_lsn().previous();
        let range = up_to.get().saturating_sub(begin.get()) + 1;
        let lsn = Lsn::new(begin.get() + self.random.below(range));
        let moment = if self.below(3) == 0 { RestoreTarget::Newest } else { RestoreTarget::Lsn(lsn) };
        let view = View { backup: files.base, archive: Some(files.archive), moment, scratch: media(&SimDisk::new()) };
        let (view, reached) = open_as_of(&view, self.options.clone(), registry().record_kind(KIND)).expect("E25.2");
        // A write that has failed may have reached the disk.
        let is_wanted = if moment == RestoreTarget::Newest { reached >= up_to } else { reached == lsn };
        assert!(is_wanted, "E25.2: {reached} of {moment:?}");
        let (state, expected) = (state_of(&view, &self.pages), self.expected(reached));
        let is_known = expected.iter().any(|expected| expected.numbers == state.numbers);
        assert!(is_known && state.in_doubt.is_empty(), "E25.2: LSN {reached}: {state:?} of {expected:?}");
        view.check().unwrap();
        self.counts.views += 1;
    }

    /// Promotes a copy of a replica whose power has failed. The first attempt may fail.
    fn promote_copy(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        let Some(up_to) = replica.up_to().filter(|_| !replica.is_strange) else { return };
        let disk = replica.disk.journal().crash(replica.disk.journal_len(), loss(&mut self.random));
        let acknowledged = replica.acknowledged;
        let mut disk = disk;
        if self.below(2) == 0 {
            let to = SimDisk::new();
            (if self.below(3) == 0 { &disk } else { &to }).inject(disk_fault(&mut self.random));
            let _ = promote(&replica_files(&disk), &media(&to));
            disk = ended(&disk, disk.journal_len(), &mut self.random);
        }
        let to = SimDisk::new();
        let report = promote(&replica_files(&disk), &media(&to)).expect("E25.6a");
        assert!(report.up_to >= acknowledged, "E25.1: {} of {acknowledged}", report.up_to);
        assert!(report.up_to >= up_to, "E25.8: {} of {up_to}", report.up_to);
        let refused = Follower::open(replica_files(&disk), "again").map(drop).unwrap_err();
        assert!(matches!(refused, Error::Replica(ReplicaError::Promoted { .. })), "E25.6: {refused}");
        let to = ended(&to, to.journal_len(), &mut self.random);
        let promoted = self.open(&to);
        let (state, expected) = (state_of(&promoted, &self.pages), self.expected(report.up_to));
        assert!(expected.contains(&state), "E25.2: LSN {}: {state:?} of {expected:?}", report.up_to);
        promoted.transact(|txn| txn.update(at(self.pages[0], 1), &Add { amount: 1 })).unwrap();
        promoted.check().unwrap();
        self.counts.promotions += 1;
    }

    /// Promotes a replica in the place of the store, which goes on beside it for a while.
    fn failover(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        let Some(up_to) = replica.up_to().filter(|_| !replica.is_strange) else { return };
        drop(replica.follower.take());
        let to = SimDisk::new();
        let report = promote(&replica_files(&replica.disk), &media(&to)).expect("E25.6");
        assert!(report.up_to >= up_to && up_to >= replica.acknowledged, "E25.1: {up_to}");
        let up_to = report.up_to;
        self.replicas[index] = Replica::new(index);
        for replica in &mut self.replicas {
            replica.acknowledged = Lsn::ZERO;
            replica.is_foreign |= replica.up_to().is_some_and(|has| has > up_to);
            replica.is_strange = replica.up_to().is_some();
        }
        let expected = self.expected(up_to);
        let promoted = self.open(&to);
        self.now = state_of(&promoted, &self.pages);
        assert!(expected.contains(&self.now), "E25.2: {:?} of {expected:?}", self.now);
        self.noted.retain(|noted| noted.lsn <= up_to);
        let lsn = promoted.log().current_lsn();
        self.disk = to;
        let old = self.store.replace(promoted).expect("it was open");
        self.note(lsn, false);
        self.old = (!old.log().is_stopped()).then_some((old, up_to));
        self.counts.promotions += 1;
    }

    /// Connects a replica of the promoted store, or one that has not decided yet, to the old one.
    fn connect_to_old(&mut self, index: usize) {
        let Some((old, common)) = self.old.take() else { return };
        for _ in 0..self.below(4) {
            let _ = old.transact(|txn| txn.update(at(self.pages[0], 2), &Add { amount: 1 }));
        }
        let Some(up_to) = self.replicas[index].up_to() else { return };
        let mut follower = self.replicas[index].follower();
        let (server, until) = (old.replica_server(self.options_of_replicas()), old.log().durable_lsn());
        let followed = follow_with(&server, &mut follower, until, Fault::None, |_| {}).0;
        let replica = &mut self.replicas[index];
        let has_other = !replica.is_strange && up_to > common;
        assert!(!(has_other && followed.is_ok()), "E25.5: {} has records of the promoted store", replica.name);
        if has_other {
            self.counts.foreign += 1;
            let error = followed.unwrap_err();
            let is_named = matches!(
                error,
                Error::Replica(
                    ReplicaError::OtherHistory { .. } | ReplicaError::Gap { .. } | ReplicaError::Refused { .. }
                )
            );
            assert!(is_named, "E25.5: {error}");
        }
        replica.is_strange |= follower.up_to() > Some(up_to);
        replica.is_foreign |= follower.up_to() > Some(up_to.max(common));
        // What it has acknowledged to the old store is not lost by a crash.
        replica.acknowledged_at = replica.disk.journal_len();
        if replica.is_strange {
            replica.acknowledged = Lsn::ZERO;
        }
        replica.follower = Some(follower);
        self.old = Some((old, common));
    }

    fn step(&mut self) {
        let index = self.below(self.replicas.len() as u64);
        match self.below(40) {
            0..=13 => self.operation(),
            14..=15 => self.store_ends(),
            16..=18 => self.replica_ends(index),
            19..=26 => self.connection(index, true),
            27..=33 => self.connection(index, false),
            34..=35 => self.view(index),
            36..=37 => self.promote_copy(index),
            38 if self.below(4) == 0 => self.failover(index),
            39 => self.connect_to_old(index),
            _ => self.operation(),
        }
        if self.store().log().is_stopped() || is_off(&self.disk) {
            self.store_ends();
        }
    }

    /// Runs the steps, and then promotes each replica that has followed to the end.
    fn run(&mut self) {
        for _ in 0..STEPS {
            self.step();
        }
        for index in 0..self.replicas.len() {
            self.connection(index, false);
            self.view(index);
            self.promote_copy(index);
        }
        self.store().check().unwrap();
    }
}

/// E25.1, E25.2, E25.4 to E25.8.
#[test]
fn random_histories_are_followed() {
    let mut all = Vec::new();
    for seed in seeds(SEEDS) {
        let mut history = History::new(seed);
        let ran = catch_unwind(AssertUnwindSafe(|| history.run()));
        assert!(ran.is_ok(), "history {seed}; the seeds follow from CEDRAT_SEED and CEDRAT_SEEDS");
        all.push(history.counts);
    }
    let sum = |of: fn(&Counts) -> u64| all.iter().map(of).sum::<u64>();
    println!(
        "{} histories: {} follows, {} torn, {} disks, {} gaps, {} and {} crashes, {} views, {} promotions, {} foreign",
        all.len(),
        sum(|it| it.follows),
        sum(|it| it.torn),
        sum(|it| it.failed_disks),
        sum(|it| it.gaps),
        sum(|it| it.replica_crashes),
        sum(|it| it.store_crashes),
        sum(|it| it.views),
        sum(|it| it.promotions),
        sum(|it| it.foreign),
    );
}
