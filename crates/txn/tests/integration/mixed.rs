//! Transactions over heaps and pages: all reads are of one moment, all writes are in one record (E10).

use cedrat_heap::{Heap, HeapOptions, Held, Interrupt, Locking};
use cedrat_media::{Loss, SimDisk};
use cedrat_pages::PageId;
use cedrat_sync::Arc;
use cedrat_txn::{Commit, Error, Store, Txn};

use crate::common::*;

fn store() -> (Store, PageId, Heap) {
    let (store, page) = store_with(options(), registry());
    let heap = store.memory().create_heap("words", &HeapOptions { chunk_len: 4096, ..HeapOptions::raw(4096) }).unwrap();
    (store, page, heap)
}

fn is_conflict<T>(result: cedrat_txn::Result<T>) -> bool {
    matches!(result, Err(Error::Heap(cedrat_heap::Error::Conflict)))
}

/// Adds to a word and to the page, in one transaction.
fn add_to_both(store: &Store, heap: &Heap, page: PageId, amount: i64) {
    let both = store.transact(|txn| {
        txn.heap(|tx| tx.update(heap, 0, |value| value.wrapping_add_signed(amount)))?;
        txn.update(at(page, 0), &Add { amount })
    });
    both.unwrap();
}

fn page_number(txn: &Txn, page: PageId) -> cedrat_txn::Result<i64> {
    Ok(number(&*txn.read(page)?, cedrat_pages::Slot(0))?)
}

/// E10.2: a word that was read before, and a page that is read after another transaction has changed both, would belong
/// to two moments.
#[test]
fn page_and_word_reads_share_snapshot() {
    let (store, page, heap) = store();
    let mut txn = store.begin();
    assert_eq!(txn.heap(|tx| tx.read(&heap, 0)).unwrap(), 0);
    add_to_both(&store, &heap, page, 5);
    assert!(is_conflict(page_number(&txn, page)), "E10.2");
    txn.rollback().unwrap();

    // The read words have not changed: the snapshot advances, and later reads are of the new state.
    let mut txn = store.begin();
    txn.heap(|tx| tx.read(&heap, 256)).unwrap();
    add_to_both(&store, &heap, page, 5);
    assert_eq!(page_number(&txn, page).unwrap(), 10);
    assert_eq!(txn.heap(|tx| tx.read(&heap, 512)).unwrap(), 0);
    txn.rollback().unwrap();
}

/// E10.1: both or neither, after any crash.
#[test]
fn both_faces_are_there_or_neither() {
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    let heap = store.memory().create_heap("words", &HeapOptions { chunk_len: 4096, ..HeapOptions::raw(4096) }).unwrap();
    for amount in 1..6 {
        add_to_both(&store, &heap, page, amount);
        disk.mark(amount as u64);
    }
    drop((heap, store));
    let states = every_crash(&disk, 3, |disk, marks, what| {
        let store = match open(disk) {
            Err(error) if is_before_creation(&error) => return,
            opened => opened.unwrap_or_else(|error| panic!("E10.1: {what}: {error}")),
        };
        let Ok(heap) = store.memory().heap("words") else {
            return assert!(marks.is_empty(), "{what}");
        };
        let word = store.memory().run(Commit::Async, |tx| tx.read(&heap, 0)).unwrap().value;
        let on_page = read_number(&store, at(page, 0)).unwrap_or(0);
        assert_eq!(word as i64, on_page, "E10.1: {what}");
        let acknowledged: i64 = marks.iter().map(|&mark| mark as i64).sum();
        assert!(on_page >= acknowledged, "{what}");
    });
    assert!(states > 50, "{states}");
}

