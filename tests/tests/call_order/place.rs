//! A store to call, its handles, and its expected content.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use cedrat::graph::{Changes, Graph, Identity, Mode};
use cedrat::heap::{Heap, HeapOptions};
use cedrat::media::{Loss, Media, RealDisk, SimDisk};
use cedrat::objects::{ObjectId, Objects};
use cedrat::structures::{ArrayList, HashTable};
use cedrat::txn::{Error, OpenError, Options, Result, Store, Txn};
use cedrat::wal::TxnId;
use cedrat_txn::locks::{Deadlock, LockManager, LockMode, NotGiven, PageLocks, Resource};

/// Number of values of each structure.
pub(crate) const CELLS: u8 = 5;

/// A value in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cell {
    Key(u8),
    Element(u8),
    Word(u8),
    Object(u8),
    Node(u8),
}

impl Cell {
    pub(crate) fn all() -> impl Iterator<Item = Cell> {
        let kinds: [fn(u8) -> Cell; 5] = [Cell::Key, Cell::Element, Cell::Word, Cell::Object, Cell::Node];
        kinds.into_iter().flat_map(|kind| (0..CELLS).map(kind))
    }
}

/// Changes in the order in which they were made.
pub(crate) type Effects = Vec<(Cell, u64)>;

type State = BTreeMap<Cell, u64>;

/// A lock manager that refuses locks instead of waiting, because one thread makes all calls.
#[derive(Debug, Default)]
struct Impatient(PageLocks);

impl LockManager for Impatient {
    fn lock(&self, txn: TxnId, resource: Resource, mode: LockMode) -> Result<(), Deadlock> {
        if self.0.try_lock(txn, resource, mode) { Ok(()) } else { Err(Deadlock::new(txn, resource)) }
    }

    fn lock_unless_prepared(
        &self,
        txn: TxnId,
        resource: Resource,
        mode: LockMode,
        _: &dyn Fn(TxnId) -> bool,
    ) -> Result<(), NotGiven> {
        Ok(self.lock(txn, resource, mode)?)
    }

    fn try_lock(&self, txn: TxnId, resource: Resource, mode: LockMode) -> bool {
        self.0.try_lock(txn, resource, mode)
    }

    fn prepared(&self, txn: TxnId) {
        self.0.prepared(txn);
    }

    fn ended(&self, txn: TxnId) {
        self.0.ended(txn);
    }

    fn held(&self, txn: TxnId) -> Vec<(Resource, LockMode)> {
        self.0.held(txn)
    }

    fn key_stripes(&self) -> u64 {
        self.0.key_stripes()
    }

    fn restore(&self, txn: TxnId, resource: Resource, mode: LockMode) {
        self.0.restore(txn, resource, mode);
    }
}

/// Handles of everything in a store.
#[derive(Clone)]
pub(crate) struct Handles {
    pub(crate) table: HashTable<u64, u64>,
    pub(crate) array: ArrayList<u64>,
    pub(crate) objects: Objects,
    pub(crate) heap: Option<Heap>,
    pub(crate) graph: Option<Graph>,
    pub(crate) ids: Arc<[ObjectId]>,
    pub(crate) nodes: Arc<[Identity]>,
}

fn object_options() -> cedrat::objects::Options {
    cedrat::objects::Options { cache_bytes: 1 << 16, ..cedrat::objects::Options::default() }
}

/// Returns an object's bytes: its value, and more that follows from it, so that its length changes.
fn object_bytes(value: u64) -> Vec<u8> {
    let mut bytes = vec![value as u8; 8 + value as usize % 90];
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    bytes
}

fn value_in(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes))
}

impl Handles {
    fn create(store: &Store) -> Result<Handles> {
        let objects = Objects::create(store, "objects", object_options())?;
        let graph = Graph::create(store, "graph", cedrat::graph::Options::default())?;
        graph.define_class(b"node")?;
        let mut changes = Changes::new();
        let nodes: Vec<_> = (0..CELLS).map(|_| changes.add(1, &[0; 8], &[])).collect();
        for (number, node) in nodes.into_iter().enumerate() {
            changes.set_root(&format!("node {number}"), node);
        }
        let nodes = graph.commit(&changes, Mode::Sync)?.identities.into();
        let heap =
            store.memory().create_heap("heap", &HeapOptions { chunk_len: 16 << 10, ..HeapOptions::new(64 << 10) });
        store
            .transact(|txn| {
                let table = HashTable::create(txn, "table")?;
                let array = ArrayList::create(txn, "array", 10)?;
                let ids = (0..CELLS).map(|_| objects.insert(txn, &object_bytes(0))).collect::<Result<Vec<_>>>()?;
                for number in 0..CELLS {
                    table.insert(txn, &number.into(), &0)?;
                    array.push(txn, &0)?;
                }
                Ok((table, array, ids))
            })
            .and_then(|(table, array, ids)| {
                Ok(Handles { table, array, objects, heap: Some(heap?), graph: Some(graph), ids: ids.into(), nodes })
            })
    }

