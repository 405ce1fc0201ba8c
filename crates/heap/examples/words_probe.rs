//! Six random words read and written per transaction, beside the same words without transactions: what a change to the
//! engine costs, in seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cedrat_heap::*;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        (u128::from(self.next()) * u128::from(limit) >> 64) as u64
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn measure(threads: u64, work: impl Fn(u64, &AtomicBool) -> u64 + Send + Sync + 'static) -> f64 {
    let stop = Arc::new(AtomicBool::new(false));
    let work = Arc::new(work);
    let began = Instant::now();
    let running: Vec<_> = (0..threads)
        .map(|thread| {
            let (stop, work) = (Arc::clone(&stop), Arc::clone(&work));
            std::thread::spawn(move || work(thread, &stop))
        })
        .collect();
    std::thread::sleep(Duration::from_millis(400));
    stop.store(true, Ordering::Relaxed);
    let done: u64 = running.into_iter().map(|thread| thread.join().unwrap()).sum();
    done as f64 / began.elapsed().as_secs_f64()
}

fn main() {
    let bytes: u64 = std::env::args().nth(1).map_or(4 << 30, |arg| arg.parse().unwrap());
    let words = bytes / 8;
    let stripes: u32 = std::env::args().nth(2).map_or(18, |arg| arg.parse().unwrap());
    let shift: u32 = std::env::args().nth(3).map_or(2, |arg| arg.parse().unwrap());
    let encounter = std::env::args().nth(4).is_some_and(|arg| arg == "etl");
    let options = MemoryOptions {
        stripes_log2: stripes,
        stripe_words_log2: shift,
        locking: if encounter { Locking::EncounterTime } else { Locking::CommitTime },
        ..MemoryOptions::default()
    };
    let memory = Memory::volatile(options).unwrap();
    let heap = memory.create_heap("words", &HeapOptions::raw(bytes)).unwrap();
    // Touch everything first.
    let base = heap.address() as *mut u64;
    for at in (0..bytes).step_by(4096) {
        // the heap is private memory of this program
        unsafe { *base.add((at / 8) as usize) = 1 };
    }
    for threads in [1, 2] {
        let mut best = [0.0f64; 3];
        for _ in 0..6 {
        let address = heap.address();
        let raw = measure(threads, move |thread, stop| {
            let base = address as *const AtomicU64;
            let mut random = Random(thread + 77);
            let mut done = 0;
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..64 {
                    for _ in 0..6 {
                        let word = unsafe { &*base.add(random.below(words) as usize) };
                        word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    }
                    done += 1;
                }
            }
            done
        });
        let (of, in_memory) = (heap.clone(), memory.clone());
        let plain = measure(threads, move |thread, stop| {
            let mut random = Random(thread + 77);
            let mut session = in_memory.session().unwrap();
            let mut done = 0;
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..64 {
                    let at: [u64; 6] = std::array::from_fn(|_| random.below(words) * 8);
                    session
                        .run(Commit::Async, |tx| {
                            for at in at {
                                tx.update(&of, at, |value| value + 1)?;
                            }
                            Ok(())
                        })
                        .unwrap();
                    done += 1;
                }
            }
            done
        });
        let (of, in_memory) = (heap.clone(), memory.clone());
        let batch = measure(threads, move |thread, stop| {
            let mut random = Random(thread + 77);
            let mut session = in_memory.session().unwrap();
            let mut done = 0;
            let mut at = vec![[0u64; 6]; 256];
            while !stop.load(Ordering::Relaxed) {
                for slot in &mut at {
                    *slot = std::array::from_fn(|_| random.below(words) * 8);
                }
                session
                    .run_batch(
                        at.len(),
                        Commit::Async,
                        |index| at[index].iter().for_each(|&at| of.prefetch(at)),
                        |index, tx| {
                            for at in at[index] {
                                tx.update(&of, at, |value| value + 1)?;
                            }
                            Ok(())
                        },
                    )
                    .unwrap();
                done += at.len() as u64;
            }
            done
        });
        for (best, now) in best.iter_mut().zip([raw, plain, batch]) {
            *best = best.max(now);
        }
        }
        let [raw, plain, batch] = best;
        println!(
            "{threads} threads: raw {:.2} M/s, transactions {:.2} M/s ({:.3}), batched {:.2} M/s ({:.2} of raw, {:.2} x)  conflicts {}",
            raw / 1e6,
            plain / 1e6,
            plain / raw,
            batch / 1e6,
            batch / raw,
            batch / plain,
            memory.counted().conflicts,
        );
    }
}
