//! Random histories with a consumer of the change stream: rollbacks, savepoints, prepared branches, crashes, logs that are recycled,
//! with an archive and without.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use cedrat_media::{Loss, SimDisk};
use cedrat_pages::PageId;
use cedrat_structures::{RawHashTable, register};
use cedrat_sync::atomic::{AtomicUsize, Ordering};
use cedrat_sync::{Arc, thread};
use cedrat_txn::{
    Change, ChangeStream, Commit, Consumer, ConsumerOptions, Error, NoLocks, Options, PageLocks, Prepared, Registry,
    Store, Txn, Vote,
};

use crate::changes::{Maps, content};
use crate::common::{Random, media, seeds};

/// The state of the consumer.
#[derive(Clone, Default)]
struct Model {
    maps: Maps,
    /// The number of the newest transaction.
    newest: u64,
}

const NEWEST: &[u8] = b"newest";

impl Model {
    fn apply(&mut self, change: Change) {
        match change {
            Change::Put { structure, key, value } => {
                if key == NEWEST {
                    let number = u64::from_le_bytes(value[..].try_into().unwrap());
                    assert_eq!(number, self.newest + 1, "E23.1: none is missing, and none comes twice");
                    self.newest = number;
                }
                self.maps.insert((structure, key), value);
            }
            Change::Remove { structure, key } => {
                drop(self.maps.remove(&(structure, key)).expect("E23.2: it was there"))
            }
            other => panic!("E23.2: {other:?}"),
        }
    }
}

struct World {
    random: Random,
    disk: SimDisk,
    archive: Option<SimDisk>,
    store: Option<Store>,
    tables: [PageId; 2],
    branches: VecDeque<u64>,
    branch: u64,
    newest: u64,
    limit_bytes: u64,
    stream: Option<ChangeStream>,
    model: Model,
    confirmed: Model,
    lost: usize,
}

fn opened(disk: &SimDisk, archive: Option<&SimDisk>) -> Store {
    let locks = Arc::new(NoLocks);
    let options = Options { archive: archive.map(media), partitions: 3, locks, ..Options::simulated() };
    Store::open(media(disk), options, Registry::new().with(register)).expect("it opens")
}

