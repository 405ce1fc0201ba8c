//! Directed graphs as records of a fixed length in an array (Lemon §8.1), and two traversals of them (Lemon §8.2).

use cedrat::pages::layout::{Fixed, FixedMut};
use cedrat::pages::{Damaged, PageId, PageMut, PageRef, Slot};
use cedrat::prelude::*;
use cedrat::structures::RawArrayList;
use cedrat::structures::requests::{Demultiplexer, Drained, Joined, Request, Routing};
use serde::{Deserialize, Serialize};

/// A node: its mark, then the numbers of the nodes to which its edges lead, four bytes each.
const WORD_LEN: usize = 4;

/// The shape of a generated graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One edge leads to the next node, the last one to the first; the others lead anywhere (as in OO7).
    Ring,
    /// All edges lead anywhere.
    Random,
    /// This percentage of the edges leads to the closest tenth of the nodes, the others to the rest.
    HotSet(u8),
}

impl Shape {
    /// Returns the edges of each of `nodes` nodes. Equal arguments give equal graphs.
    pub(crate) fn edges(self, nodes: u32, degree: usize, seed: u64) -> impl Iterator<Item = Vec<u32>> {
        let mut random = Random(seed);
        (0..nodes).map(move |node| {
            let mut edges: Vec<u32> = (0..degree).map(|_| self.target(node, nodes, &mut random)).collect();
            if self == Shape::Ring {
                edges[0] = (node + 1) % nodes;
            }
            edges
        })
    }

    fn target(self, from: u32, nodes: u32, random: &mut Random) -> u32 {
        let Shape::HotSet(percent) = self else { return random.below(nodes) };
        let hot = (nodes / 10).max(1);
        // Relative to the first node of the hot set, which lies around the node.
        let first = u64::from(from) + u64::from(nodes - hot / 2);
        let to =
            if random.below(100) < u32::from(percent) { random.below(hot) } else { hot + random.below(nodes - hot) };
        ((first + u64::from(to)) % u64::from(nodes)) as u32
    }
}

/// A random number generator, SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % u64::from(bound)) as u32
    }
}

/// Sets the mark of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// The new mark.
    pub(crate) mark: u32,
}

impl Operation for Mark {
    const NAME: &'static str = "traversal.mark.v1";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        let node = Fixed::of(page)?.get(at).ok_or(Refused::new("there is no node at this place"))?;
        Ok(Undo::op(Mark { mark: mark_of(node) }))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        FixedMut::of(page)?.edit(at, |node| {
            if let Some(mark) = node.first_chunk_mut() {
                *mark = self.mark.to_le_bytes();
            }
        })
    }
}

fn word(node: &[u8], index: usize) -> u32 {
    let bytes = node.get(index * WORD_LEN..).and_then(|rest| rest.first_chunk());
    bytes.copied().map_or(0, u32::from_le_bytes)
}

fn mark_of(node: &[u8]) -> u32 {
    word(node, 0)
}

/// The visit of a node: a request of a traversal.
#[derive(Clone, Copy, Debug)]
struct Visit(RecordId);

impl Request for Visit {
    fn page(&self) -> PageId {
        self.0.page
    }

    fn order(&self) -> u64 {
        self.0.slot.0.into()
    }

    // A node that is visited once is not visited again.
    fn join(self, _later: Visit) -> Joined<Visit> {
        Joined::One(self)
    }
}

/// The choice of a traversal that reorders its visits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reordering {
    /// The queue of a page.
    pub(crate) routing: Routing,
    /// The number of queues.
    pub(crate) queues: usize,
}

/// A directed graph in a store, each of whose nodes has as many edges.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    nodes: RawArrayList,
    len: u64,
}

impl Graph {
    /// Creates a graph in transactions of some thousand nodes. Returns it, and its root, by which it is opened again.
    pub(crate) fn create(
        store: &Store,
        degree: usize,
        edges: impl Iterator<Item = Vec<u32>>,
    ) -> Result<(Graph, PageId)> {
        let element_len = ((degree + 1) * WORD_LEN) as u16;
        let nodes = store.transact(|txn| RawArrayList::create(txn, element_len))?;
        let mut edges = edges.peekable();
        while edges.peek().is_some() {
            let batch: Vec<Vec<u32>> = edges.by_ref().take(5_000).collect();
            store.transact(|txn| {
                batch.iter().try_for_each(|edges| {
                    let words = [0].iter().chain(edges).flat_map(|word| word.to_le_bytes());
                    nodes.push(txn, &words.collect::<Vec<u8>>()).map(drop)
                })
            })?;
        }
        let root = nodes.root();
        Ok((Graph::open(store, root)?, root))
    }

    /// Opens a graph.
    pub(crate) fn open(store: &Store, root: PageId) -> Result<Graph> {
        let nodes = RawArrayList::open(store, root)?;
        let len = store.transact(|txn| nodes.len(txn))?;
        Ok(Graph { nodes, len })
    }

    /// Returns the number of nodes.
    pub(crate) fn node_count(&self) -> u64 {
        self.len
    }

    /// Marks all nodes that are reachable from the first one, by a search that follows the newest edge first. Returns their number.
    pub(crate) fn depth_first(&self, txn: &mut Txn, mark: u32) -> Result<u64> {
        let (mut stack, mut marked) = (vec![0], 0);
        while let Some(node) = stack.pop() {
            let at = self.nodes.record(txn, node)?;
            if let Some(edges) = visit(txn, at, mark)? {
                marked += 1;
                stack.extend(edges.into_iter().rev());
            }
        }
        Ok(marked)
    }

    /// Marks the same nodes, with visits that wait in queues and are joined and reordered there. Returns their number, and a report.
    pub(crate) fn reordered(&self, txn: &mut Txn, mark: u32, choice: Reordering) -> Result<(u64, Drained)> {
        // Each edge is followed once.
        let edges = self.len * (u64::from(self.nodes.element_len()) / WORD_LEN as u64 - 1);
        let visits = Demultiplexer::new(choice.routing, choice.queues, edges as usize + 1);
        visits.push(Visit(self.nodes.record(txn, 0)?)).expect("it is the first one");
        let mut marked = 0;
        let drained = visits.drain(|visits, Visit(at)| {
            if let Some(edges) = visit(txn, at, mark)? {
                marked += 1;
                for node in edges {
                    visits.push(Visit(self.nodes.record(txn, node)?)).expect("there is space for each edge");
                }
            }
            Ok::<_, Error>(())
        })?;
        Ok((marked, drained))
    }
}

/// Marks a node. Returns the nodes to which its edges lead; `None`: it had this mark.
fn visit(txn: &mut Txn, at: RecordId, mark: u32) -> Result<Option<Vec<u64>>> {
    let edges = {
        let page = txn.read(at.page)?;
        let node = Fixed::of(&page)?.get(at.slot).ok_or(Refused::new("there is no node at this place"))?;
        if mark_of(node) == mark {
            return Ok(None);
        }
        (1..node.len() / WORD_LEN).map(|index| word(node, index).into()).collect()
    };
    txn.update(at, &Mark { mark })?;
    Ok(Some(edges))
}
