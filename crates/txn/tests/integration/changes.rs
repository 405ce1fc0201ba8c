//! The change stream and its consumers: what keeps the log, what releases it, and which errors readers get.

use std::collections::BTreeSet;
use std::time::Duration;

use cedrat_heap::HeapOptions;
use cedrat_media::{Loss, SimDisk};
use cedrat_sync::thread;
use cedrat_txn::{
    Change, ChangeSet, ChangeStream, Commit, ConsumerOptions, Error, Options, Prepared, Result, Store, StreamToken,
    Undo, Vote,
};
use cedrat_wal::{Log, Lsn};

use crate::common::{self, Add, Subtract, at, every_crash, media, page_with_zeros};

const KIND: &str = "test.noted";

fn open_with(disk: &SimDisk, options: Options) -> Store {
    Store::open(media(disk), options, common::registry().record_kind(KIND)).expect("the store opens")
}

fn open(disk: &SimDisk) -> Store {
    open_with(disk, common::options())
}

fn note(store: &Store, number: u32) -> Result<()> {
    store.transact(|txn| txn.log_record(KIND, &number.to_le_bytes())).map(|_| ())
}

fn noted(set: &mut ChangeSet<'_>) -> Vec<u32> {
    let mut numbers = Vec::new();
    while let Some(change) = set.next().expect("the log is there") {
        let Change::Record { kind, bytes } = change else { continue };
        assert_eq!(kind, KIND);
        numbers.push(u32::from_le_bytes(bytes[..4].try_into().unwrap()));
    }
    numbers
}

/// Returns the numbers of all transactions that a stream has now.
fn rest(stream: &mut ChangeStream) -> Result<Vec<u32>> {
    let mut numbers = Vec::new();
    while let Some(mut set) = stream.next()? {
        numbers.extend(noted(&mut set));
    }
    Ok(numbers)
}

/// Recycles the whole log some times.
fn recycle_log(store: &Store) {
    for _ in 0..2000 {
        store.transact(|txn| txn.log_record(KIND, &[0; 5000])).expect("E23.4b: no reader refuses a transaction");
    }
}

#[test]
fn changes_of_each_kind_are_delivered() {
    let store = open(&SimDisk::new());
    let page = store.transact(page_with_zeros).unwrap();
    let heap = store.memory().create_heap("words", &HeapOptions::raw(4096)).unwrap();
    let mut stream = store.changes(store.log().current_lsn().next()).unwrap();
    let mut txn = store.begin();
    txn.log_record(KIND, b"first").unwrap();
    txn.update(at(page, 1), &Add { amount: 5 }).unwrap();
    txn.heap(|tx| tx.write(&heap, 24, 7)).unwrap();
    let id = txn.id();
    txn.commit(Commit::Sync).unwrap();
    store.memory().run(Commit::Sync, |tx| tx.write(&heap, 32, 8)).unwrap();
    let mut set = stream.next().unwrap().expect("it has committed");
    assert_eq!(set.txn(), id);
    let mut changes = Vec::new();
    while let Some(change) = set.next().unwrap() {
        changes.push(change);
    }
    let [
        Change::Record { .. },
        Change::Raw { operation, at: place, arguments },
        Change::Words { first: 3, values, .. },
    ] = &changes[..]
    else {
        panic!("{changes:?}")
    };
    assert_eq!((&operation[..], *place, &arguments[..], &values[..]), ("test.add", at(page, 1), &[10][..], &[7][..]));
    let mut set = stream.next().unwrap().expect("it has committed");
    assert!(matches!(set.next().unwrap(), Some(Change::Words { first: 4, .. })));
    assert!(set.next().unwrap().is_none() && stream.next().unwrap().is_none());
}

