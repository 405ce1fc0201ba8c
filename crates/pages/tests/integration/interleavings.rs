//! Latches, eviction, optimistic reads and write-back under a seeded scheduler.
//!
//! An ordinary build runs each test once, on real threads. Built with `RUSTFLAGS="--cfg cedrat_shuttle"` each runs through
//! many interleavings; a deadlock, a lost wake-up included, ends the run with the schedule that leads to it.

use std::sync::atomic::{AtomicU64, Ordering};

use cedrat_pages::{LatchRank, PAGE_FILE, PAGE_LEN, PageId, PartLatch, PoolOptions, StructureLatch, WriteBack};
use cedrat_sync::{Arc, Mutex, explore, thread};

use crate::fixture::{Fixture, options, page};

const SCHEDULES: usize = 300;

/// Stays here long enough for another thread to take a latch, change a page and release it.
fn linger() {
    for _ in 0..if cfg!(cedrat_shuttle) { 60 } else { 1 } {
        thread::yield_now();
    }
}

fn few_pages(capacity: usize) -> PoolOptions {
    let mut options = options(capacity);
    options.pages_max = 32;
    options
}

/// Changes two offsets of a page, with a moment between them in which other threads may read.
fn set_both(fixture: &Fixture, number: PageId, value: u64) {
    let mut exclusive = fixture.pool.exclusive(number).unwrap();
    exclusive.will_change(fixture.log.current_lsn().next());
    let lsn = fixture.append(number, 0, 0);
    exclusive.change(lsn, |page| {
        page.put_u64(8, value).unwrap();
        thread::yield_now();
        page.put_u64(3000, value).unwrap();
    });
}

/// E12.2, with eviction underneath.
#[test]
fn no_reader_sees_half_a_change() {
    explore(1, SCHEDULES, || {
        let (_disk, fixture) = Fixture::simulated(few_pages(8), 12);
        let fixture = Arc::new(fixture);
        let writer = {
            let fixture = fixture.clone();
            thread::spawn(move || {
                for value in 1..4 {
                    set_both(&fixture, page(0), value);
                    set_both(&fixture, page(1), value);
                }
            })
        };
        let evictor = {
            let fixture = fixture.clone();
            // More pages than frames: the other two's pages must be evicted and loaded again.
            thread::spawn(move || {
                for number in 2..12 {
                    assert_eq!(fixture.byte(page(number), 8).unwrap(), 0);
                }
            })
        };
        for _ in 0..3 {
            for number in 0..2 {
                let (front, back) = fixture
                    .pool
                    .optimistic(page(number), |page| {
                        let front = page.u64_at(8)?;
                        linger();
                        Some((front, page.u64_at(3000)?))
                    })
                    .unwrap();
                assert_eq!(front, back);
                let latched = fixture.pool.read(page(number)).unwrap();
                assert_eq!(latched.u64_at(8), latched.u64_at(3000));
            }
        }
        writer.join().unwrap();
        evictor.join().unwrap();
        for number in 0..2 {
            assert_eq!(fixture.pool.read(page(number)).unwrap().u64_at(3000), Ok(3));
        }
    });
}