/// E10.5: words that fill several records are there all at once, with the commit record.
#[test]
fn parts_count_with_their_commit() {
    const WORDS: u64 = 6_000;
    let disk = Arc::new(SimDisk::new());
    let store = open(&disk).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    let heap =
        store.memory().create_heap("words", &HeapOptions { chunk_len: 4096, ..HeapOptions::raw(1 << 17) }).unwrap();
    let written = disk.journal_len();
    let mut txn = store.begin();
    txn.heap(|tx| (0..WORDS).try_for_each(|word| tx.write(&heap, word * 16, 7))).unwrap();
    txn.update(at(page, 0), &Add { amount: 7 }).unwrap();
    txn.commit(Commit::Sync).unwrap();
    drop((heap, store));
    let (mut without, mut with) = (0, 0);
    for calls in written..=disk.journal_len() {
        for loss in [Loss::Everything, Loss::Nothing] {
            let crashed = Arc::new(disk.journal().crash(calls, loss));
            let store = open(&crashed).unwrap();
            let heap = store.memory().heap("words").unwrap();
            let sum = heap.atomically(|tx| (0..WORDS).try_fold(0, |sum, word| Ok(sum + tx.read(&heap, word * 16)?)));
            let sum = sum.unwrap();
            assert!(sum == 0 || sum == 7 * WORDS, "E10.5: {sum}, crash at {calls}, {loss:?}");
            assert_eq!(numbers(&store, page)[0] as u64 * WORDS, sum, "E10.1: crash at {calls}, {loss:?}");
            *if sum == 0 { &mut without } else { &mut with } += 1;
        }
    }
    assert!(without > 2 && with > 0, "{without} crashes before the commit, {with} after it");
}

/// E10.3, also for a transaction that has written pages.
#[test]
fn changed_word_fails_validation_at_commit() {
    let (store, page, heap) = store();
    let change = || heap.atomically(|tx| tx.update(&heap, 0, |value| value + 1)).unwrap();

    // Its reads are a consistent state of one moment; a read-only transaction nevertheless validates them at its end.
    let mut reader = store.begin();
    assert_eq!(page_number(&reader, page).unwrap(), 0);
    reader.heap(|tx| tx.read(&heap, 0)).unwrap();
    change();
    assert!(is_conflict(reader.commit(Commit::Sync)), "E10.3");

    let mut writer = store.begin();
    writer.heap(|tx| tx.read(&heap, 0)).unwrap();
    writer.update(at(page, 1), &Add { amount: 7 }).unwrap();
    change();
    assert!(is_conflict(writer.commit(Commit::Sync)), "H1");
    assert_eq!(numbers(&store, page), [0; 4], "it was rolled back");
    add_to_both(&store, &heap, page, 1);
}

/// E10.6.
#[test]
fn savepoint_restores_words_and_keeps_reads() {
    let (store, page, heap) = store();
    let mut txn = store.begin();
    let nothing_yet = txn.savepoint();
    txn.heap(|tx| tx.write(&heap, 0, 1)).unwrap();
    let one = txn.savepoint();
    txn.heap(|tx| tx.write(&heap, 0, 2)).unwrap();
    txn.heap(|tx| tx.update(&heap, 64, |value| value + 1)).unwrap();
    txn.heap(|tx| tx.update(&heap, 1024, |value| value + 1)).unwrap();
    txn.update(at(page, 0), &Add { amount: 3 }).unwrap();
    txn.rollback_to(one).unwrap();
    assert_eq!(txn.heap(|tx| Ok((tx.read(&heap, 0)?, tx.read(&heap, 64)?))).unwrap(), (1, 0));
    txn.rollback_to(nothing_yet).unwrap();
    assert_eq!(txn.heap(|tx| tx.read(&heap, 0)).unwrap(), 0);
    txn.heap(|tx| tx.write(&heap, 8, 9)).unwrap();
    // Reads that were undone are still validated. This word was read by nothing else.
    heap.atomically(|tx| tx.write(&heap, 1024, 5)).unwrap();
    assert!(is_conflict(txn.commit(Commit::Sync)), "E10.6");
    assert_eq!(heap.atomically(|tx| tx.read(&heap, 8)).unwrap(), 0);
}

/// E10.7.
#[test]
fn nested_actions_do_not_write_words() {
    let (store, page, heap) = store();
    let mut txn = store.begin();
    txn.heap(|tx| tx.write(&heap, 0, 1)).unwrap();
    let nested = txn.nested((), |txn: &mut Txn| {
        assert_eq!(txn.heap(|tx| tx.read(&heap, 0))?, 1, "reading is as ever");
        let refused = txn.heap(|tx| tx.write(&heap, 0, 2));
        assert!(matches!(refused, Err(Error::Heap(cedrat_heap::Error::Misuse(_)))), "{refused:?}");
        txn.update(at(page, 0), &Add { amount: 1 })?;
        Ok(((), cedrat_txn::Undo::none()))
    });
    nested.unwrap();
    txn.commit(Commit::Sync).unwrap();
    assert_eq!(heap.atomically(|tx| tx.read(&heap, 0)).unwrap(), 1);
}