/// E23.2: savepoints, failed nested actions and logical undos leave nothing, ended nested actions stay.
#[test]
fn undone_parts_are_left_out() {
    let store = open(&SimDisk::new());
    let page = store.transact(page_with_zeros).unwrap();
    let mut stream = store.changes(store.log().current_lsn().next()).unwrap();
    let undo = |amount| Undo::logical(&Subtract { page: page.get(), slot: 0, amount });
    let mut txn = store.begin();
    let add = |txn: &mut cedrat_txn::Txn, amount| txn.update(at(page, 0), &Add { amount });
    add(&mut txn, 1).unwrap();
    let savepoint = txn.savepoint();
    add(&mut txn, 2).unwrap();
    txn.log_record(KIND, &[9; 4]).unwrap();
    txn.nested((), |txn| add(txn, 3).map(|()| ((), undo(3)))).unwrap();
    txn.rollback_to(savepoint).unwrap();
    txn.nested((), |txn| add(txn, 4).map(|()| ((), undo(4)))).unwrap();
    let failed: Result<()> = txn.nested((), |txn| {
        add(txn, 5)?;
        Err(Error::user("it changed its mind"))
    });
    failed.unwrap_err();
    add(&mut txn, 6).unwrap();
    txn.commit(Commit::Sync).unwrap();
    let mut set = stream.next().unwrap().expect("it has committed");
    let mut amounts = Vec::new();
    while let Some(change) = set.next().unwrap() {
        let Change::Raw { arguments, .. } = change else { panic!("E23.2: {change:?}") };
        amounts.push(arguments[0] / 2);
    }
    assert_eq!(amounts, [1, 4, 6], "E23.2");
}

/// E23.1a, E23.1b: neither an asynchronous commit that is not written, nor a branch in doubt.
#[test]
fn commit_is_delivered_once_durable() {
    let disk = SimDisk::new();
    let store = open(&disk);
    let mut stream = store.changes(Lsn::ZERO).unwrap();
    let mut txn = store.begin();
    txn.log_record(KIND, &1_u32.to_le_bytes()).unwrap();
    txn.commit(Commit::Async).unwrap();
    assert_eq!(rest(&mut stream).unwrap(), [], "E23.1a");
    let mut txn = store.begin();
    txn.log_record(KIND, &2_u32.to_le_bytes()).unwrap();
    let Vote::Prepared(branch) = txn.prepare(b"branch").unwrap() else { panic!("it has changed something") };
    drop::<Prepared>(branch);
    note(&store, 3).unwrap();
    assert_eq!(rest(&mut stream).unwrap(), [1, 3], "E23.1b");
    let token = stream.token();
    drop((store, stream));
    let store = open(&disk.cut_power(Loss::Everything));
    store.prepared(b"branch").unwrap().commit(Commit::Sync).unwrap();
    assert_eq!(rest(&mut store.changes_after(&token).unwrap()).unwrap(), [2], "E23.1b, E23.3");
}

/// E23.5: of more records, and of more bytes, than one piece of a chain has.
#[test]
fn long_transaction_is_delivered_whole() {
    let store = open(&SimDisk::new());
    for (count, len) in [(10_000, 4), (300, 6000)] {
        let mut stream = store.changes(store.log().current_lsn().next()).unwrap();
        let mut txn = store.begin();
        for number in 0..count {
            let mut bytes = vec![0; len];
            bytes[..4].copy_from_slice(&u32::to_le_bytes(number));
            txn.log_record(KIND, &bytes).unwrap();
        }
        txn.commit(Commit::Sync).unwrap();
        let all: Vec<_> = (0..count).collect();
        assert_eq!(rest(&mut stream).unwrap(), all, "E23.5");
    }
}