/// No change is lost between a writer, an evictor and a checkpoint; and no redo point promises a change that is not
/// home (E3.4, E11.2, E11.3).
#[test]
fn redo_point_passes_no_unwritten_change() {
    explore(2, SCHEDULES, || {
        let (disk, fixture) = Fixture::simulated(few_pages(8), 12);
        let fixture = Arc::new(fixture);
        let changes = Arc::new(Mutex::new(Vec::new()));
        let writers: Vec<_> = [[0, 1, 0], [1, 2, 9]]
            .into_iter()
            .map(|pages| {
                let (fixture, changes) = (fixture.clone(), changes.clone());
                thread::spawn(move || {
                    for number in pages {
                        let lsn = fixture.set(page(number), number as usize, 1).unwrap();
                        changes.lock().push((lsn.get(), number));
                    }
                })
            })
            .collect();
        let home = {
            let fixture = fixture.clone();
            thread::spawn(move || {
                for number in 3..9 {
                    fixture.byte(page(number), 0).unwrap();
                }
                fixture.pool.write_back(WriteBack::Below(fixture.pool.redo_point().next().next())).unwrap();
            })
        };
        let mut noted = Vec::new();
        for _ in 0..4 {
            let redo_point = fixture.pool.redo_point().get();
            let image = disk.image().file(PAGE_FILE).unwrap();
            let lsn = |page: &[u8]| u64::from_le_bytes(page[8..16].try_into().unwrap());
            noted.push((redo_point, image.chunks_exact(PAGE_LEN).map(lsn).collect::<Vec<_>>()));
            thread::yield_now();
        }
        for thread in writers {
            thread.join().unwrap();
        }
        home.join().unwrap();
        let changes = changes.lock();
        for (redo_point, at_home) in noted {
            for &(lsn, number) in changes.iter().filter(|&&(lsn, _)| lsn < redo_point) {
                assert!(at_home[number as usize] >= lsn, "record {lsn} of page {number}, redo point {redo_point}");
            }
        }
    });
}

/// E11.3: another thread repeatedly reads the state at the moment in which a page's copy departs.
#[test]
fn copy_is_dirty_before_page_is_clean() {
    explore(5, SCHEDULES, || {
        let (disk, fixture) = Fixture::simulated(few_pages(8), 12);
        let fixture = Arc::new(fixture);
        // The dirty page is in the last frame, so that little happens between reading its state and that of the
        // copies.
        for number in 0..7 {
            fixture.byte(page(number), 0).unwrap();
        }
        let lsn = fixture.set(page(7), 0, 1).unwrap();
        let home = {
            let fixture = fixture.clone();
            thread::spawn(move || fixture.pool.write_back(WriteBack::Below(lsn.next())).unwrap())
        };
        for _ in 0..30 {
            if fixture.pool.redo_point() > lsn {
                let image = disk.image().file(PAGE_FILE).unwrap();
                assert_eq!(image[7 * PAGE_LEN + 8..][..8], lsn.get().to_le_bytes(), "it is home");
            }
        }
        assert_eq!(home.join().unwrap(), 1);
        assert!(fixture.pool.redo_point() > lsn);
    });
}

/// Two threads load the same pages at once, one of them fresh.
#[test]
fn a_page_is_loaded_once() {
    explore(3, SCHEDULES, || {
        let (_disk, fixture) = Fixture::simulated(few_pages(8), 12);
        fixture.set(page(1), 0, 5).unwrap();
        fixture.pool.write_back(WriteBack::Below(fixture.log.current_lsn().next())).unwrap();
        let fixture = Arc::new(fixture);
        let threads: Vec<_> = (0..3)
            .map(|offset| {
                let fixture = fixture.clone();
                thread::spawn(move || {
                    for number in 0..12 {
                        if offset == 2 && number == 1 {
                            drop(fixture.pool.exclusive_fresh(page(1)).unwrap());
                        } else if offset == 1 && number == 3 {
                            fixture.pool.prefetch(&[page(1), page(2), page(3), page(4)]);
                        }
                        fixture.byte(page(number), 0).unwrap();
                    }
                    fixture.byte(page(1), 0).unwrap()
                })
            })
            .collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), 5);
        }
        assert!(fixture.pool.stats().resident_pages <= 8);
    });
}

