//! Graphs in which as many objects are added as become unreachable: their size stays constant while they are open.
#![cfg(not(cedrat_shuttle))] // threads: graph_threads_beside.rs

use std::collections::{BTreeMap, VecDeque};

use cedrat_objects::graph::{Changes, Identity, Mode, Reference, Stage};

use crate::graph_common::{Place, is_absent, place_with};

/// A hundred objects are added, and a hundred removed, again and again; collections run from time to time.
struct Generations {
    place: Place,
    len: usize,
    /// Number of generations that roots reach.
    kept: usize,
    live: VecDeque<Vec<Identity>>,
    /// All objects so far, with their content.
    given: BTreeMap<Identity, u64>,
    turn: u64,
}

impl Generations {
    fn data(&self, turn: u64) -> Vec<u8> {
        vec![turn as u8; self.len]
    }

    fn next(&mut self) {
        let (mut changes, data) = (Changes::new(), self.data(self.turn));
        let mut next = Reference::NULL;
        for _ in 0..100 {
            next = changes.add(1, &data, &[next]);
        }
        changes.set_root(&format!("generation {}", self.turn % self.kept as u64), next);
        let ids = self.place.graph.commit(&changes, Mode::Async).unwrap().identities;
        for &id in &ids {
            assert!(self.given.insert(id, self.turn).is_none(), "E19.11: {id} was given away twice");
        }
        self.live.push_back(ids);
        if self.live.len() > self.kept {
            self.live.pop_front();
        }
        self.turn += 1;
    }

    fn collect(&self) {
        let mut collection = self.place.graph.collect([]).unwrap();
        while collection.step(50).unwrap() != Stage::Done {
            if collection.stage() == Stage::Marked {
                collection.seal([]).unwrap();
            }
        }
    }

    fn allocated(&self) -> u64 {
        self.place.graph.store().checkpoint().unwrap();
        self.place.graph.store().check().unwrap().pages_allocated
    }

    /// A reader with an old identity gets the original object, or none.
    fn check(&self) {
        let live: Vec<Identity> = self.live.iter().flatten().copied().collect();
        for (&id, &turn) in &self.given {
            match self.place.graph.object(id) {
                Ok(object) => assert!(object.data == self.data(turn), "{id} leads to a stranger"),
                Err(error) => assert!(is_absent(&error) && !live.contains(&id), "{id}: {error}"),
            }
        }
        self.place.check();
    }
}

/// J034, E19.11: the page file of a graph that is open for long has as many pages after 300 generations as after 100, and
/// space that is freed while nothing is added is used by later objects.
#[test]
fn steady_graph_takes_no_more_pages() {
    // Bytes of an object, generations that stay, and the permitted ratio of the file to the live data.
    for (len, kept, most) in [(16, 3, 3), (80, 3, 3), (1000, 3, 3), (3704, 2, 3), (6000, 1, 4)] {
        let of_store = cedrat_txn::Options { log_limit_bytes: 16 << 20, ..cedrat_txn::Options::simulated() };
        let mut generations = Generations {
            place: place_with(of_store),
            len,
            kept,
            live: VecDeque::new(),
            given: BTreeMap::new(),
            turn: 0,
        };
        let mut pages = Vec::new();
        for turn in 1..=300 {
            generations.next();
            if turn % 2 == 0 {
                generations.collect();
            }
            if turn % 50 == 0 {
                pages.push(generations.allocated());
            }
        }
        generations.check();
        let stay = (kept * 100 * (len + 40)) as u64 / 4000 + 10;
        assert!(pages[5] <= pages[1] + 2, "{len}: {pages:?}");
        assert!(pages[5] <= most * stay, "{len}: {pages:?} for {stay}");
    }
}

/// E19.16: a graph that shrinks gives its pages back to the store, and grows into them again.
#[test]
fn shrinking_graph_frees_its_pages() {
    let of_store = cedrat_txn::Options { log_limit_bytes: 16 << 20, ..cedrat_txn::Options::simulated() };
    let mut generations = Generations {
        place: place_with(of_store),
        len: 1000,
        kept: 20,
        live: VecDeque::new(),
        given: BTreeMap::new(),
        turn: 0,
    };
    let mut most = Vec::new();
    for _ in 0..3 {
        (0..20).for_each(|_| generations.next());
        generations.collect();
        let full = generations.allocated();
        // Roots keep only one generation.
        let mut changes = Changes::new();
        for root in 0..19 {
            changes.set_root(&format!("generation {root}"), Reference::NULL);
        }
        generations.place.graph.commit(&changes, Mode::Async).unwrap();
        generations.live.drain(..19);
        generations.collect();
        let empty = generations.allocated();
        assert!(empty < full / 4, "{full} pages, then {empty}");
        generations.check();
        most.push(full);
    }
    assert!(most[2] <= most[0] + 40, "{most:?}");
}
