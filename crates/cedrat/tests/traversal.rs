//! The example `traversal`: both of its traversals mark what a plain search finds, in one transaction.

#[path = "../examples/traversal/graph.rs"]
mod graph;

use std::collections::BTreeSet;
use std::sync::Arc;

use cedrat::media::{Loss, SimDisk};
use cedrat::pages::PageId;
use cedrat::prelude::*;
use cedrat::structures::RawArrayList;
use cedrat::structures::requests::Routing;
use graph::{Graph, Mark, Reordering, Shape};

const REGIONS: Reordering = Reordering { routing: Routing::Regions { pages: 3 }, queues: 50 };
const HASH: Reordering = Reordering { routing: Routing::Hash, queues: 4 };

fn open(disk: &SimDisk) -> Store {
    let options = Options { pool_bytes: 256 << 10, ..Options::simulated() };
    Store::open(Arc::new(disk.clone()), options, cedrat::registry().operation::<Mark>()).expect("it opens")
}

/// Returns the nodes that a search in memory reaches from the first one.
fn reachable(edges: &[Vec<u32>]) -> BTreeSet<u32> {
    let (mut found, mut next) = (BTreeSet::from([0]), vec![0]);
    while let Some(node) = next.pop() {
        next.extend(edges[node as usize].iter().filter(|&&to| found.insert(to)));
    }
    found
}

/// Returns the nodes with a mark.
fn marked(store: &Store, root: PageId, mark: u32) -> BTreeSet<u32> {
    let nodes = RawArrayList::open(store, root).expect("an array");
    let mut txn = store.begin();
    let elements = nodes.iter(&mut txn).expect("sound").map(|element| element.expect("sound"));
    let marks: Vec<u32> = elements.map(|node| u32::from_le_bytes(node[..4].try_into().expect("a mark"))).collect();
    txn.rollback().expect("it has changed nothing");
    (0..).zip(marks).filter(|&(_, found)| found == mark).map(|(node, _)| node).collect()
}

#[test]
fn traversals_mark_reachable_nodes() {
    let shapes = [Shape::Ring, Shape::Random, Shape::HotSet(0), Shape::HotSet(90), Shape::HotSet(100)];
    for (shape, degree) in shapes.into_iter().flat_map(|shape| [1, 2, 9].map(|degree| (shape, degree))) {
        let edges: Vec<Vec<u32>> = shape.edges(3_000, degree, 7).collect();
        let expected = reachable(&edges);
        let disk = SimDisk::new();
        let store = open(&disk);
        let (graph, root) = Graph::create(&store, degree, edges.iter().cloned()).expect("room");
        assert_eq!(graph.node_count(), 3_000);
        let count = store.transact(|txn| graph.depth_first(txn, 1)).expect("room");
        assert_eq!((count, marked(&store, root, 1)), (expected.len() as u64, expected.clone()), "{shape:?} {degree}");
        for (mark, choice) in [(2, REGIONS), (3, HASH)] {
            let (count, drained) = store.transact(|txn| graph.reordered(txn, mark, choice)).expect("room");
            assert_eq!(count, expected.len() as u64, "{shape:?} {degree} {choice:?}");
            assert_eq!(drained.done + drained.joined, count * degree as u64 + 1, "each edge is followed once");
            assert_eq!(marked(&store, root, mark), expected, "{shape:?} {degree} {choice:?}");
        }
    }
}

#[test]
fn crashed_traversal_marks_nothing() {
    let disk = SimDisk::new();
    let store = open(&disk);
    let edges = Shape::Ring.edges(2_000, 3, 1);
    let (graph, root) = Graph::create(&store, 3, edges).expect("room");
    store.transact(|txn| graph.reordered(txn, 1, REGIONS)).expect("room");
    let mut txn = store.begin();
    graph.reordered(&mut txn, 2, HASH).expect("room");
    store.log().force(store.log().current_lsn()).expect("a sound disk");
    let crashed = disk.journal().crash(disk.journal_len(), Loss::Everything);
    txn.rollback().expect("always possible");
    assert_eq!(marked(&store, root, 1).len(), 2_000, "after a rollback");
    assert_eq!(marked(&open(&crashed), root, 1).len(), 2_000, "after a crash");
}
