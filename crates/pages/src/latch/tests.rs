//! Tests of the states of a page.

use super::*;
#[cfg(not(cedrat_shuttle))]
use cedrat_sync::thread;

struct Page {
    word: AtomicU64,
    parking: Parking,
}

impl Page {
    fn out() -> Page {
        Page { word: AtomicU64::new(0), parking: Parking::new() }
    }

    fn loaded() -> Page {
        let page = Page::out();
        page.latch().begin_load().unwrap().finish();
        page
    }

    fn latch(&self) -> Latch<'_> {
        Latch { word: &self.word, parking: &self.parking, page: PageId::new(1) }
    }

    fn state(&self) -> u64 {
        self.word.load(Ordering::Relaxed) & (VERSION - 1)
    }
}

/// The diagram at the top of this file: refused attempts leave the word unchanged.
#[test]
fn refused_latch_changes_nothing() {
    let page = Page::out();
    let latch = page.latch();
    let refused = || {
        assert!(latch.shared().is_none() && latch.exclusive().is_none(), "a page that is out cannot be held");
        assert!(latch.try_shared_in_passing().is_none() && latch.try_evict().is_none());
        assert!(latch.witness().is_none());
    };
    refused();
    assert_eq!(page.state(), 0);

    let loading = latch.begin_load().unwrap();
    assert!(latch.try_begin_load().is_none() && latch.try_shared_in_passing().is_none());
    assert!(latch.try_evict().is_none() && latch.witness().is_none() && !latch.pass());
    assert_eq!(page.state(), EXCLUSIVE);
    drop(loading);
    refused();
    assert_eq!(page.state(), 0, "abandoned, so out");

    latch.begin_load().unwrap().finish();
    assert!(latch.begin_load().is_none() && latch.try_begin_load().is_none());
    assert_eq!(page.state(), RESIDENT);
    {
        let _exclusive = latch.exclusive().unwrap();
        assert!(latch.try_shared_in_passing().is_none() && latch.try_begin_load().is_none());
        assert!(latch.try_evict().is_none() && latch.witness().is_none());
        assert_eq!(page.state(), RESIDENT | EXCLUSIVE);
    }
    {
        let _one = latch.shared().unwrap();
        let _two = latch.try_shared_in_passing().unwrap();
        assert!(latch.try_evict().is_none() && !latch.pass());
        assert_eq!(page.state(), RESIDENT + 2);
    }
    assert_eq!(page.state(), RESIDENT);
}

#[test]
fn only_cold_unheld_clean_frames_are_evicted() {
    let page = Page::loaded();
    let latch = page.latch();
    assert!(latch.try_evict().is_none(), "warm");
    assert!(!latch.pass(), "the hand comes by for the first time");
    assert!(latch.pass(), "and again");
    drop(latch.try_shared_in_passing().unwrap());
    assert!(latch.pass(), "writing a page home does not warm it");
    latch.set_writing();
    assert!(!latch.pass() && latch.try_evict().is_none(), "on its way home");
    latch.clear_writing();
    drop(latch.shared().unwrap());
    assert!(latch.try_evict().is_none(), "wanted meanwhile");
    latch.cool();
    drop(latch.try_evict().unwrap());
    assert_eq!(page.state(), RESIDENT | COLD, "an eviction that is given up leaves it in");
    latch.try_evict().unwrap().finish();
    assert_eq!(page.state(), 0);
}

/// E12.2.
#[test]
fn witness_notices_all_but_readers() {
    let page = Page::loaded();
    let latch = page.latch();
    let witness = latch.witness().unwrap();
    drop(latch.shared().unwrap());
    assert!(!latch.pass(), "which makes it cold");
    latch.set_writing();
    latch.clear_writing();
    assert!(latch.still(witness), "none of that changed the page");
    drop(latch.exclusive().unwrap());
    assert!(latch.still(witness), "nor did a holder who changed nothing");
    {
        let mut exclusive = latch.exclusive().unwrap();
        assert!(!latch.still(witness), "about to change");
        exclusive.will_change();
    }
    assert!(!latch.still(witness));

    let witness = latch.witness().unwrap();
    latch.cool();
    latch.try_evict().unwrap().finish();
    assert!(!latch.still(witness));
    latch.begin_load().unwrap().finish();
    assert!(!latch.still(witness), "out and in again is not the same");
}

