use proptest::prelude::*;

use super::*;

fn space() -> Space {
    Space::unknown()
}

#[test]
fn a_region_never_spans_a_space_map() {
    let space = space();
    let first = space.take(GROUP_PAGES - 10);
    assert_eq!(first.first, 2);
    let second = space.take(20);
    assert_eq!(second.first, GROUP_PAGES + 1, "the first group has only eight pages left");
    assert_eq!(space.take(8).first, GROUP_PAGES - 8, "which were not lost");
    assert_eq!(space.take(REGION_PAGES_MAX).first, 2 * GROUP_PAGES + 1);
}

#[test]
fn recovery_takes_nothing_that_is_freed_meanwhile() {
    let space = space();
    let extent = space.take(10);
    space.free.lock().undoes_losers = true;
    space.release(Freed { extent, lsn: Lsn::new(1) });
    assert_eq!(space.take(2), Extent { first: extent.end(), pages: 2 }, "E7.3");
}

proptest! {
    /// No page is ever allocated twice, and free extents are as long as possible.
    #[test]
    fn no_page_is_in_two_hands(steps in proptest::collection::vec((1u64..40, any::<u16>(), any::<bool>()), 1..200)) {
        let space = space();
        let mut taken: Vec<Extent> = Vec::new();
        for (pages, which, give) in steps {
            if give && !taken.is_empty() {
                let extent = taken.swap_remove(usize::from(which) % taken.len());
                space.give(extent);
            } else {
                let extent = space.take(pages);
                prop_assert_eq!(extent.pages, pages);
                for other in &taken {
                    prop_assert!(other.end() <= extent.first || extent.end() <= other.first);
                }
                taken.push(extent);
            }
            let free = space.free.lock();
            let in_hands: u64 = taken.iter().map(|extent| extent.pages).sum();
            prop_assert_eq!(free.by_first.values().sum::<u64>() + in_hands + 2, free.tail);
            prop_assert_eq!(free.by_len.len(), free.by_first.len());
            for (&first, &pages) in &free.by_first {
                prop_assert!(!free.by_first.contains_key(&(first + pages)), "two free extents touch");
            }
        }
    }
}

/// E9.6: also for pages after all that are in use.
#[test]
fn withheld_pages_are_never_given() {
    let space = space();
    space.give(space.take(10));
    for extent in [Extent { first: 4, pages: 2 }, Extent { first: 20, pages: 3 }] {
        space.withhold(extent);
    }
    assert_eq!(space.summary(), (2 + 6 + 8, 23));
    let taken: Vec<u64> = (0..17).map(|_| space.take(1).first).collect();
    assert!(taken.iter().all(|page| !(4..6).contains(page) && !(20..23).contains(page)), "{taken:?}");
    space.give(Extent { first: 20, pages: 3 });
    assert_eq!(space.take(3).first, 20);
}

#[test]
fn only_what_is_still_free_is_punched() {
    let space = space();
    let extent = space.take(100);
    space.give(extent);
    let again = space.take(10);
    assert_eq!(again.first, 2);
    let taken = space.free.lock().take_what_is_free_of(extent);
    assert_eq!(taken, [Extent { first: 12, pages: 90 }], "E7.2");
    assert_eq!(space.summary(), (0, 102));
}

#[test]
fn freed_page_is_punched_behind_redo_point() {
    let space = space();
    let extent = space.take(100);
    space.release(Freed { extent, lsn: Lsn::new(5) });
    assert_eq!(space.free.lock().take_passed(Lsn::new(5)), [], "E7.2");
    assert_eq!(space.free.lock().take_passed(Lsn::new(6)), [extent], "E7.2");
    assert_eq!(space.free.lock().take_passed(Lsn::MAX), [], "once");
}

/// Pages that are freed one after the other are punched together once they are enough: none that was freed since the redo point,
/// and no hole again.
#[test]
fn neighbours_are_punched_together() {
    let space = space();
    let all = space.take(30);
    let part = |first, pages| Extent { first: all.first + first, pages };
    let release = |extent, lsn| space.release(Freed { extent, lsn: Lsn::new(lsn) });
    release(part(0, 8), 5);
    let Punch { ready, long } = space.begin_punch(Lsn::new(6));
    assert_eq!(long, [], "they are few");
    ready.into_iter().for_each(|extent| space.give(extent));
    space.free.lock().holes = vec![part(0, 4)];
    release(part(8, 12), 5);
    release(part(20, 6), 9);
    assert_eq!(space.begin_punch(Lsn::new(6)).long, [part(4, 16)], "E7.2");
}

/// E7.5: an allocation fills pages behind its own, unless a checkpoint punches them before or after that.
#[test]
fn punched_page_stays_hole_beside_fill() {
    for fill_begins_first in [false, true] {
        let space = space();
        let all = space.take(100);
        let hole = Extent { first: all.first, pages: 40 };
        let freed = Extent { first: hole.end(), pages: 60 };
        // The file system has refused an earlier punch.
        space.free.lock().holes = vec![if fill_begins_first { all } else { hole }];
        space.give(hole);
        space.release(Freed { extent: freed, lsn: Lsn::ZERO });
        let taken = space.take(10);
        assert_eq!(taken.first, hole.first);
        let begin_fill = || space.hole_in(taken).expect("it lies in the hole");
        let punch = || assert_eq!(space.begin_punch(Lsn::MAX).long, [freed]);
        let (filled, punches) = if fill_begins_first {
            let begun = begin_fill();
            punch();
            begun
        } else {
            punch();
            begin_fill()
        };
        space.filled(filled, taken, punches);
        let holes = Extent { first: taken.end(), pages: 90 };
        assert_eq!(space.free.lock().holes, [holes], "{fill_begins_first}");
    }
}

/// One sync fills many pages.
#[test]
fn fill_includes_pages_behind_allocation() {
    let space = space();
    let extent = space.take(1000);
    space.free.lock().holes = vec![extent];
    let taken = Extent { first: extent.first + 100, pages: 10 };
    let (hole, punches) = space.hole_in(taken).expect("it lies in the hole");
    assert_eq!(hole, Extent { first: taken.first, pages: FILLED_AT_ONCE });
    space.filled(hole, taken, punches);
    let before = Extent { first: extent.first, pages: 100 };
    let after = Extent { first: hole.end(), pages: extent.end() - hole.end() };
    assert_eq!(space.free.lock().holes, [before, after]);
}

#[test]
fn newly_freed_space_is_not_punched_yet() {
    let extent = |first, pages| Extent { first, pages };
    let newer = joined(vec![extent(14, 2), extent(5, 3), extent(6, 4)]);
    assert_eq!(newer, [extent(5, 5), extent(14, 2)]);
    assert_eq!(without(extent(2, 18), &newer), [extent(2, 3), extent(10, 4), extent(16, 4)], "E7.2");
    assert_eq!(without(extent(6, 3), &newer), []);
    assert_eq!(without(extent(20, 3), &newer), [extent(20, 3)]);
}