fn two_tables(store: &Store) -> [PageId; 2] {
    store.transact(|txn| Ok([RawHashTable::create(txn)?.root(), RawHashTable::create(txn)?.root()])).unwrap()
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let disk = SimDisk::new();
        let archive = (random.below(2) == 0).then(SimDisk::new);
        let store = opened(&disk, archive.as_ref());
        let tables = two_tables(&store);
        let limit_bytes = [100_000, 1 << 40][random.below(2) as usize];
        let mut world = World {
            random,
            disk,
            archive,
            store: Some(store),
            tables,
            branches: VecDeque::new(),
            branch: 0,
            newest: 0,
            limit_bytes,
            stream: None,
            model: Model::default(),
            confirmed: Model::default(),
            lost: 0,
        };
        world.consumer();
        world
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn consumer(&mut self) -> Consumer {
        let options = ConsumerOptions { limit_bytes: self.limit_bytes };
        self.store().consumer("model", options).unwrap()
    }

    /// Changes some keys, of which those of a branch are its own.
    fn change(&mut self, txn: &mut Txn, own: Option<u64>) {
        for _ in 0..self.random.below(30) {
            let root = self.tables[self.random.below(2) as usize];
            let table = RawHashTable::open(self.store(), root).unwrap();
            let key = match own {
                Some(branch) => 1_000_000 + branch * 100 + self.random.below(20),
                None => self.random.below(400),
            };
            let key = key.to_le_bytes();
            if self.random.below(3) == 0 {
                table.remove(txn, &key).unwrap();
            } else {
                let len = [8, 30, 900][self.random.below(3) as usize];
                table.put(txn, &key, &vec![self.random.below(256) as u8; len]).unwrap();
            }
        }
    }

    fn change_with_savepoints(&mut self, txn: &mut Txn, own: Option<u64>) {
        self.change(txn, own);
        for _ in 0..self.random.below(3) {
            let savepoint = txn.savepoint();
            self.change(txn, own);
            if self.random.below(2) == 0 {
                txn.rollback_to(savepoint).unwrap();
                self.change(txn, own);
            }
        }
    }

    fn transact(&mut self) {
        let mut txn = self.store().begin();
        self.change_with_savepoints(&mut txn, None);
        if self.random.below(4) == 0 {
            return txn.rollback().unwrap();
        }
        self.newest += 1;
        let table = RawHashTable::open(self.store(), self.tables[0]).unwrap();
        table.put(&mut txn, NEWEST, &self.newest.to_le_bytes()).unwrap();
        txn.commit(if self.random.below(2) == 0 { Commit::Sync } else { Commit::Async }).unwrap();
    }

    fn prepare(&mut self) {
        if self.branches.len() >= 3 {
            return;
        }
        self.branch += 1;
        let mut txn = self.store().begin();
        let table = RawHashTable::open(self.store(), self.tables[1]).unwrap();
        table.put(&mut txn, &(self.branch << 32).to_le_bytes(), b"branch").unwrap();
        self.change_with_savepoints(&mut txn, Some(self.branch));
        let Vote::Prepared(prepared) = txn.prepare(&self.branch.to_le_bytes()).unwrap() else {
            panic!("it has changed")
        };
        drop::<Prepared>(prepared);
        self.branches.push_back(self.branch);
    }

    fn decide(&mut self) {
        let Some(branch) = self.branches.pop_front() else { return };
        let prepared = self.store().prepared(&branch.to_le_bytes()).unwrap();
        if self.random.below(2) == 0 {
            prepared.commit(Commit::Sync).unwrap();
        } else {
            prepared.rollback().unwrap();
        }
    }

    /// Reads all that there is, and sometimes confirms in between.
    fn follow(&mut self) {
        let consumer = self.consumer();
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                self.model = self.confirmed.clone();
                consumer.changes().unwrap()
            }
        };
        loop {
            let mut set = match stream.next() {
                Ok(Some(set)) => set,
                Ok(None) => break,
                Err(error @ Error::ChangesLost { .. }) => return self.restart(&consumer, &error),
                Err(error) => panic!("E23.4: {error}"),
            };
            while let Some(change) = set.next().expect("E23.5: a transaction is read as a whole") {
                self.model.apply(change);
            }
            if self.random.below(4) == 0 {
                consumer.confirm(&set.token()).unwrap();
                self.confirmed = self.model.clone();
            }
        }
        consumer.confirm(&stream.token()).unwrap();
        self.confirmed = self.model.clone();
        self.stream = Some(stream).filter(|_| self.random.below(3) > 0);
    }

    /// Begins again after changes were lost, which can only be without an archive.
    fn restart(&mut self, consumer: &Consumer, error: &Error) {
        assert!(self.archive.is_none() && error.to_string().contains("\"model\""), "E23.4: {error}");
        let status = self.store().consumers().pop().unwrap();
        assert!(status.lacks_log && status.released_bytes.is_some(), "E23.4: {status:?}");
        while !self.branches.is_empty() {
            self.decide();
        }
        consumer.restart().unwrap();
        self.confirmed = Model { maps: self.content(), newest: self.newest };
        (self.stream, self.lost) = (None, self.lost + 1);
    }

    fn content(&self) -> Maps {
        let table = |root: PageId| RawHashTable::open(self.store(), root).unwrap();
        self.tables.iter().flat_map(|&root| content(self.store(), &table(root))).collect()
    }

    /// Compares the model with the store, in which no transaction is open.
    fn compare(&mut self) {
        while !self.branches.is_empty() {
            self.decide();
        }
        let log = self.store().log();
        log.force(log.current_lsn()).unwrap();
        self.follow();
        if self.stream.is_none() {
            self.follow();
        }
        assert_eq!(self.confirmed.maps, self.content(), "E23.1");
        assert_eq!(self.confirmed.newest, self.newest, "E23.1");
    }

    fn reopen(&mut self) {
        self.stream = None;
        let store = self.store.take().expect("it is open");
        let loss = if self.random.below(3) == 0 {
            store.close().unwrap();
            Loss::Everything
        } else {
            drop(store);
            Loss::Random(self.random.below(1 << 40))
        };
        self.disk = self.disk.journal().crash(self.disk.journal_len(), loss);
        self.archive = self.archive.take().map(|disk| disk.journal().crash(disk.journal_len(), Loss::Everything));
        self.store = Some(opened(&self.disk, self.archive.as_ref()));
        let table = RawHashTable::open(self.store(), self.tables[0]).unwrap();
        let mut txn = self.store().begin();
        let newest = table.get(&mut txn, NEWEST).unwrap();
        txn.rollback().unwrap();
        self.newest = newest.map_or(0, |bytes| u64::from_le_bytes(bytes[..].try_into().unwrap()));
        let in_doubt = self.store().in_doubt().unwrap();
        self.branches = in_doubt.iter().map(|branch| u64::from_le_bytes(branch.id[..].try_into().unwrap())).collect();
    }

    fn step(&mut self) {
        match self.random.below(30) {
            0..16 => self.transact(),
            16..18 => self.prepare(),
            18..20 => self.decide(),
            20..22 => self.store().checkpoint().unwrap(),
            22..27 => self.follow(),
            27 => self.compare(),
            _ => self.reopen(),
        }
    }
}

/// However often the store crashes, the log is recycled, or a consumer lags, the consumer gets each transaction once behind what
/// it has confirmed, or an error with its name.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn stream_applied_to_model_is_store() {
    let mut lost = 0;
    for seed in seeds(40) {
        let mut world = World::new(seed);
        for _ in 0..150 {
            world.step();
        }
        world.compare();
        lost += world.lost;
    }
    assert!(lost > 0, "some consumers were released without an archive");
}