/// E13.3: readers and writers of a shape exclude each other, and a stamp detects every writer.
#[test]
fn a_structure_latch_keeps_shapes_whole() {
    explore(4, SCHEDULES, || {
        let latch = Arc::new(StructureLatch::new(LatchRank(1)));
        let shape = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let look = |shape: &[AtomicU64; 2]| {
            let front = shape[0].load(Ordering::Relaxed);
            linger();
            (front, shape[1].load(Ordering::Relaxed))
        };
        let change = |shape: &[AtomicU64; 2]| {
            for half in shape {
                half.store(half.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                thread::yield_now();
            }
        };
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let (latch, shape) = (latch.clone(), shape.clone());
                thread::spawn(move || {
                    for _ in 0..2 {
                        let _exclusive = latch.exclusive_owned();
                        change(&shape);
                    }
                })
            })
            .collect();
        let chancer = {
            let (latch, shape) = (latch.clone(), shape.clone());
            thread::spawn(move || {
                let mut changes = 0;
                for round in 0..4 {
                    let closed = if round < 2 { latch.try_exclusive() } else { latch.exclusive_unless_closed() };
                    if let Some(_exclusive) = closed {
                        change(&shape);
                        changes += 1;
                    }
                    thread::yield_now();
                }
                changes
            })
        };
        let reader = {
            let (latch, shape) = (latch.clone(), shape.clone());
            thread::spawn(move || {
                for _ in 0..3 {
                    let _shared = latch.shared();
                    let (front, back) = look(&shape);
                    assert_eq!(front, back);
                }
            })
        };
        for _ in 0..4 {
            if let Some(stamp) = latch.stamp() {
                let (front, back) = look(&shape);
                assert!(!latch.is_unchanged_since(stamp) || front == back);
            }
        }
        for writer in writers {
            writer.join().unwrap();
        }
        reader.join().unwrap();
        let changes = 4 + chancer.join().unwrap();
        assert_eq!(look(&shape), (changes, changes));
    });
}

/// Of many threads that find a change of shape due, one waits for the last reader, and the others go on.
#[test]
fn one_thread_waits_for_readers() {
    explore(8, SCHEDULES, || {
        let latch = Arc::new(StructureLatch::new(LatchRank(1)));
        let reader = latch.shared();
        let waits = latch.clone();
        let waits = thread::spawn(move || drop(waits.exclusive_unless_closed().expect("it is open")));
        while latch.stamp().is_some() {
            thread::yield_now();
        }
        let goes_on = latch.clone();
        let goes_on = thread::spawn(move || assert!(goes_on.exclusive_unless_closed().is_none()));
        goes_on.join().unwrap();
        drop(reader);
        waits.join().unwrap();
        assert!(latch.exclusive_unless_closed().is_some());
    });
}

/// Parts of a structure, each changed by threads that follow each other.
#[test]
fn part_latch_admits_one_thread() {
    explore(9, SCHEDULES, || {
        let latches = Arc::new([PartLatch::new(LatchRank(2)), PartLatch::new(LatchRank(2))]);
        let parts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (latches, parts) = (latches.clone(), parts.clone());
                thread::spawn(move || {
                    for _ in 0..3 {
                        let part = usize::from(thread == 3);
                        let _exclusive = latches[part].exclusive();
                        let before = parts[part].load(Ordering::Relaxed);
                        thread::yield_now();
                        parts[part].store(before + 1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(parts.each_ref().map(|part| part.load(Ordering::Relaxed)), [9, 3]);
    });
}

/// E13.6: a writer that holds off readers waits for no thread that it holds off.
#[test]
fn readers_of_two_pages_and_writers_end() {
    explore(7, SCHEDULES, || {
        let (_disk, fixture) = Fixture::simulated(few_pages(8), 12);
        let fixture = Arc::new(fixture);
        let mut threads = Vec::new();
        for (first, second) in [(0, 1), (1, 0)] {
            let reading = fixture.clone();
            threads.push(thread::spawn(move || {
                for _ in 0..3 {
                    let outer = reading.pool.read(page(first)).unwrap();
                    thread::yield_now();
                    let inner = reading.pool.read(page(second)).unwrap();
                    assert_eq!(inner.u64_at(8), inner.u64_at(3000));
                    drop(outer);
                }
            }));
            let writing = fixture.clone();
            threads.push(thread::spawn(move || (1..4).for_each(|value| set_both(&writing, page(first), value))));
        }
        fixture.pool.write_back(WriteBack::Below(fixture.pool.redo_point().next().next())).unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