    pub(crate) fn open(store: &Store, ids: &Arc<[ObjectId]>, nodes: &Arc<[Identity]>) -> Result<Handles> {
        let objects = Objects::open(store, "objects", object_options())?;
        let graph = Graph::open(store, "graph", cedrat::graph::Options::default())?;
        let heap = store.memory().heap("heap")?;
        let (table, array) =
            store.transact(|txn| Ok((HashTable::open(txn, "table")?, ArrayList::open(txn, "array")?)))?;
        let (heap, graph) = (Some(heap), Some(graph));
        Ok(Handles { table, array, objects, heap, graph, ids: Arc::clone(ids), nodes: Arc::clone(nodes) })
    }

    /// Drops what keeps the store open: heap and graph.
    pub(crate) fn let_go(&mut self) {
        (self.heap, self.graph) = (None, None);
    }

    pub(crate) fn heap(&self) -> Result<&Heap> {
        self.heap.as_ref().ok_or(Error::Misuse("the handle of the heap was dropped"))
    }

    pub(crate) fn graph(&self) -> Result<&Graph> {
        self.graph.as_ref().ok_or(Error::Misuse("the handle of the graph was dropped"))
    }

    pub(crate) fn offset(heap: &Heap, number: u8) -> u64 {
        heap.first_offset() + 8 * u64::from(number)
    }

    pub(crate) fn read(&self, txn: &mut Txn, cell: Cell) -> Result<u64> {
        match cell {
            Cell::Key(key) => Ok(self.table.get(txn, &key.into())?.unwrap_or(0)),
            Cell::Element(index) => Ok(self.array.get(txn, index.into())?.unwrap_or(u64::MAX)),
            Cell::Word(number) => {
                let heap = self.heap()?;
                txn.heap(|tx| tx.read(heap, Handles::offset(heap, number)))
            }
            Cell::Object(number) => self.objects.read(txn, self.ids[usize::from(number)], value_in),
            Cell::Node(number) => Ok(value_in(&self.graph()?.object(self.nodes[usize::from(number)])?.data)),
        }
    }

    /// Writes a value; a zero removes the key of a table. Nodes are written by commits of the graph.
    pub(crate) fn write(&self, txn: &mut Txn, cell: Cell, value: u64) -> Result<()> {
        match cell {
            Cell::Key(key) if value == 0 => self.table.remove(txn, &key.into()).map(drop),
            Cell::Key(key) => self.table.insert(txn, &key.into(), &value).map(drop),
            Cell::Element(index) => self.array.set(txn, index.into(), &value),
            Cell::Word(number) => {
                let heap = self.heap()?;
                txn.heap(|tx| tx.write(heap, Handles::offset(heap, number), value))
            }
            Cell::Object(number) => self.objects.put(txn, self.ids[usize::from(number)], &object_bytes(value)),
            Cell::Node(_) => Ok(()),
        }
    }

    pub(crate) fn changes(&self, number: u8, value: u64) -> Changes {
        let mut changes = Changes::new();
        let data = vec![value; 1 + value as usize % 9];
        let data: Vec<u8> = data.iter().flat_map(|word| word.to_le_bytes()).collect();
        changes.put(self.nodes[usize::from(number)], 1, &data, &[]);
        changes
    }
}

/// The expected states of a store: each state that it had, and the oldest that a crash may leave.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    base: State,
    pub(crate) commits: Vec<Effects>,
    /// Number of acknowledged commits.
    pub(crate) acknowledged: usize,
    pub(crate) branches: BTreeMap<Vec<u8>, Effects>,
    /// Branches whose beginning or end may be lost; and the largest number of commits up to that.
    pub(crate) uncertain: BTreeMap<Vec<u8>, (Effects, usize)>,
    /// Whether the store was stopped by a caller.
    pub(crate) stopped: bool,
}

impl History {
    pub(crate) fn commit(&mut self, effects: Effects) -> usize {
        self.commits.push(effects);
        self.commits.len()
    }

    /// Notes that a durable commit was acknowledged, and with it all earlier ones; a commit without changes does not wait for
    /// others.
    pub(crate) fn acknowledge_changes(&mut self, commits: usize) {
        if self.has_changed(commits) {
            self.acknowledge(commits);
        }
    }

    /// Returns whether this commit has certainly changed something.
    pub(crate) fn has_changed(&self, commits: usize) -> bool {
        self.after(commits) != self.after(commits - 1)
    }

    pub(crate) fn acknowledge(&mut self, up_to: usize) {
        self.acknowledged = self.acknowledged.max(up_to);
    }

    fn after(&self, commits: usize) -> State {
        let mut state = self.base.clone();
        state.extend(self.commits[..commits].iter().flatten().copied());
        state
    }

    pub(crate) fn now(&self, cell: Cell) -> u64 {
        self.after(self.commits.len()).get(&cell).copied().unwrap_or(0)
    }

    pub(crate) fn has_words_in_doubt(&self) -> bool {
        self.branches.values().flatten().any(|(cell, _)| matches!(cell, Cell::Word(_)))
    }