/// E23.4: also across openings, and for transactions that were open at its position.
#[test]
fn consumer_keeps_log_from_its_token() {
    let disk = SimDisk::new();
    let store = open(&disk);
    let consumer = store.consumer("reader", ConsumerOptions::default()).unwrap();
    let mut open_one = store.begin();
    open_one.log_record(KIND, &1_u32.to_le_bytes()).unwrap();
    for _ in 0..50 {
        store.transact(|txn| txn.log_record(KIND, &[0; 5000])).unwrap();
    }
    note(&store, 2).unwrap();
    let mut stream = consumer.changes().unwrap();
    assert_eq!(rest(&mut stream).unwrap()[50..], [2]);
    consumer.confirm(&stream.token()).unwrap();
    for _ in 0..200 {
        store.transact(|txn| txn.log_record(KIND, &[3; 5000])).unwrap();
    }
    open_one.commit(Commit::Sync).unwrap();
    store.checkpoint().unwrap();
    assert!(store.log().control().checkpoint.scan_lsn > consumer.token().unwrap().needs(), "recovery needs less");
    let lag = store.consumers()[0].lag_bytes.unwrap();
    assert!(lag > 200 * 5000, "{lag}");
    drop((store, consumer, stream));
    let store = open(&disk.cut_power(Loss::Everything));
    store.checkpoint().unwrap();
    let consumer = store.consumer("reader", ConsumerOptions::default()).unwrap();
    let mut stream = consumer.changes().unwrap();
    let numbers = rest(&mut stream).unwrap();
    assert_eq!((numbers.len(), numbers[200]), (201, 1), "E23.3, E23.4");
    consumer.confirm(&stream.token()).unwrap();
    assert!(store.consumers()[0].lag_bytes.unwrap() < 10_000);
    assert!(store.drop_consumer("reader").unwrap() && store.consumers().is_empty());
    assert!(matches!(consumer.changes(), Err(Error::NoSuchConsumer { .. })));
}

/// E23.4: beyond its limit, or in a full log. The error has its name, and it may begin again.
#[test]
fn dead_consumer_is_released_by_name() {
    for limit_bytes in [500_000, u64::MAX] {
        let disk = SimDisk::new();
        let store = open(&disk);
        let consumer = store.consumer("dead", ConsumerOptions { limit_bytes }).unwrap();
        note(&store, 1).unwrap();
        recycle_log(&store);
        let status = &store.consumers()[0];
        assert!(status.lacks_log && status.released_bytes.unwrap() > 500_000, "E23.4b: {status:?}");
        drop((store, consumer));
        let store = open(&disk.cut_power(Loss::Everything));
        let consumer = store.consumer("dead", ConsumerOptions::default()).unwrap();
        let error = consumer.changes().unwrap().next().map(drop).unwrap_err();
        assert!(
            matches!(error, Error::ChangesLost { .. }) && error.to_string().contains("\"dead\""),
            "E23.4a, E23.4c: {error}"
        );
        consumer.restart().unwrap();
        note(&store, 2).unwrap();
        assert_eq!(rest(&mut consumer.changes().unwrap()).unwrap(), [2], "E23.4a");
        assert!(!store.consumers()[0].lacks_log && store.consumers()[0].released_bytes.is_none());
    }
}

/// E23.4a: with an archive a released consumer loses nothing.
#[test]
fn released_consumer_reads_archive() {
    let (disk, to) = (SimDisk::new(), SimDisk::new());
    let archived = || Options { archive: Some(media(&to)), ..common::options() };
    let store = open_with(&disk, archived());
    let consumer = store.consumer("slow", ConsumerOptions { limit_bytes: 100_000 }).unwrap();
    let mut stream = consumer.changes().unwrap();
    note(&store, 1).unwrap();
    assert_eq!(rest(&mut stream).unwrap(), [1]);
    consumer.confirm(&stream.token()).unwrap();
    for number in 2..5 {
        recycle_log(&store);
        note(&store, number).unwrap();
    }
    assert!(store.consumers()[0].lacks_log);
    let mut in_time = 0;
    let mut numbers = Vec::new();
    while let Some(mut set) = stream.next().unwrap() {
        in_time += u32::from(set.committed_before().is_some());
        numbers.extend(noted(&mut set));
        let token = set.token();
        consumer.confirm(&token).unwrap();
    }
    numbers.retain(|&number| number != 0);
    assert_eq!(numbers, [2, 3, 4], "E23.4a");
    assert!(in_time > 4000, "most were read from the archive: {in_time}");
    note(&store, 5).unwrap();
    assert_eq!(rest(&mut stream).unwrap(), [5]);
    consumer.confirm(&stream.token()).unwrap();
    assert!(!store.consumers()[0].lacks_log && store.consumers()[0].released_bytes.is_none(), "it keeps the log again");
    let all = rest(&mut store.changes(Lsn::ZERO).unwrap()).unwrap();
    assert_eq!(all.len(), 5 + 6000, "the archive has all");
}

