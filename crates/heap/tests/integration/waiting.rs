//! Transactions that wait, and operations that may not wait for them.
#![cfg(not(cedrat_shuttle))]

use std::sync::mpsc;
use std::time::Duration;

use cedrat_heap::{Commit, Error, Heap, HeapOptions, Held, Interrupt, Locking, Memory, MemoryOptions};
use cedrat_sync::atomic::{AtomicBool, Ordering};
use cedrat_sync::{Arc, thread};

/// Returns the result of `work`, unless it takes much too long.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    let running = thread::spawn(move || done.send(work()));
    let Ok(value) = wait.recv_timeout(Duration::from_secs(30)) else {
        match running.is_finished() {
            true => std::panic::resume_unwind(running.join().expect_err("it has sent nothing")),
            false => panic!("it waits without end"),
        }
    };
    value
}

fn heap_of(options: MemoryOptions, size: u64) -> Heap {
    let memory = Memory::volatile(options).expect("memory");
    let options = HeapOptions { chunk_len: 4096, size_max: size, ..HeapOptions::new(size) };
    memory.create_heap("heap", &options).expect("a heap")
}

/// E17.2: a transaction that waits for a change has not begun again, and references no block.
#[test]
fn blocks_are_reused_beside_waiting_session() {
    let heap = heap_of(MemoryOptions::small(), 64 << 10);
    let word = heap.atomically(|tx| tx.allocate(&heap, 8)).unwrap();
    heap.atomically(|tx| tx.write(&heap, word, 0)).unwrap();
    let has_read = Arc::new(AtomicBool::new(false));
    let waiting = {
        let (heap, has_read) = (heap.clone(), Arc::clone(&has_read));
        thread::spawn(move || {
            heap.atomically(|tx| {
                let value = tx.read(&heap, word)?;
                has_read.store(true, Ordering::Release);
                if value == 0 { Err(Interrupt::retry()) } else { Ok(value) }
            })
        })
    };
    while !has_read.load(Ordering::Acquire) {
        thread::yield_now();
    }
    let other = heap.clone();
    in_time(move || {
        for len in [30_000, 300].repeat(20) {
            let block = loop {
                match other.atomically(|tx| tx.allocate(&other, len)) {
                    // A thread that has read may not wait yet: its transaction is still running.
                    Err(Error::HeapFull { .. }) => thread::yield_now(),
                    allocated => break allocated.unwrap(),
                }
            };
            other.atomically(|tx| tx.free(&other, block)).unwrap();
        }
    });
    heap.atomically(|tx| tx.write(&heap, word, 5)).unwrap();
    assert_eq!(in_time(|| waiting.join().unwrap()).unwrap(), 5);
}

fn early() -> Heap {
    heap_of(MemoryOptions { locking: Locking::EncounterTime, ..MemoryOptions::small() }, 64 << 10)
}

/// The inner transaction would wait for its own thread.
#[test]
fn inner_transaction_is_refused_outer_locks() {
    let heap = early();
    let [one, other] = [(); 2].map(|()| heap.atomically(|tx| tx.allocate(&heap, 1000)).unwrap());
    in_time(move || {
        let done = heap.atomically(|tx| {
            tx.write(&heap, one, 1)?;
            let refused = [
                heap.atomically(|tx| tx.read(&heap, one)),
                heap.atomically(|tx| tx.update(&heap, one, |value| value + 1)),
                heap.atomically(|tx| tx.write(&heap, one, 2).map(|()| 0)),
            ];
            for refused in refused {
                let refused = refused.expect_err("it has the word");
                assert!(matches!(refused, Error::Misuse(what) if what.contains("EncounterTime")), "{refused}");
            }
            heap.atomically(|tx| tx.write(&heap, other, 3))?;
            tx.read(&heap, one)
        });
        assert_eq!(done.unwrap(), 1);
        assert_eq!(heap.atomically(|tx| Ok((tx.read(&heap, one)?, tx.read(&heap, other)?))).unwrap(), (1, 3));
    });
}

/// A repeated transaction would wait without end for one that its own thread has begun and will end by a later call.
#[test]
fn repeated_transaction_is_refused_held_locks() {
    let heap = early();
    let word = heap.atomically(|tx| tx.allocate(&heap, 8)).unwrap();
    in_time(move || {
        let [mut held, mut other] = [(); 2].map(|()| Held::new(heap.memory()).unwrap());
        held.begin().unwrap();
        held.run(|tx| tx.write(&heap, word, 1)).unwrap();
        held.allocate_filled(&heap, 100).unwrap();
        let refused = [
            heap.atomically(|tx| tx.read(&heap, word)),
            heap.atomically(|tx| tx.update(&heap, word, |value| value + 1)),
            heap.allocated_bytes(),
        ];
        for refused in refused {
            let refused = refused.expect_err("it has the word");
            assert!(matches!(refused, Error::Misuse(what) if what.contains("EncounterTime")), "{refused}");
        }
        other.begin().unwrap();
        assert!(matches!(other.read(&heap, word), Err(Error::Conflict)), "the program may end the first one");
        held.commit(Commit::Async).unwrap();
        assert_eq!(heap.atomically(|tx| tx.update(&heap, word, |value| value + 1)).unwrap(), 1);
        heap.verify().unwrap();
    });
}

#[test]
fn transaction_waits_for_locked_words() {
    let heap = early();
    let word = heap.atomically(|tx| tx.allocate(&heap, 8)).unwrap();
    in_time(move || {
        std::thread::scope(|scope| {
            let mut session = heap.memory().session().unwrap();
            let beside = session.run(Commit::Sync, |tx| {
                tx.write(&heap, word, 1)?;
                let beside = scope.spawn(|| heap.atomically(|tx| tx.update(&heap, word, |value| value + 1)));
                while heap.memory().counted().conflicts == 0 {
                    thread::yield_now(); // the transaction has not met the lock yet
                }
                Ok(beside)
            });
            beside.unwrap().value.join().unwrap().expect("it was waited for");
        });
        assert_eq!(heap.atomically(|tx| tx.read(&heap, word)).unwrap(), 2);
    });
}
