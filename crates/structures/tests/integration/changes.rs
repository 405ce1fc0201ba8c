//! The change stream of hash tables, against a model: what it delivers, applied to an empty map, is what the store has.

use std::collections::BTreeMap;

use cedrat_pages::PageId;
use cedrat_structures::RawHashTable;
use cedrat_txn::{Change, ChangeSet, ChangeStream, Commit, Store, StreamToken};
use cedrat_wal::Lsn;

use crate::common::{Bench, in_vain};

/// The content of all maps that a stream has delivered.
pub(crate) type Maps = BTreeMap<(PageId, Vec<u8>), Vec<u8>>;

fn apply(maps: &mut Maps, set: &mut ChangeSet<'_>) {
    while let Some(change) = set.next().expect("the log is there") {
        match change {
            Change::Put { structure, key, value } => drop(maps.insert((structure, key), value)),
            Change::Remove { structure, key } => drop(maps.remove(&(structure, key)).expect("E23.2: it was there")),
            Change::Drop { structure } => maps.retain(|(of, _), _| *of != structure),
            other => panic!("E23.2: {other:?}"),
        }
    }
}

/// Applies all that a stream has now, and returns the LSNs of the commits.
fn follow(maps: &mut Maps, stream: &mut ChangeStream) -> Vec<Lsn> {
    let mut lsns = Vec::new();
    while let Some(mut set) = stream.next().expect("the log is there") {
        apply(maps, &mut set);
        lsns.push(set.lsn());
    }
    lsns
}

pub(crate) fn content(store: &Store, table: &RawHashTable) -> Maps {
    let mut txn = store.begin();
    let pairs: Vec<_> = table.iter(&mut txn).unwrap().map(Result::unwrap).collect();
    txn.rollback().unwrap();
    pairs.into_iter().map(|pair| ((table.root(), pair.0), pair.1)).collect()
}

/// Splits, chains and moved values are form; what a savepoint or a rollback took back has not happened.
#[test]
fn stream_delivers_what_commits_changed() {
    let bench = Bench::new();
    let store = bench.store();
    let table = store.transact(RawHashTable::create).unwrap();
    let mut stream = store.changes(Lsn::ZERO).unwrap();
    let (mut maps, mut lsns) = (Maps::new(), Vec::new());
    for round in 0_u32..40 {
        let value = |key: u32| vec![key as u8; (key * (round + 7) % 900) as usize];
        let mut txn = store.begin();
        for key in 0..40 {
            let key = key * (round % 5 + 1);
            table.put(&mut txn, &key.to_le_bytes(), &value(key)).unwrap();
        }
        let savepoint = txn.savepoint();
        for key in 20..90_u32 {
            table.put(&mut txn, &key.to_le_bytes(), b"never").unwrap();
            table.remove(&mut txn, &(key / 2).to_le_bytes()).unwrap();
        }
        txn.rollback_to(savepoint).unwrap();
        table.remove(&mut txn, &(round * 3).to_le_bytes()).unwrap();
        txn.commit(if round % 2 == 0 { Commit::Sync } else { Commit::Async }).unwrap();
        in_vain(store, |txn| {
            (0..60_u32).for_each(|key| assert!(key < 60 && table.put(txn, &key.to_le_bytes(), &[1; 600]).is_ok()));
        });
        store.log().force(store.log().current_lsn()).unwrap();
        lsns.extend(follow(&mut maps, &mut stream));
        assert_eq!(maps, content(store, &table), "E23.1, E23.2: round {round}");
    }
    assert!(lsns.is_sorted() && lsns.len() == 41, "E23.1: {lsns:?}");
    let token: StreamToken = stream.token().to_string().parse().unwrap();
    assert_eq!(token, stream.token());
    store.transact(|txn| table.clone().drop(txn)).unwrap();
    assert_eq!(follow(&mut maps, &mut store.changes_after(&token).unwrap()).len(), 1);
    assert!(maps.is_empty(), "E23.2: the table was dropped");
}