/// E23.3: whatever token of a stream is confirmed, and wherever a crash comes, no commit is missing or twice behind it.
#[test]
fn confirmed_token_survives_every_crash() {
    for partitions in [1, 3] {
        let options = || Options { partitions, ..common::options() };
        let disk = SimDisk::new();
        let store = open_with(&disk, options());
        let consumer = store.consumer("reader", ConsumerOptions::default()).unwrap();
        disk.mark(0);
        let mut stream = consumer.changes().unwrap();
        for number in 0..12 {
            note(&store, number).unwrap();
            if number % 3 == 1 {
                assert_eq!(rest(&mut stream).unwrap().last(), Some(&number));
                consumer.confirm(&stream.token()).unwrap();
                disk.mark(u64::from(number) + 1);
            }
            if number % 4 == 2 {
                store.checkpoint().unwrap();
            }
        }
        drop((store, consumer, stream));
        every_crash(&disk, 1, |disk, marks, name| {
            if Log::look(&media(disk)).is_err() {
                return;
            }
            let store = open_with(disk, options());
            assert!(marks.is_empty() || !store.consumers().is_empty(), "E23.4: {name}");
            if store.consumers().is_empty() {
                return;
            }
            let consumer = store.consumer("reader", ConsumerOptions::default()).unwrap();
            let confirmed = marks.last().map_or(0, |&mark| mark as u32);
            let found: BTreeSet<u32> = rest(&mut consumer.changes().unwrap()).unwrap().into_iter().collect();
            let first = found.first().copied().unwrap_or(confirmed);
            assert!(first <= confirmed + 3, "E23.3: {name}: {first} after {confirmed}");
            assert!(found.iter().copied().eq(first..first + found.len() as u32), "E23.1: {name}: {found:?}");
        });
    }
}

#[test]
fn foreign_tokens_are_refused() {
    let store = open(&SimDisk::new());
    note(&store, 1).unwrap();
    let mut stream = store.changes(Lsn::ZERO).unwrap();
    rest(&mut stream).unwrap();
    let token = stream.token();
    let other =
        Options { log: cedrat_wal::LogOptions { store: Some([7; 16]), ..common::options().log }, ..common::options() };
    let other = open_with(&SimDisk::new(), other);
    assert!(matches!(other.changes_after(&token), Err(Error::Misuse(_))));
    assert!(matches!(open(&SimDisk::new()).changes_after(&token), Err(Error::Misuse(_))), "it is of a later state");
    assert_eq!(StreamToken::from_bytes(&token.to_bytes()).unwrap(), token);
    assert!(StreamToken::from_bytes(&[0xff; 32]).is_err() && "a word".parse::<StreamToken>().is_err());
}

/// A thread that follows the store is woken by each commit, and by the end of the wait.
#[test]
#[cfg_attr(cedrat_shuttle, ignore = "needs threads of the system")]
fn follower_is_woken_by_commits() {
    let store = open_with(&SimDisk::new(), Options { background: true, ..common::options() });
    let mut stream = store.changes(Lsn::ZERO).unwrap();
    assert!(!stream.wait(Duration::ZERO).unwrap(), "there is nothing yet");
    let writer = store.clone();
    let writes = thread::spawn(move || (0..50).for_each(|number| note(&writer, number).unwrap()));
    let mut numbers = Vec::new();
    while numbers.len() < 50 {
        assert!(stream.wait(Duration::from_secs(600)).unwrap(), "it is woken");
        numbers.extend(rest(&mut stream).unwrap());
    }
    writes.join().unwrap();
    assert_eq!(numbers, (0..50).collect::<Vec<_>>());
}

