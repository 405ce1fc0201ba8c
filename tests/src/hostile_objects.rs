//! Hostile bytes of collections of objects, whose pages and log records have repaired checksums: see [`hostile`](crate::hostile).

use std::sync::Arc;

use cedrat::objects::{ObjectId, Objects, Options as ObjectOptions, UndoPolicy};
use cedrat::txn::{Options, Store, Txn};
use cedrat_media::{Image, SimDisk};

use crate::repair::{self, Target};

/// Collections of the sample: their names and policies of undo.
const COLLECTIONS: [(&str, UndoPolicy); 2] =
    [("committed only", UndoPolicy::CommittedOnly), ("inverses", UndoPolicy::Inverses)];

fn open(store: &Store, (name, undo): (&str, UndoPolicy)) -> cedrat::Result<Objects> {
    Objects::open_or_create(store, name, ObjectOptions { undo, ..ObjectOptions::default() })
}

/// Makes a small store with two collections over several pages: removed and moved objects, changes that are in the pages and
/// others that are in the log only, a prepared transaction and a loser in each, as a kill leaves it.
pub fn objects_sample() -> Image {
    let disk = SimDisk::new();
    let store = Store::open(Arc::new(disk.clone()), Options::simulated(), cedrat::registry()).expect("a new store");
    let mut open_ends = Vec::new();
    for (number, named) in COLLECTIONS.into_iter().enumerate() {
        let objects = open(&store, named).expect("room");
        let insert = |txn: &mut Txn| (0..30).map(|len| objects.insert(txn, &vec![7; 20 * len])).collect();
        let ids: Vec<ObjectId> = store.transact(insert).expect("room");
        let change = |txn: &mut Txn| {
            ids.iter().step_by(7).try_for_each(|&id| objects.remove(txn, id))?;
            // They move, because their records are too short.
            ids.iter().skip(1).step_by(7).try_for_each(|&id| objects.put(txn, id, &[8; 900]))
        };
        store.transact(change).expect("room");
        objects.flush_all(&store).expect("room");
        store.checkpoint().expect("room");
        let later = |txn: &mut Txn| {
            objects.put(txn, ids[2], b"short")?;
            objects.put(txn, ids[3], &[9; 1500])?;
            objects.remove(txn, ids[8])?;
            objects.insert(txn, b"later").map(drop)
        };
        store.transact(later).expect("room");
        let end_open = |id: ObjectId| {
            let mut txn = store.begin();
            objects.put(&mut txn, id, &[5; 40]).expect("room");
            objects.insert(&mut txn, b"open").expect("room");
            txn
        };
        drop(end_open(ids[4]).prepare(format!("branch {number}").as_bytes()).expect("room"));
        open_ends.push(end_open(ids[5]));
    }
    store.log().force(store.log().current_lsn()).expect("an honest disk");
    let image = disk.image();
    drop(open_ends);
    image
}

/// Opens, reads, changes, sweeps and checks all collections, changed behind their checksums. Returns the number of objects, or
/// the first error.
pub fn repaired_objects(sample: &Image, input: &[u8]) -> Result<u64, String> {
    let target = if input.first().is_some_and(|first| first & 3 == 0) { Target::Records } else { Target::Pages };
    let disk = repair::changed(sample, Some(target), input);
    let use_all = || -> cedrat::Result<u64> {
        let options = Options { create: false, ..Options::simulated() };
        let store = Store::open(Arc::new(disk), options, cedrat::registry())?;
        for branch in store.in_doubt().unwrap() {
            store.prepared(&branch.id)?.rollback()?;
        }
        // Each of these reads bytes that the others refuse.
        let used = COLLECTIONS.map(|named| open(&store, named).and_then(|objects| use_objects(&store, &objects)));
        used.into_iter().sum()
    };
    use_all().map_err(|error| error.to_string())
}

fn use_objects(store: &Store, objects: &Objects) -> cedrat::Result<u64> {
    let pages = objects.pages(store);
    for &page in pages.iter().flatten() {
        // Not all at once: of a page that is damaged the others say nothing.
        for id in objects.ids_of_page(store, page).into_iter().flatten() {
            let _ = objects.read_committed(store, id, <[u8]>::len);
            let _ = store.transact(|txn| objects.put(txn, id, &[6; 600]));
        }
    }
    let ids = store.transact(|txn| objects.ids(txn));
    for &id in ids.iter().flatten() {
        let _ = store.transact(|txn| objects.read(txn, id, <[u8]>::len));
        let _ = objects.flush(store, id);
    }
    let insert = |txn: &mut Txn| (0..20).try_for_each(|len| objects.insert(txn, &vec![4; 100 * len]).map(drop));
    let inserted = store.transact(insert);
    let removed = store.transact(|txn| ids.iter().flatten().step_by(3).try_for_each(|&id| objects.remove(txn, id)));
    let swept = objects.sweep(store);
    let txn = store.begin();
    let checked = objects.check(&txn)?;
    txn.rollback()?;
    store.checkpoint()?;
    pages?;
    inserted.and(removed)?;
    swept?;
    match checked.problems.first() {
        Some(problem) => Err(cedrat::Error::Refused(cedrat::txn::Refused::new(problem.clone()))),
        None => Ok(ids?.len() as u64),
    }
}
