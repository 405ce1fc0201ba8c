//! The pool as its users see it: residency, eviction, latches, optimistic reads, faults of the disk.

use cedrat_media::{Call, Damage, Durability, Fault, Media, OpenMode, RealDisk, SimDisk};
use cedrat_pages::{LatchRank, PAGE_FILE, PAGE_LEN, PoolError, StructureLatch, WriteBack};
use cedrat_sync::Arc;
use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::thread;
use cedrat_wal::Lsn;
use std::io::ErrorKind;

use crate::fixture::{Fixture, options, page};

#[test]
fn a_page_never_written_reads_as_zero() {
    let (_disk, fixture) = Fixture::simulated(options(8), 10);
    let read = fixture.pool.read(page(3)).unwrap();
    assert_eq!((read.id(), read.lsn()), (page(3), Lsn::ZERO));
    assert!(read.bytes().iter().all(|&byte| byte == 0));
}

/// Also in builds that can plant faults, as long as none is planted.
#[test]
#[should_panic(expected = "E3.3")]
fn a_change_that_was_not_announced_is_noticed() {
    let (_disk, fixture) = Fixture::simulated(options(8), 10);
    let mut exclusive = fixture.pool.exclusive(page(3)).unwrap();
    let lsn = fixture.append(page(3), 0, 1);
    exclusive.change(lsn, |_| ());
}

#[test]
fn pool_of_eight_serves_hundred_pages() {
    let (_disk, fixture) = Fixture::simulated(options(8), 100);
    for round in 0..5 {
        for number in 0..100 {
            fixture.set(page(number), 10, (number as u8).wrapping_add(round)).unwrap();
            assert!(fixture.pool.stats().resident_pages <= 8, "the bound is hard");
        }
        for number in (0..100).rev() {
            assert_eq!(fixture.byte(page(number), 10).unwrap(), (number as u8).wrapping_add(round));
        }
    }
    let stats = fixture.pool.stats();
    assert!(stats.pages_evicted >= 900 && stats.pages_written >= 400 && stats.pages_read >= 900, "{stats:?}");
}

#[test]
fn thrashed_tiny_pool_shows_whole_changes() {
    let (_disk, fixture) = Fixture::simulated(options(8), 40);
    let fixture = &fixture;
    thread::scope(|scope| {
        for offset in 0..4usize {
            scope.spawn(move || {
                // Each thread owns one byte of every page.
                for round in 1..=30u8 {
                    for number in 0..40 {
                        let number = (number * 7 + offset as u64 * 11) % 40;
                        assert_eq!(fixture.byte(page(number), offset).unwrap(), round - 1);
                        fixture.set(page(number), offset, round).unwrap();
                    }
                }
            });
        }
    });
    for number in 0..40 {
        assert_eq!(fixture.pool.read(page(number)).unwrap().body()[..4], [30; 4]);
    }
}

/// E12.2: two halves of a page that always change together are never seen in different states.
#[test]
fn optimistic_reader_never_sees_partial_change() {
    let (_disk, fixture) = Fixture::simulated(options(8), 40);
    let (fixture, done) = (&fixture, &AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(move || {
            for round in 1..20_000u64 {
                let number = page(round % 20);
                let mut exclusive = fixture.pool.exclusive(number).unwrap();
                exclusive.will_change(fixture.log.current_lsn().next());
                let lsn = fixture.append(number, 0, 0);
                exclusive.change(lsn, |page| {
                    page.put_u64(8, round).unwrap();
                    page.put_u64(3000, round).unwrap();
                });
            }
            done.store(true, Ordering::Release);
        });
        scope.spawn(move || {
            let mut seen = 0u64;
            while !done.load(Ordering::Acquire) {
                for number in 0..20 {
                    let (front, back) = fixture
                        .pool
                        .optimistic(page(number), |page| Some((page.u64_at(8)?, page.u64_at(3000)?)))
                        .unwrap();
                    assert_eq!(front, back);
                    seen = seen.max(front);
                }
            }
            assert!(seen > 0);
        });
    });
}

#[test]
fn page_invalid_under_latch_is_damage() {
    let (_disk, fixture) = Fixture::simulated(options(8), 4);
    let mut looks = 0;
    let answer = fixture.pool.optimistic(page(1), |_| {
        looks += 1;
        None::<()>
    });
    let message = answer.unwrap_err().to_string();
    assert!(message.contains("pages, byte 4128: page 1 is damaged"), "{message}");
    assert!(looks >= 1);
}