/// The work of one thread: transactions that number themselves, some of which roll back. Returns the others.
fn work(store: &Store, tables: [PageId; 2], thread: u64) -> Vec<u64> {
    let mut random = Random::new(thread);
    let mut committed = Vec::new();
    for number in 1..=200_u64 {
        let is_lost = random.below(5) == 0;
        let of_change = random.clone();
        let done = store.transact(|txn| {
            change_in_thread(store, tables, txn, of_change.clone(), thread)?;
            let own = RawHashTable::open(store, tables[0])?;
            own.put(txn, &[thread as u8], &number.to_le_bytes())?;
            if is_lost { Err(Error::user("it changed its mind")) } else { Ok(()) }
        });
        assert_eq!(done.is_err(), is_lost, "{done:?}");
        committed.extend(done.is_ok().then_some(number));
        random.below(2);
        if number % 16 == thread {
            store.checkpoint().expect("the disk works");
        }
    }
    committed
}

fn change_in_thread(
    store: &Store,
    tables: [PageId; 2],
    txn: &mut Txn,
    mut random: Random,
    thread: u64,
) -> cedrat_txn::Result<()> {
    for _ in 0..random.below(20) {
        let table = RawHashTable::open(store, tables[random.below(2) as usize])?;
        let key = random.below(300).to_le_bytes();
        let savepoint = txn.savepoint();
        match random.below(4) {
            0 => table.remove(txn, &key)?,
            way => table.put(txn, &key, &vec![thread as u8; [8, 30, 900][way as usize - 1]])?,
        };
        if random.below(4) == 0 {
            txn.rollback_to(savepoint)?;
        }
    }
    Ok(())
}

/// The transactions of threads that a stream has delivered.
#[derive(Default)]
struct Followed {
    maps: Maps,
    /// For each thread, the numbers of its transactions.
    numbers: BTreeMap<u8, Vec<u64>>,
}

impl Followed {
    /// Reads all that there is, and confirms some.
    fn follow(&mut self, stream: &mut ChangeStream, consumer: &Consumer) {
        let mut read = 0;
        while let Some(mut set) = stream.next().expect("E23.4a: the archive has all") {
            while let Some(change) = set.next().expect("E23.4a: the archive has all") {
                self.apply(change);
            }
            read += 1;
            if read % 32 == 0 {
                consumer.confirm(&set.token()).unwrap();
            }
        }
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Put { structure, key, value } => {
                if let [thread] = key[..] {
                    let number = u64::from_le_bytes(value[..].try_into().unwrap());
                    self.numbers.entry(thread).or_default().push(number);
                }
                self.maps.insert((structure, key), value);
            }
            Change::Remove { structure, key } => {
                self.maps.remove(&(structure, key)).expect("E23.2: it was there");
            }
            other => panic!("E23.2: {other:?}"),
        }
    }
}

/// Counts a thread when it has finished, also by a panic.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Threads change two tables beside checkpoints, while a consumer follows them; the log is recycled, and what the consumer has not
/// read then, it reads in the archive.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn follower_sees_threads_commit_once() {
    for limit_bytes in [0, 200_000, u64::MAX] {
        let to = SimDisk::new();
        let locks = Arc::new(PageLocks::default());
        let options =
            Options { archive: Some(media(&to)), partitions: 3, locks, background: true, ..Options::simulated() };
        let store = Store::open(media(&SimDisk::new()), options, Registry::new().with(register)).expect("it opens");
        let tables = two_tables(&store);
        let consumer = store.consumer("follower", ConsumerOptions { limit_bytes }).unwrap();
        let finished = Arc::new(AtomicUsize::new(0));
        let spawn = |thread: u64| {
            let (store, finished) = (store.clone(), Arc::clone(&finished));
            thread::spawn(move || {
                let _counted = Counted(finished);
                work(&store, tables, thread)
            })
        };
        let threads: Vec<_> = (1..4).map(spawn).collect();
        let (mut stream, mut followed) = (consumer.changes().unwrap(), Followed::default());
        while finished.load(Ordering::SeqCst) < threads.len() {
            followed.follow(&mut stream, &consumer);
            stream.wait(Duration::from_millis(1)).unwrap();
        }
        let committed: BTreeMap<u8, Vec<u64>> =
            (1..).zip(threads.into_iter().map(|thread| thread.join().unwrap())).collect();
        followed.follow(&mut stream, &consumer);
        assert_eq!(followed.numbers, committed, "E23.1: limit {limit_bytes}");
        let table = |root: PageId| RawHashTable::open(&store, root).unwrap();
        let all: Maps = tables.iter().flat_map(|&root| content(&store, &table(root))).collect();
        assert_eq!(followed.maps, all, "E23.1, E23.2: limit {limit_bytes}");
    }
}