/// E12.2, where loads return any value that the memory model allows: `./x test` runs this under Miri. While a page leaves its
/// frame, it contains the bytes of another one.
#[cfg(not(cedrat_shuttle))]
#[test]
fn page_is_seen_in_one_state() {
    let page = Page::loaded();
    let words = [const { AtomicU64::new(0) }; 3];
    let look = || words.each_ref().map(|word| word.load(Ordering::Relaxed));
    let is_one = |[one, two, three]: [u64; 3]| one == two && two == three;
    let changes = || {
        for _ in 0..3 {
            let mut latch =
                std::iter::repeat_with(|| page.latch().exclusive()).flatten().next().expect("it comes back");
            latch.will_change();
            let next = look()[0] + 1;
            words.iter().for_each(|word| word.store(next, Ordering::Relaxed));
        }
    };
    let evicts = || {
        page.latch().cool();
        let Some(leaves) = page.latch().try_evict() else { return };
        let home = look();
        leaves.finish();
        let loads = page.latch().begin_load().expect("no other thread loads it");
        (7..).zip(&words).for_each(|(other, word)| word.store(other, Ordering::Relaxed));
        words.iter().zip(home).for_each(|(word, byte)| word.store(byte, Ordering::Relaxed));
        loads.finish();
    };
    let looks = || {
        for _ in 0..16 {
            let Some(witness) = page.latch().witness() else { continue };
            let seen = look();
            assert!(!page.latch().still(witness) || is_one(seen), "E12.2: {seen:?}");
        }
        let Some(_shared) = page.latch().shared() else { return };
        assert!(is_one(look()), "E12.2");
    };
    thread::scope(|scope| {
        scope.spawn(changes);
        scope.spawn(changes);
        scope.spawn(evicts);
        scope.spawn(looks);
        scope.spawn(looks);
    });
    assert_eq!(look(), [6; 3]);
}

#[test]
fn a_fresh_page_that_leaves_is_out() {
    let page = Page::out();
    let latch = page.latch();
    let mut exclusive = latch.begin_load().unwrap().finish_exclusive();
    assert_eq!(page.state(), RESIDENT | EXCLUSIVE);
    exclusive.leave_out();
    drop(exclusive);
    assert_eq!(page.state(), 0);
}

/// Runs `wait` in a thread, and `then` once that thread is about to sleep for the page.
#[cfg(not(cedrat_shuttle))]
fn with_waiter(page: &Page, wait: impl FnOnce(Latch<'_>) + Send, then: impl FnOnce()) {
    thread::scope(|scope| {
        let waiter = scope.spawn(|| wait(page.latch()));
        while page.state() & WAITERS == 0 {
            thread::yield_now();
        }
        then();
        waiter.join().unwrap();
    });
}

#[cfg(not(cedrat_shuttle))]
#[test]
fn full_latch_wakes_reader_when_one_leaves() {
    let page = Page::loaded();
    let latch = page.latch();
    let mut readers: Vec<_> = (0..SHARED).map(|_| latch.try_shared_in_passing().unwrap()).collect();
    assert!(latch.try_shared_in_passing().is_none(), "no more can be counted");
    let mut is_woken = false;
    with_waiter(
        &page,
        |latch| drop(latch.shared().unwrap()),
        || {
            drop(readers.pop());
            is_woken = page.state() & WAITERS == 0;
            readers.clear(); // so that the waiter ends in any case
        },
    );
    assert!(is_woken);
}

/// E13.6.
#[cfg(not(cedrat_shuttle))]
#[test]
fn waiting_writer_holds_off_new_readers() {
    let page = Page::loaded();
    let latch = page.latch();
    let held = latch.shared().unwrap();
    let is_refused = |latch: Latch<'_>| {
        let attempt = latch.attempt_shared(true, BARRED);
        drop((attempt == Attempt::Taken).then(|| SharedLatch { latch, _held: None }));
        attempt == Attempt::Busy
    };
    let mut is_held_off = false;
    with_waiter(
        &page,
        |latch| drop(latch.exclusive().unwrap()),
        || {
            is_held_off = is_refused(latch);
            if is_held_off {
                drop(latch.shared().expect("a thread that holds a page is not held off"));
                drop(latch.shared_in_passing().expect("nor is write-back"));
            }
            drop(held);
        },
    );
    assert!(is_held_off);
    assert_eq!(page.state(), RESIDENT, "the writer has had its turn");
    assert!(latch.shared().is_some());
}

/// E13.6: the holder of a page may wait for a reader of the page, behind a writer that sleeps.
#[cfg(not(cedrat_shuttle))]
#[test]
fn holder_may_wait_for_reader_behind_writer() {
    let page = Page::loaded();
    let held = page.latch().shared().unwrap();
    with_waiter(
        &page,
        |latch| drop(latch.exclusive().unwrap()),
        || {
            thread::scope(|scope| {
                scope.spawn(|| drop(page.latch().shared().unwrap())).join().unwrap();
            });
            drop(held);
        },
    );
}

#[test]
fn eviction_ends_the_hold_off() {
    let page = Page::loaded();
    let latch = page.latch();
    page.word.fetch_or(BARRED | COLD, Ordering::Relaxed);
    latch.try_evict().unwrap().finish();
    assert_eq!(page.state(), 0, "its writer finds it absent");
    latch.begin_load().unwrap().finish();
    assert!(latch.shared().is_some());
}