/// E3.3, E3.4.
#[test]
fn redo_point_is_oldest_unwritten_change() {
    let (_disk, fixture) = Fixture::simulated(options(64), 64);
    assert_eq!(fixture.pool.redo_point(), Lsn::new(1));
    for number in 0..10 {
        fixture.set(page(number), 1, 1).unwrap();
    }
    fixture.set(page(0), 1, 2).unwrap();
    assert_eq!(fixture.pool.redo_point(), Lsn::new(1));
    assert_eq!(fixture.pool.write_back(WriteBack::Below(Lsn::new(4))).unwrap(), 3);
    assert_eq!(fixture.pool.redo_point(), Lsn::new(4), "pages 0, 1 and 2 are home with all their changes");
    assert_eq!(fixture.pool.write_back(WriteBack::Below(Lsn::MAX)).unwrap(), 7);
    assert_eq!(fixture.pool.redo_point(), Lsn::new(12));
    assert_eq!(fixture.pool.write_back(WriteBack::Below(Lsn::MAX)).unwrap(), 0, "nothing is written twice");
    fixture.set(page(5), 1, 3).unwrap();
    assert_eq!(fixture.pool.redo_point(), Lsn::new(12));
}

/// E19.3: one record is updated out of order.
#[test]
fn older_change_keeps_page_lsn() {
    let (_disk, fixture) = Fixture::simulated(options(8), 8);
    let old = fixture.append(page(2), 0, 1);
    fixture.set(page(2), 1, 1).unwrap();
    let newest = fixture.pool.read(page(2)).unwrap().lsn();
    assert!(old < newest);
    let mut exclusive = fixture.pool.exclusive(page(2)).unwrap();
    exclusive.will_change(old);
    exclusive.change_record(old, old, |page| {
        assert_eq!(page.changing_at(), old);
        page.put_u8(0, 1).unwrap();
    });
    assert_eq!(exclusive.page_ref().lsn(), newest);
    assert_eq!(exclusive.page_ref().body()[..2], [1, 1]);
    drop(exclusive);
    assert_eq!(fixture.pool.redo_point(), old, "redo must not begin behind what was announced before");
    // A commit that is newer than the page has to be durable before the page is written home.
    let commit = fixture.append(page(2), 2, 0);
    let mut exclusive = fixture.pool.exclusive(page(2)).unwrap();
    exclusive.will_change(old);
    exclusive.change_record(old, commit, |_| ());
    assert_eq!(exclusive.page_ref().lsn(), commit);
}

#[test]
fn announced_change_makes_page_dirty() {
    let (_disk, fixture) = Fixture::simulated(options(8), 8);
    let mut exclusive = fixture.pool.exclusive(page(2)).unwrap();
    exclusive.will_change(fixture.log.current_lsn().next());
    for _ in 0..5 {
        fixture.append(page(7), 0, 0);
    }
    assert_eq!(fixture.pool.redo_point(), Lsn::new(1), "E3.3: the record may be any of them");
}

#[test]
#[should_panic(expected = "page 2 has record 1 already")]
fn a_record_is_not_redone_twice() {
    let (_disk, fixture) = Fixture::simulated(options(8), 8);
    let lsn = fixture.set(page(2), 0, 1).unwrap();
    let mut exclusive = fixture.pool.exclusive(page(2)).unwrap();
    exclusive.will_change(lsn);
    exclusive.change(lsn, |_| ());
}

/// E6.3.
#[test]
fn panicking_change_stops_the_store() {
    let (_disk, fixture) = Fixture::simulated(options(8), 8);
    let fixture = std::panic::AssertUnwindSafe(fixture);
    let panicked = std::panic::catch_unwind(|| {
        let mut exclusive = fixture.pool.exclusive(page(2)).unwrap();
        exclusive.will_change(Lsn::new(1));
        let lsn = fixture.append(page(2), 0, 0);
        exclusive.change(lsn, |page| {
            page.put(0, b"half").unwrap();
            panic!("in redo");
        })
    });
    assert!(panicked.is_err());
    let stopped = fixture.log.stopped().expect("the store has stopped").to_string();
    assert!(stopped.contains("the change of page 2 panicked"), "{stopped}");
    assert!(matches!(fixture.pool.write_back(WriteBack::Below(Lsn::MAX)), Err(PoolError::Stopped(_))));
}