    /// Finds the state that was read, and continues from it. It does not contain cells in doubt.
    fn settle(&mut self, found: &State, from: usize, in_doubt: BTreeSet<Vec<u8>>) -> Result<(), String> {
        let mut to = self.commits.len();
        for id in self.branches.keys() {
            if !in_doubt.contains(id) {
                return Err(format!("branch {id:?} was prepared, and is gone"));
            }
        }
        for id in in_doubt {
            if !self.branches.contains_key(&id) {
                let (effects, commits) =
                    self.uncertain.remove(&id).ok_or(format!("branch {id:?} has come from nowhere"))?;
                to = to.min(commits);
                self.branches.insert(id, effects);
            }
        }
        let is_same = |commits: usize| {
            let state = self.after(commits);
            found.iter().all(|(cell, value)| state.get(cell).copied().unwrap_or(0) == *value)
        };
        let Some(commits) = (from.min(to)..=to).rev().find(|&commits| is_same(commits)) else {
            let (last, wanted) = (self.commits.len(), self.after(self.commits.len()));
            return Err(format!("{from} of {last} commits must be there: found {found:?}, wanted {wanted:?}"));
        };
        let base = self.after(commits);
        *self = History { base, branches: std::mem::take(&mut self.branches), ..History::default() };
        Ok(())
    }
}

enum Disk {
    Simulated(SimDisk),
    Real(PathBuf, Arc<dyn Media>),
}

/// A store's directory.
pub(crate) struct Place {
    disk: Disk,
    ids: Arc<[ObjectId]>,
    nodes: Arc<[Identity]>,
    pub(crate) history: History,
    /// Number of the newest opening.
    pub(crate) opening: usize,
}

fn options() -> Options {
    let locks = Arc::new(Impatient::default());
    let log_limit_bytes = 8 * Options::simulated().log_limit_bytes;
    Options { locks, partitions: 2, attempts: 2, log_limit_bytes, ..Options::simulated() }
}

impl Place {
    pub(crate) fn new(directory: Option<PathBuf>) -> (Place, Store, Handles) {
        let disk = match directory {
            None => Disk::Simulated(SimDisk::new()),
            Some(path) => Disk::Real(path.clone(), Arc::new(RealDisk::new(path))),
        };
        let store = Store::open(disk.media(), options(), cedrat::registry()).expect("a new store");
        let handles = Handles::create(&store).expect("room");
        let (ids, nodes) = (Arc::clone(&handles.ids), Arc::clone(&handles.nodes));
        let place = Place { disk, ids, nodes, history: History::default(), opening: 0 };
        (place, store, handles)
    }

    /// Opens the store, and reads its content. `None` while it is open.
    pub(crate) fn open(&mut self, number: usize) -> Result<Option<(Store, Handles)>, String> {
        let from = if self.history.stopped { self.history.acknowledged } else { self.history.commits.len() };
        self.open_from(number, from)
    }

    fn open_from(&mut self, number: usize, from: usize) -> Result<Option<(Store, Handles)>, String> {
        let store = match Store::open(self.disk.media(), options(), cedrat::registry()) {
            Ok(store) => store,
            Err(OpenError::InUse { .. }) => return Ok(None),
            Err(error) => return Err(format!("the store does not open: {error}")),
        };
        self.opening = number;
        let words = |error: Error| format!("in an opening: {error}");
        let handles = Handles::open(&store, &self.ids, &self.nodes).map_err(words)?;
        store.check().map_err(words)?;
        let in_doubt: BTreeSet<Vec<u8>> = store.in_doubt().unwrap().into_iter().map(|branch| branch.id).collect();
        let mut found = State::new();
        for cell in Cell::all() {
            let mut txn = store.begin();
            match handles.read(&mut txn, cell) {
                Ok(value) => drop(found.insert(cell, value)),
                Err(Error::Deadlock(_) | Error::InDoubt { .. } | Error::Heap(_)) if !in_doubt.is_empty() => {}
                Err(error) => return Err(format!("{cell:?} cannot be read: {error}")),
            }
        }
        self.history.settle(&found, from, in_doubt)?;
        Ok(Some((store, handles)))
    }

    /// Cuts the power; handles of earlier openings continue with a disk that no longer exists.
    pub(crate) fn cut_power(&mut self, loss: Loss, number: usize) -> Result<Option<(Store, Handles)>, String> {
        match &self.disk {
            Disk::Simulated(disk) => self.disk = Disk::Simulated(disk.cut_power(loss)),
            Disk::Real(..) => return Ok(None),
        }
        self.open_from(number, self.history.acknowledged)
    }

    /// Opens the same files by another media object.
    pub(crate) fn renew_media(&mut self) {
        if let Disk::Real(path, media) = &mut self.disk {
            *media = Arc::new(RealDisk::new(path.clone()));
        }
    }
}

impl Disk {
    fn media(&self) -> Arc<dyn Media> {
        match self {
            Disk::Simulated(disk) => Arc::new(disk.clone()),
            Disk::Real(_, media) => Arc::clone(media),
        }
    }
}