/// H4, and no lock remains that would block the next transaction.
#[test]
fn abandoned_changes_leave_nothing() {
    let (store, page, heap) = store();
    let failed = store.transact(|txn| {
        txn.heap(|tx| tx.write(&heap, 0, 1))?;
        txn.update(at(page, 0), &Add { amount: 1 })?;
        txn.heap(|_| Err::<(), _>(Interrupt::abort("no")))
    });
    assert!(matches!(failed, Err(Error::Heap(cedrat_heap::Error::Aborted(_)))), "{failed:?}");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        heap.atomically(|tx| -> Result<(), Interrupt> {
            tx.write(&heap, 0, 1)?;
            panic!("in the middle")
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(heap.atomically(|tx| tx.update(&heap, 0, |value| value + 1)).unwrap(), 0, "H4");
    assert_eq!(numbers(&store, page), [0; 4]);
}

/// E8.3.
#[test]
fn page_changes_prevent_partition_commit() {
    let (store, _, heap) = store();
    let mut txn = store.begin();
    txn.heap(|tx| tx.write(&heap, 0, 1)).unwrap();
    assert!(matches!(txn.commit(Commit::Partition), Err(Error::PartitionCommit)));
    assert_eq!(heap.atomically(|tx| tx.read(&heap, 0)).unwrap(), 0);
}

/// A stopped store, including its heaps, refuses all calls (E16.5).
#[test]
fn heaps_of_a_stopped_store_refuse() {
    let (store, _, heap) = store();
    let done = store.memory().run(Commit::Async, |tx| tx.write(&heap, 0, 1)).unwrap();
    store.log().stop("a test asked for it");
    assert!(store.memory().is_stable(done.lsn, true).is_err(), "E16.5");
    assert!(store.memory().is_stable(done.lsn, false).is_err(), "E16.5");
    assert!(matches!(heap.atomically(|tx| tx.read(&heap, 0)), Err(cedrat_heap::Error::Stopped(_))));
    assert!(matches!(heap.atomically(|tx| tx.write(&heap, 0, 1)), Err(cedrat_heap::Error::Stopped(_))));
}

/// E10.4: a transaction over heaps alone may have locked words when it wrote them; once it is part of one that waits for the
/// locks of pages, others wait for them without end.
#[test]
fn transaction_taken_over_locks_no_words() {
    let mut options = options();
    options.memory.locking = Locking::EncounterTime;
    let (store, page) = store_with(options, registry());
    let heap = store.memory().create_heap("words", &HeapOptions { chunk_len: 4096, ..HeapOptions::raw(4096) }).unwrap();
    let memory = store.memory();
    for is_overtaken in [false, true] {
        let mut held = Held::new(&memory).unwrap();
        held.begin().unwrap();
        held.run(|tx| tx.update(&heap, 0, |value| value + 1)).unwrap();
        held.run(|tx| tx.write(&heap, 1024, 5)).unwrap();
        let mut txn = store.begin();
        txn.take_over(&mut held).unwrap();
        txn.heap(|tx| tx.write(&heap, 2048, 7)).unwrap();
        txn.update(at(page, 0), &Add { amount: 1 }).unwrap();
        let mut other = Held::new(&memory).unwrap();
        let before = if is_overtaken { [1, 5, 7] } else { [0; 3] };
        for (offset, before) in [0, 1024, 2048].into_iter().zip(before) {
            other.begin().unwrap();
            let done = other.run(|tx| {
                if is_overtaken { tx.update(&heap, offset, |value| value + 10) } else { tx.read(&heap, offset) }
            });
            assert_eq!(done.expect("E10.4"), before);
            if is_overtaken {
                other.commit(Commit::Sync).unwrap();
            } else {
                other.abort();
            }
        }
        let committed = txn.commit(Commit::Sync);
        let words = heap
            .atomically(|tx| [0, 1024, 2048].into_iter().map(|at| tx.read(&heap, at)).collect::<Result<Vec<_>, _>>());
        if is_overtaken {
            assert!(is_conflict(committed));
            assert_eq!(words.unwrap(), [11, 15, 17], "E10.1");
        } else {
            committed.unwrap();
            assert_eq!(words.unwrap(), [1, 5, 7], "E10.1");
        }
    }
}