/// E6.3b: as in recovery, where the records of all changes are durable.
#[test]
fn half_change_is_not_written_home() {
    let (disk, fixture) = Fixture::simulated(options(8), 8);
    fixture.set(page(2), 0, 7).unwrap();
    fixture.pool.write_back(WriteBack::Below(Lsn::MAX)).unwrap();
    let mut exclusive = fixture.pool.exclusive(page(2)).unwrap();
    exclusive.will_change(fixture.log.current_lsn().next());
    let lsn = fixture.append(page(2), 0, 8);
    fixture.log.force(lsn).unwrap();
    let before = disk.image().hash();
    exclusive.change(lsn, |page| page.put(100, b"half").unwrap());
    fixture.log.stop("the change has failed");
    drop(exclusive);
    assert!(fixture.pool.write_back(WriteBack::Below(Lsn::MAX)).is_err());
    assert_eq!(disk.image().hash(), before, "E6.3b");
}

#[test]
fn fresh_page_is_unread_and_needs_format() {
    let (disk, fixture) = Fixture::simulated(options(8), 100);
    fixture.set(page(2), 0, 7).unwrap();
    fixture.pool.write_back(WriteBack::Below(Lsn::MAX)).unwrap();
    for number in 50..80 {
        fixture.byte(page(number), 0).unwrap();
    }
    // Page 2 is out now, and cannot be read.
    disk.inject(Fault::error(Call::Read, ErrorKind::Other).of(PAGE_FILE).permanent());
    assert!(fixture.byte(page(2), 0).is_err());
    {
        let fresh = fixture.pool.exclusive_fresh(page(2)).unwrap();
        assert_eq!(fresh.page_ref().lsn(), Lsn::ZERO);
    }
    let resident = fixture.pool.stats().resident_pages;
    disk.clear_faults();
    assert_eq!(fixture.byte(page(2), 0).unwrap(), 7, "what was only looked at did not hide what lies at home");
    assert!(fixture.pool.stats().resident_pages > resident || resident == 8);
    for number in 50..80 {
        fixture.byte(page(number), 0).unwrap();
    }
    disk.inject(Fault::error(Call::Read, ErrorKind::Other).of(PAGE_FILE).permanent());
    let lsn = fixture.format(page(2));
    assert_eq!(fixture.pool.read(page(2)).unwrap().lsn(), lsn);
    assert_eq!(fixture.byte(page(2), 0).unwrap(), 0);
}

/// E11.6.
#[test]
fn damage_names_offset_others_stay_readable() {
    let (disk, fixture) = Fixture::simulated(options(8), 100);
    for number in 0..100 {
        fixture.set(page(number), 9, 1).unwrap();
    }
    fixture.pool.write_back(WriteBack::Below(Lsn::MAX)).unwrap();
    disk.corrupt(PAGE_FILE, 40 * PAGE_LEN as u64 + 2000, Damage::Flip { bit: 3 }).unwrap();
    disk.corrupt(PAGE_FILE, 60 * PAGE_LEN as u64, Damage::Misdirected { to: 70 * PAGE_LEN as u64 }).unwrap();
    for number in [40, 70] {
        let message = fixture.byte(page(number), 9).unwrap_err().to_string();
        let offset = number * PAGE_LEN as u64;
        assert!(message.starts_with(&format!("pages, byte {offset}: page {number} is damaged")), "{message}");
    }
    for number in (0..100).filter(|number| ![40, 60, 70].contains(number)) {
        assert_eq!(fixture.byte(page(number), 9).unwrap(), 1);
    }
}

#[test]
fn misplaced_page_differs_from_torn_one() {
    let (disk, fixture) = Fixture::simulated(options(8), 40);
    for number in 0..40 {
        fixture.set(page(number), 9, 1).unwrap();
    }
    fixture.pool.write_back(WriteBack::Below(Lsn::MAX)).unwrap();
    let pages = disk.image().file(PAGE_FILE).unwrap();
    let media: &dyn Media = &*disk;
    let file = media.open(PAGE_FILE, OpenMode::ReadWrite).unwrap();
    media.write_at(file, 3 * PAGE_LEN as u64, &pages[7 * PAGE_LEN..8 * PAGE_LEN], Durability::Durable).unwrap();
    let message = fixture.byte(page(3), 9).unwrap_err().to_string();
    assert!(message.contains("byte 12304: page 3 is damaged at its byte 16: another page"), "{message}");
}

#[test]
fn pages_beyond_file_are_refused_by_name() {
    let (_disk, fixture) = Fixture::simulated(options(8), 10);
    let beyond = fixture.pool.len_pages();
    assert!(matches!(fixture.pool.read(page(beyond)), Err(PoolError::Beyond { .. })));
    assert!(matches!(fixture.pool.exclusive_fresh(page(beyond)), Err(PoolError::Beyond { .. })));
    assert!(matches!(fixture.pool.read(page(u64::MAX)), Err(PoolError::Limit { .. })));
    assert!(matches!(fixture.pool.ensure_len(4097), Err(PoolError::Limit { pages: 4097, limit: 4096 })));
    assert_eq!(fixture.pool.len_pages(), beyond);
    fixture.pool.ensure_len(beyond + 1).unwrap();
    assert_eq!(fixture.byte(page(beyond), 0).unwrap(), 0);
}

