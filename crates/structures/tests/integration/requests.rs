//! Requests that are reordered, joined and cancelled on their way to pages.

use std::collections::BTreeMap;

use cedrat_pages::PageId;
use cedrat_structures::requests::{Demultiplexer, Joined, Request, Routing};
use cedrat_sync::Mutex;

use crate::common::{Random, seeds};

/// A change of a number: `Set` takes the place of all changes before it, and a sum of zero changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Set(i64),
    Add(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Of {
    page: u64,
    slot: u64,
    change: Change,
}

impl Request for Of {
    fn page(&self) -> PageId {
        PageId::new(self.page)
    }

    fn order(&self) -> u64 {
        self.slot
    }

    fn join(self, later: Of) -> Joined<Of> {
        let change = match (self.change, later.change) {
            (_, Change::Set(_)) => return Joined::One(later),
            (Change::Set(number), Change::Add(_)) if number % 5 == 0 => return Joined::Apart(self, later),
            (Change::Set(number), Change::Add(amount)) => Change::Set(number + amount),
            (Change::Add(first), Change::Add(second)) if first + second == 0 => return Joined::None,
            (Change::Add(first), Change::Add(second)) => Change::Add(first + second),
        };
        Joined::One(Of { change, ..self })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Numbers(BTreeMap<(u64, u64), i64>);

impl Numbers {
    fn apply(&mut self, request: Of) {
        let number = self.0.entry((request.page, request.slot)).or_default();
        match request.change {
            Change::Set(to) => *number = to,
            Change::Add(amount) => *number += amount,
        }
    }

    fn without_zeros(mut self) -> Numbers {
        self.0.retain(|_, number| *number != 0);
        self
    }
}

fn any_request(random: &mut Random) -> Of {
    let change = match random.below(3) {
        0 => Change::Set(random.below(20) as i64),
        _ => Change::Add(random.below(5) as i64 - 2),
    };
    Of { page: random.below(40), slot: random.below(3), change }
}

fn any_queues(random: &mut Random, limit: usize) -> Demultiplexer<Of> {
    let routing = match random.below(2) {
        0 => Routing::Regions { pages: 1 + random.below(12) },
        _ => Routing::Hash,
    };
    Demultiplexer::new(routing, 1 + random.below(6) as usize, limit)
}

#[test]
fn drained_requests_equal_those_in_order() {
    for seed in seeds(200) {
        let mut random = Random::new(seed);
        let queues = any_queues(&mut random, 10_000);
        let (mut expected, mut found, mut pushed, mut ran) = (Numbers::default(), Numbers::default(), 0, 0);
        for _ in 0..1 + random.below(4) {
            for _ in 0..random.below(300) {
                let request = any_request(&mut random);
                expected.apply(request);
                queues.push(request).expect("below the limit");
                pushed += 1;
            }
            // Some fail, and run when they are pushed again.
            while let Err(failed) = queues.drain(|queues, request| {
                if random.below(50) == 0 {
                    return Err(request);
                }
                if random.below(20) == 0 {
                    // Of another number, so that it commutes with all that wait.
                    let other = Of { page: 100 + request.page, slot: 0, change: Change::Add(1) };
                    expected.apply(other);
                    queues.push(other).expect("below the limit");
                    pushed += 1;
                }
                found.apply(request);
                ran += 1;
                Ok(())
            }) {
                found.apply(failed);
                ran += 1;
            }
            assert!(queues.is_empty());
            assert_eq!(found.clone().without_zeros(), expected.clone().without_zeros(), "seed {seed}");
        }
        assert!(ran <= pushed, "joined requests run once");
    }
}

#[test]
fn full_queues_return_the_request() {
    let queues = Demultiplexer::new(Routing::Hash, 3, 2);
    let request = |page| Of { page, slot: 0, change: Change::Set(page as i64) };
    queues.push(request(1)).expect("below the limit");
    queues.push(request(2)).expect("below the limit");
    let full = queues.push(request(3)).expect_err("the limit");
    assert_eq!((full.request, full.limit, queues.len()), (request(3), 2, 2));
    assert!(full.to_string().contains("2 requests wait"), "{full}");
    let drained = queues.drain(|_, _| Ok::<_, ()>(())).expect("no error");
    assert_eq!((drained.done, drained.joined, queues.len()), (2, 0, 0));
    queues.push(request(3)).expect("there is space again");
}

#[test]
fn requests_of_region_run_together() {
    let queues = Demultiplexer::new(Routing::Regions { pages: 10 }, 100, 1_000);
    let mut random = Random::new(3);
    for _ in 0..500 {
        let request = Of { page: random.below(100), slot: random.below(1 << 40), change: Change::Add(1) };
        queues.push(request).expect("below the limit");
    }
    let mut pages = Vec::new();
    let note = |_: &_, request: Of| {
        pages.push(request.page);
        Ok::<_, ()>(())
    };
    let drained = queues.drain(note).expect("no error");
    assert_eq!((drained.batches, drained.done), (10, 500));
    assert!(pages.chunk_by(|a, b| a / 10 == b / 10).count() == 10, "each region once");
    assert!(pages.chunk_by(|a, b| a == b).count() <= 100, "each page once");
}

#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn threads_drain_each_request_once() {
    for seed in seeds(40) {
        let mut random = Random::new(seed);
        let queues = any_queues(&mut random, 10_000);
        let (mut expected, found) = (Numbers::default(), Mutex::new(Numbers::default()));
        for _ in 0..400 {
            let request = any_request(&mut random);
            expected.apply(request);
            queues.push(request).expect("below the limit");
        }
        let fails_at = random.below(40);
        let work = |queues: &Demultiplexer<Of>, request: Of| {
            if request.page == fails_at && request.slot == 1 {
                return Err(request);
            }
            if request.page < 40 && request.slot == 2 {
                let other = Of { page: 100 + request.page, slot: 2, change: Change::Set(1) };
                queues.push(other).expect("below the limit");
            }
            found.lock().apply(request);
            Ok(())
        };
        while let Err(failed) = queues.drain_in_threads(3, work) {
            found.lock().apply(failed);
        }
        assert!(queues.is_empty());
        let mut found = found.into_inner();
        found.0.retain(|&(page, _), _| page < 40);
        assert_eq!(found.without_zeros(), expected.without_zeros(), "seed {seed}");
    }
}

#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn panicking_request_ends_all_threads() {
    let queues = Demultiplexer::new(Routing::Hash, 8, 1_000);
    for page in 0..200 {
        queues.push(Of { page, slot: 0, change: Change::Set(1) }).expect("below the limit");
    }
    let work =
        |_: &Demultiplexer<Of>, request: Of| if request.page == 77 { panic!("by a test") } else { Ok::<_, ()>(()) };
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| queues.drain_in_threads(3, work)));
    assert!(caught.is_err());
    let rest = queues.drain(|_, _| Ok::<_, ()>(())).expect("no error");
    assert!(0 < rest.done && rest.done < 200 && queues.is_empty(), "{rest:?}");
}
