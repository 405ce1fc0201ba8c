//! Finds all nodes of a graph that are reachable from the first one, in two ways (Lemon §8): depth first, and with visits that are
//! reordered by their pages. Prints the pages that each has read from the disk.
//!
//! The argument is the shape of the graph: `ring` (the default), `random`, or the percentage of edges to near nodes.

mod graph;

use std::path::Path;

use cedrat::Options;
use cedrat::prelude::*;
use cedrat::structures::requests::Routing;
use graph::{Graph, Mark, Reordering, Shape};

/// Number of nodes.
const NODES: u32 = 50_000;
/// Number of edges of each node.
const DEGREE: usize = 3;
/// The pool has space for a tenth of the graph's pages.
const POOL_BYTES: u64 = 256 << 10;
/// Number of pages of a region: half of the pool.
const REGION_PAGES: u64 = 32;

fn open(directory: &Path, pool_bytes: u64) -> Result<Store, OpenError> {
    let options = Options { pool_bytes, ..Options::default() };
    cedrat::open_with(directory, options, cedrat::registry().operation::<Mark>())
}

/// Returns the shape that the argument of the program names.
fn shape() -> Result<Shape, String> {
    match std::env::args().nth(1).as_deref() {
        None | Some("ring") => Ok(Shape::Ring),
        Some("random") => Ok(Shape::Random),
        Some(text) => match text.parse() {
            Ok(percent) if percent <= 100 => Ok(Shape::HotSet(percent)),
            _ => Err(format!("{text}: the shape of a graph is ring, random or a percentage")),
        },
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let store = open(directory.path(), 64 << 20)?;
    let root = Graph::create(&store, DEGREE, shape()?.edges(NODES, DEGREE, 1))?.1;
    store.close()?;

    let store = open(directory.path(), POOL_BYTES)?;
    let graph = Graph::open(&store, root)?;
    let regions = Reordering { routing: Routing::Regions { pages: REGION_PAGES }, queues: 1_000 };
    let hash = Reordering { routing: Routing::Hash, queues: 20 };
    for (name, choice) in [("depth first", None), ("by region", Some(regions)), ("by hash", Some(hash))] {
        let before = store.pool().stats().pages_read;
        // Undone, so that each traversal finds the same graph.
        let mut txn = store.begin();
        let marked = match choice {
            None => graph.depth_first(&mut txn, 1)?,
            Some(choice) => graph.reordered(&mut txn, 1, choice)?.0,
        };
        let loads = store.pool().stats().pages_read - before;
        txn.rollback()?;
        println!("{name}: {marked} of {} nodes, {loads} pages read", graph.node_count());
    }
    Ok(())
}