#[test]
fn full_disk_fails_only_growth() {
    let (disk, fixture) = Fixture::simulated(options(8), 10);
    let lsn = fixture.set(page(3), 0, 1).unwrap();
    fixture.log.force(lsn).unwrap();
    disk.set_capacity(Some(disk.space() + 20 * PAGE_LEN as u64));
    let before = fixture.pool.len_pages();
    fixture.pool.ensure_len(before + 15).unwrap();
    assert_eq!(fixture.pool.len_pages(), before + 15, "as much as is needed, when there is no room to be generous");
    let refused = fixture.pool.ensure_len(before + 100).unwrap_err();
    assert!(matches!(refused, PoolError::DiskFull { .. }), "{refused}");
    // Writing home needs no more space.
    assert_eq!(fixture.pool.write_back(WriteBack::Below(Lsn::MAX)).unwrap(), 1);
    disk.set_capacity(None);
    fixture.pool.ensure_len(before + 100).unwrap();
}

/// E16.4d: a file that may not grow by an eighth grows by the pages that are needed.
#[test]
fn file_size_limit_fails_only_growth() {
    let (disk, fixture) = Fixture::simulated(options(8), 10);
    let before = fixture.pool.len_pages();
    let too_large = Fault::error(Call::Allocate, ErrorKind::FileTooLarge).of(PAGE_FILE);
    disk.inject(too_large.clone());
    fixture.pool.ensure_len(before + 15).expect("E16.4d");
    assert_eq!(fixture.pool.len_pages(), before + 15, "E16.4d");
    disk.inject(too_large.permanent());
    let refused = fixture.pool.ensure_len(before + 100).unwrap_err();
    assert!(refused.to_string().contains("growing"), "{refused}");
    assert_eq!(fixture.pool.len_pages(), before + 15);
    assert!(fixture.log.stopped().is_none(), "E16.4d");
    disk.clear_faults();
    fixture.pool.ensure_len(before + 100).unwrap();
}

/// W6, E16.5.
#[test]
fn failed_page_write_or_sync_stops_store() {
    for fault in [
        Fault::error(Call::Write, ErrorKind::Other).of("double-write"),
        Fault::error(Call::Write, ErrorKind::Other).of(PAGE_FILE),
        Fault::error(Call::Sync, ErrorKind::Other).of(PAGE_FILE),
        Fault::forgetful_sync().of(PAGE_FILE),
    ] {
        let (disk, fixture) = Fixture::simulated(options(8), 40);
        fixture.set(page(1), 0, 1).unwrap();
        disk.inject(fault.clone());
        let failed = fixture.pool.write_back(WriteBack::Below(Lsn::MAX)).unwrap_err();
        assert!(failed.to_string().contains("writing pages to"), "{fault:?}: {failed}");
        assert_eq!(fixture.pool.redo_point(), Lsn::new(1), "E11.3: it never arrived");
        let stopped = fixture.log.stopped().expect("the store has stopped").to_string();
        let names_step = ["writing pages to", "syncing pages failed"].iter().any(|step| stopped.contains(step));
        assert!(names_step, "{stopped}");
        // The disk has recovered; the store must not rely on it.
        let again = fixture.set(page(1), 0, 2).map(|_| fixture.pool.write_back(WriteBack::Below(Lsn::MAX)));
        assert!(matches!(again, Ok(Err(PoolError::Stopped(_)))), "{again:?}");
    }
}

/// E13.7a: the pages whose write has failed stay in all frames.
#[test]
fn stopped_pool_refuses_with_the_reason() {
    let (disk, fixture) = Fixture::simulated(options(8), 40);
    for number in 1..9 {
        fixture.set(page(number), 0, 1).unwrap();
    }
    disk.inject(Fault::error(Call::Write, ErrorKind::Other).of(PAGE_FILE));
    fixture.pool.write_back(WriteBack::Below(Lsn::MAX)).unwrap_err();
    let refused = fixture.pool.read(page(20)).unwrap_err();
    assert!(matches!(refused, PoolError::Stopped(_)), "E13.7a: {refused}");
}

