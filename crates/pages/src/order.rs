//! The order of latches, checked in debug builds (docs/inside/latches.md).
//!
//! A deadlock is a property of the whole system, seen only when two threads meet; the order is a property of one
//! thread, seen at every step. So every latch that is waited for is announced here first, and a thread that takes one
//! out of order panics with the names of both, whether or not another thread was there. Page latches that are only
//! *tried*, as by eviction and write-back, cannot wait and are not announced.

use std::cell::Cell;

use cedrat_sync::{planted, thread_local};

use crate::page::PageId;

/// The rank of a [`crate::StructureLatch`] in the order: lower ranks are taken first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LatchRank(pub u16);

/// A latch that a thread is about to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Latched {
    Structure(LatchRank),
    SharedPage(PageId),
    ExclusivePage(PageId),
}

impl Latched {
    /// Whether a thread that holds `held` may wait for this latch.
    #[cfg_attr(not(debug_assertions), allow(dead_code, reason = "only builds that check ask"))]
    fn may_follow(self, held: Latched) -> bool {
        use Latched::*;
        match (held, self) {
            (Structure(lower), Structure(higher)) => lower < higher || planted!("latches_of_any_rank"),
            (Structure(_), SharedPage(_) | ExclusivePage(_)) => true,
            (SharedPage(_), SharedPage(_)) => true,
            (SharedPage(_), Structure(_) | ExclusivePage(_)) => false,
            (ExclusivePage(_), _) => false,
        }
    }
}

impl std::fmt::Display for Latched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Latched::Structure(rank) => write!(f, "a structure latch of rank {}", rank.0),
            Latched::SharedPage(page) => write!(f, "the shared latch of page {page}"),
            Latched::ExclusivePage(page) => write!(f, "the exclusive latch of page {page}"),
        }
    }
}

#[cfg(debug_assertions)]
mod checked {
    use super::Latched;
    use cedrat_sync::planted;
    use cedrat_sync::thread::panicking;
    use cedrat_sync::thread_local;
    use std::cell::RefCell;
    use std::marker::PhantomData;

    thread_local! {
        static HELD: RefCell<Vec<Latched>> = const { RefCell::new(Vec::new()) };
    }

    /// Marks the latch as held by this thread, until dropped by the same thread.
    #[derive(Debug)]
    pub(crate) struct Held {
        latched: Latched,
        /// A latch taken by one thread and released by another would corrupt the records of both.
        not_send: PhantomData<*const ()>,
    }

    impl Held {
        /// # Panics
        /// If the thread holds a latch that comes later in the order.
        pub(crate) fn take(latched: Latched) -> Held {
            HELD.with(|held| {
                let mut held = held.borrow_mut();
                if let Some(obstacle) = held.iter().find(|&&held| !latched.may_follow(held))
                    && !panicking()
                    && !planted!("second_page_latched")
                {
                    panic!("{latched} must not be waited for while holding {obstacle}");
                }
                held.push(latched);
            });
            Held { latched, not_send: PhantomData }
        }
    }

    /// Checks, in debug builds, that the thread holds no page latch while it waits for this.
    ///
    /// # Panics
    /// If it holds one: threads without I/O may wait for the page.
    pub fn assert_no_page_latch(awaited: &str) {
        HELD.with(|held| {
            let held = held.borrow();
            let page = held.iter().find(|latched| !matches!(latched, Latched::Structure(_)));
            if let Some(page) = page.filter(|_| !panicking()) {
                panic!("E13.5: {awaited} must not be waited for while holding {page}");
            }
        });
    }

    impl Drop for Held {
        fn drop(&mut self) {
            HELD.with(|held| {
                let mut held = held.borrow_mut();
                let at = held.iter().rposition(|&held| held == self.latched);
                held.swap_remove(at.expect("what is released was taken by this thread"));
            });
        }
    }
}

#[cfg(not(debug_assertions))]
mod checked {
    use std::marker::PhantomData;

    /// An empty type, in builds that do not check.
    #[derive(Debug)]
    pub(crate) struct Held {
        /// As in builds that check, so that both refuse the same programs.
        not_send: PhantomData<*const ()>,
    }

    /// Checks nothing, in builds that do not check.
    #[inline(always)]
    pub fn assert_no_page_latch(_: &str) {}

    impl Held {
        #[inline(always)]
        pub(crate) fn take(_: super::Latched) -> Held {
            Held { not_send: PhantomData }
        }
    }
}

pub(crate) use checked::Held;
pub use checked::assert_no_page_latch;

thread_local! {
    /// The number of [`HeldShared`] of this thread.
    static SHARED_PAGES: Cell<u32> = const { Cell::new(0) };
}

/// Marks a page as held shared by this thread, until dropped by the same thread.
///
/// Counted in every build: a thread that holds a page is not held off at another one (E13.6).
#[derive(Debug)]
pub(crate) struct HeldShared {
    _held: Held,
}

impl HeldShared {
    /// # Panics
    /// As [`Held::take`].
    #[inline(always)]
    pub(crate) fn take(page: PageId) -> HeldShared {
        let _held = Held::take(Latched::SharedPage(page));
        SHARED_PAGES.with(|pages| pages.set(pages.get() + 1));
        HeldShared { _held }
    }

    /// Whether the thread holds no page shared besides this one.
    pub(crate) fn is_only(&self) -> bool {
        SHARED_PAGES.with(Cell::get) == 1
    }
}

impl Drop for HeldShared {
    #[inline(always)]
    fn drop(&mut self) {
        SHARED_PAGES.with(|pages| pages.set(pages.get() - 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANK_1: Latched = Latched::Structure(LatchRank(1));
    const RANK_2: Latched = Latched::Structure(LatchRank(2));
    const SHARED: Latched = Latched::SharedPage(PageId::new(7));
    const OTHER_SHARED: Latched = Latched::SharedPage(PageId::new(3));
    const EXCLUSIVE: Latched = Latched::ExclusivePage(PageId::new(9));

    /// The table of docs/inside/latches.md.
    #[test]
    fn latches_are_taken_in_rank_order() {
        let rows = [
            // held, wanted, allowed
            (RANK_1, RANK_2, true),
            (RANK_2, RANK_1, false),
            (RANK_1, RANK_1, false),
            (RANK_1, SHARED, true),
            (RANK_1, EXCLUSIVE, true),
            (SHARED, OTHER_SHARED, true),
            (SHARED, EXCLUSIVE, false),
            (SHARED, RANK_2, false),
            (EXCLUSIVE, SHARED, false),
            (EXCLUSIVE, EXCLUSIVE, false),
            (EXCLUSIVE, RANK_2, false),
        ];
        for (held, wanted, allowed) in rows {
            assert_eq!(wanted.may_follow(held), allowed, "{wanted} while holding {held}");
        }
    }

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "exclusive latch of page 9 must not be waited for while holding")]
    fn a_latch_taken_out_of_order_is_caught_without_a_second_thread() {
        let _rank = Held::take(RANK_1);
        let _shared = Held::take(SHARED);
        let _exclusive = Held::take(EXCLUSIVE);
    }

    #[cfg(debug_assertions)]
    #[test]
    fn released_latch_does_not_order() {
        drop(Held::take(EXCLUSIVE));
        let _rank = Held::take(RANK_2);
        drop(Held::take(SHARED));
        let _exclusive = Held::take(EXCLUSIVE);
    }
}