/// E23.2, E23.3: a branch in doubt that checkpoints have carried forward. Copies have all changes that no nested action made; for
/// those the consumer keeps the first records.
#[test]
fn carried_branch_is_delivered_whole() {
    for (is_nested, rounds) in [(false, 6), (true, 1)] {
        let disk = SimDisk::new();
        let options = || Options { carry_forward_bytes: Some(1), checkpoint_when_opened: false, ..common::options() };
        let store = open_with(&disk, options());
        let page = store.transact(page_with_zeros).unwrap();
        let consumer = store.consumer("reader", ConsumerOptions { limit_bytes: 3 << 20 }).unwrap();
        let mut stream = consumer.changes().unwrap();
        let first = store.log().current_lsn().next();
        let mut txn = store.begin();
        txn.log_record(KIND, &1_u32.to_le_bytes()).unwrap();
        txn.update(at(page, 0), &Add { amount: 7 }).unwrap();
        if is_nested {
            let undo = Undo::logical(&Subtract { page: page.get(), slot: 1, amount: 8 });
            txn.nested((), |txn| txn.update(at(page, 1), &Add { amount: 8 }).map(|()| ((), undo))).unwrap();
        }
        let Vote::Prepared(branch) = txn.prepare(b"branch").unwrap() else { panic!("it has changed something") };
        drop::<Prepared>(branch);
        for _ in 0..rounds {
            (0..100).for_each(|_| drop(store.transact(|txn| txn.log_record(KIND, &[0; 5000]).map(|_| ()))));
            store.checkpoint().unwrap();
            note(&store, 0).unwrap();
            assert!(rest(&mut stream).unwrap().iter().all(|&number| number == 0), "E23.1b");
            consumer.confirm(&stream.token()).unwrap();
        }
        assert!(store.log().control().checkpoint.scan_lsn > first, "it was carried forward");
        assert_eq!(consumer.token().unwrap().needs() <= first, is_nested, "E23.3");
        drop((store, consumer, stream));
        let store = open_with(&disk.cut_power(Loss::Everything), options());
        store.prepared(b"branch").unwrap().commit(Commit::Sync).unwrap();
        let mut stream = store.consumer("reader", ConsumerOptions::default()).unwrap().changes().unwrap();
        let mut set = stream.next().unwrap().expect("E23.1b");
        let mut amounts = Vec::new();
        while let Some(change) = set.next().unwrap() {
            amounts.extend(change.operation::<Add>().map(|(_, add)| add.amount));
        }
        assert_eq!(amounts, if is_nested { vec![7, 8] } else { vec![7] }, "E23.2");
    }
}

/// E23.2: a consumer that is created after a branch was carried forward lacks its nested actions, and gets an error.
#[test]
fn unread_branch_is_lost_by_name() {
    let disk = SimDisk::new();
    let options = || Options { carry_forward_bytes: Some(1), checkpoint_when_opened: false, ..common::options() };
    let store = open_with(&disk, options());
    let page = store.transact(page_with_zeros).unwrap();
    let mut txn = store.begin();
    let undo = Undo::logical(&Subtract { page: page.get(), slot: 1, amount: 8 });
    txn.nested((), |txn| txn.update(at(page, 1), &Add { amount: 8 }).map(|()| ((), undo))).unwrap();
    let Vote::Prepared(branch) = txn.prepare(b"branch").unwrap() else { panic!("it has changed something") };
    let prepared = store.log().current_lsn();
    for _ in 0..6 {
        (0..100).for_each(|_| drop(store.transact(|txn| txn.log_record(KIND, &[0; 5000]).map(|_| ()))));
        store.checkpoint().unwrap();
    }
    assert!(store.log().control().checkpoint.scan_lsn > prepared, "it was carried forward");
    let mut stream = store.consumer("late", ConsumerOptions::default()).unwrap().changes().unwrap();
    branch.commit(Commit::Sync).unwrap();
    note(&store, 1).unwrap();
    for _ in 0..2 {
        let error = stream.next().expect_err("E23.2").to_string();
        assert!(error.contains("consumer \"late\"") && error.contains("are lost"), "E23.2: {error}");
    }
}