#[test]
fn prefetched_neighbours_come_with_one_read() {
    let (disk, fixture) = Fixture::simulated(options(64), 200);
    let wanted: Vec<_> = (100..130).map(page).collect();
    let before = disk.calls();
    fixture.pool.prefetch(&wanted);
    assert_eq!(fixture.pool.stats().pages_read, 30);
    assert!(disk.calls() - before <= 2, "one call, or two if the first was short");
    let before = disk.calls();
    for &page in &wanted {
        fixture.pool.read(page).unwrap();
    }
    assert_eq!(disk.calls(), before);
    // A hint only: pages that do not exist, or do not fit, are skipped.
    fixture.pool.prefetch(&[page(5000), page(u64::MAX)]);
    fixture.pool.prefetch(&(0..200).map(page).collect::<Vec<_>>());
    assert!(fixture.pool.stats().resident_pages <= 64);
}

#[test]
fn cleaner_keeps_frames_free_ahead() {
    let mut options = options(64);
    options.free_ahead = Some(16);
    let (_disk, fixture) = Fixture::simulated(options, 400);
    let cleaner = fixture.pool.start_cleaner().unwrap();
    for round in 0..3 {
        for number in 0..400 {
            fixture.set(page(number), 3, round).unwrap();
        }
    }
    drop(cleaner);
    for number in 0..400 {
        assert_eq!(fixture.byte(page(number), 3).unwrap(), 2);
    }
    // It may be started again.
    drop(fixture.pool.start_cleaner().unwrap());
}

/// The same pool over files, bypassing the operating system's cache if possible, with threads of its own.
#[test]
fn a_real_disk_serves_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let media: Arc<dyn Media> = Arc::new(RealDisk::new(directory.path()));
    let mut options = options(64);
    options.free_ahead = Some(16);
    let fixture = Fixture::create(&media, options.clone(), 600);
    let cleaner = fixture.pool.start_cleaner().unwrap();
    for number in 0..600 {
        // Scattered, so that the homes of a batch are many.
        let number = number * 7 % 600;
        fixture.set(page(number), 5, number as u8).unwrap();
    }
    fixture.pool.write_back(WriteBack::Below(Lsn::MAX)).unwrap();
    drop(cleaner);
    drop(fixture);
    let fixture = Fixture::recovered(&media, options, Lsn::MAX);
    for number in 0..600 {
        assert_eq!(fixture.byte(page(number), 5).unwrap(), number as u8);
    }
}

#[test]
fn too_small_pool_is_refused() {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let log = cedrat_wal::Log::create(&media, &cedrat_wal::LogOptions::small(), &[]).unwrap();
    let refused = cedrat_pages::Pool::open(media, log, options(7)).unwrap_err();
    assert!(refused.to_string().contains("capacity_pages: 7 pages; at least 8"), "{refused}");
}

#[test]
fn pool_larger_than_memory_is_refused() {
    for pages in [usize::MAX, usize::MAX / PAGE_LEN, 1 << 45] {
        let media: Arc<dyn Media> = Arc::new(SimDisk::new());
        let log = cedrat_wal::Log::create(&media, &cedrat_wal::LogOptions::small(), &[]).unwrap();
        let refused = cedrat_pages::Pool::open(media, log, options(pages)).unwrap_err();
        assert!(matches!(refused, PoolError::Options { option: "capacity_pages", .. }), "{refused}");
    }
}

#[test]
fn holding_too_many_pages_is_an_error() {
    let (_disk, fixture) = Fixture::simulated(options(8), 20);
    let held: Vec<_> = (0..8).map(|number| fixture.pool.read(page(number)).unwrap()).collect();
    let refused = fixture.pool.read(page(9)).unwrap_err();
    assert!(matches!(refused, PoolError::AllHeld { capacity: 8 }), "{refused}");
    drop(held);
    fixture.pool.read(page(9)).unwrap();
}

/// E13.3, in builds that check.
#[cfg(debug_assertions)]
#[test]
#[should_panic(
    expected = "a structure latch of rank 1 must not be waited for while holding a structure latch of rank 2"
)]
fn structure_latches_follow_their_ranks() {
    let [low, high] = [1, 2].map(|rank| StructureLatch::new(LatchRank(rank)));
    {
        let _low = low.shared();
        let _high = high.exclusive();
    }
    let _high = high.shared();
    let _low = low.exclusive();
}

/// E13.2, in builds that check.
#[cfg(debug_assertions)]
#[test]
#[should_panic(
    expected = "the exclusive latch of page 2 must not be waited for while holding the shared latch of page 1"
)]
fn changing_a_page_while_reading_another_is_caught() {
    let (_disk, fixture) = Fixture::simulated(options(8), 20);
    let _one = fixture.pool.read(page(1)).unwrap();
    let _two = fixture.pool.exclusive(page(2));
}
