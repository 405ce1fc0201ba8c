//! Shared code of this crate's tests: graphs on simulated disks.
#![cfg_attr(cedrat_shuttle, allow(dead_code, reason = "most tests are not there"))]

use cedrat_media::{Loss, Media, SimDisk};
use cedrat_objects::graph::{
    Changes, Collection, Graph, GraphError, Identity, Mode, Object, Options, Reference, Stage,
};
use cedrat_objects::{Objects, UndoPolicy};
use cedrat_pages::PageId;
use cedrat_sync::Arc;
use cedrat_txn::{Error, Registry, Store};

pub(crate) const NAME: &str = "graph";

pub(crate) fn registry() -> Registry {
    Registry::new().with(cedrat_structures::register).with(cedrat_objects::register)
}

pub(crate) fn open_on(disk: &Arc<SimDisk>, options: cedrat_txn::Options) -> Store {
    let media: Arc<dyn Media> = Arc::<SimDisk>::clone(disk);
    Store::open(media, options, registry()).unwrap()
}

/// A store on a simulated disk, with a graph of one class.
pub(crate) struct Place {
    pub(crate) disk: Arc<SimDisk>,
    pub(crate) graph: Graph,
}

pub(crate) fn place() -> Place {
    place_with(cedrat_txn::Options::simulated())
}

pub(crate) fn place_with(options: cedrat_txn::Options) -> Place {
    place_of(options, Options::default())
}

pub(crate) fn place_of(options: cedrat_txn::Options, of_graph: Options) -> Place {
    let disk = Arc::new(SimDisk::new());
    let graph = Graph::create(&open_on(&disk, options), NAME, of_graph).unwrap();
    assert_eq!(graph.define_class(b"the only one").unwrap(), 1);
    Place { disk, graph }
}

impl Place {
    pub(crate) fn commit(&self, changes: &Changes) -> Vec<Identity> {
        self.graph.commit(changes, Mode::Sync).unwrap().identities
    }

    /// Adds one object.
    pub(crate) fn add(&self, data: &[u8], references: &[Reference]) -> Identity {
        let mut changes = Changes::new();
        changes.add(1, data, references);
        self.commit(&changes)[0]
    }

    pub(crate) fn object(&self, identity: Identity) -> Object {
        self.graph.object(identity).unwrap()
    }

    /// Returns the store of the next opening, after a crash that loses everything that was not durable.
    pub(crate) fn crashed(&self) -> Place {
        self.crashed_with(cedrat_txn::Options::simulated())
    }

    pub(crate) fn crashed_with(&self, options: cedrat_txn::Options) -> Place {
        let (disk, store) = self.crashed_store(options);
        let graph = Graph::open(&store, NAME, Options::default()).unwrap();
        Place { disk, graph }
    }

    /// Opens the store of the next opening, without the graph.
    pub(crate) fn crashed_store(&self, options: cedrat_txn::Options) -> (Arc<SimDisk>, Store) {
        let disk = Arc::new(self.disk.journal().crash(self.disk.journal_len(), Loss::Everything));
        let options = cedrat_txn::Options { checkpoint_when_opened: false, ..options };
        let store = open_on(&disk, options);
        (disk, store)
    }

    #[track_caller]
    pub(crate) fn check(&self) {
        self.graph.check().unwrap().expect_sound();
        self.graph.store().check().unwrap();
    }
}

/// Begins a garbage collection, or takes one step of it.
pub(crate) fn go_on(graph: &Graph, collection: &mut Option<Collection>, objects: usize) -> Result<(), Error> {
    match collection {
        None => *collection = Some(graph.collect([])?),
        Some(under_way) => match under_way.stage() {
            Stage::Marked => drop(under_way.seal([])?),
            Stage::Done => *collection = None,
            _ => drop(under_way.step(objects)?),
        },
    }
    Ok(())
}

pub(crate) fn is_absent(error: &Error) -> bool {
    matches!(GraphError::of(GraphError::cause(error)), Some(GraphError::NoSuchObject { .. }))
}

/// Bytes that depend on their position.
pub(crate) fn pattern(len: usize, salt: u64) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 7 ^ salt) as u8).collect()
}

/// Discards a result.
pub(crate) fn just<T>(_: T) {}

/// The underlying collection of objects, in which reads mark nothing.
pub(crate) fn underneath(graph: &Graph) -> Objects {
    let page = graph.store().read(graph.root_page()).unwrap();
    let root = PageId::new(page.u64_at(0).unwrap());
    drop(page);
    let cache_bytes = Options::default().cache_bytes;
    let options = cedrat_objects::Options { cache_bytes, undo: UndoPolicy::CommittedOnly };
    Objects::at_root(graph.store(), root, options).unwrap()
}

/// A graph in a store of two partitions with few pages, for several threads.
pub(crate) fn graph_of_threads(cache_bytes: u64) -> Graph {
    let options = cedrat_txn::Options { partitions: 2, pool_bytes: 24 * 4096, ..cedrat_txn::Options::simulated() };
    let graph = Graph::create(
        &open_on(&Arc::new(SimDisk::new()), options),
        NAME,
        Options { cache_bytes, ..Options::default() },
    )
    .unwrap();
    graph.define_class(b"").unwrap();
    graph
}
