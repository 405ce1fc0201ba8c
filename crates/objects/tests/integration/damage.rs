//! Pages with valid checksums and invalid bytes: an error that names file and byte, never a wrong object.
#![cfg(not(cedrat_shuttle))]

use cedrat_media::{Damage, Media, SimDisk};
use cedrat_objects::{ObjectId, Options, UndoPolicy};
use cedrat_pages::layout::Versioned;
use cedrat_pages::{PAGE_FILE, PAGE_LEN, PageId, Slot, WriteBack};
use cedrat_sync::Arc;
use cedrat_txn::{Error, RecordId, SetRange, VersionedUpdate};
use cedrat_wal::Lsn;

use crate::common::{Add, Place, Subtract, is_absent, place, place_with};

/// Returns the record of an object in its page.
fn record(place: &Place, id: ObjectId) -> Vec<u8> {
    let page = place.store.read(id.page).unwrap();
    Versioned::of(&page).unwrap().get(id.slot).unwrap().unwrap().to_vec()
}

fn put(place: &Place, at: RecordId, record: &[u8]) {
    place.store.transact(|txn| txn.update(at, &VersionedUpdate { record: record.into() })).unwrap();
}

/// Asserts that the error names the page file and a byte in this page.
#[track_caller]
fn names_the_place(error: &Error, page: PageId) -> u64 {
    let words = error.to_string();
    let byte = words.strip_prefix("pages, byte ").unwrap_or_else(|| panic!("names no file: {words}"));
    let byte: u64 = byte.split(':').next().unwrap().parse().unwrap();
    let first = page.get() * PAGE_LEN as u64;
    assert!((first..first + PAGE_LEN as u64).contains(&byte), "{words}");
    byte - first
}

#[test]
fn invalid_header_names_file_and_byte() {
    let place = place(UndoPolicy::CommittedOnly);
    let id = place.insert(b"object");
    let other = place.insert(b"other");
    let right = record(&place, id);
    let mut bytes = Vec::new();
    for (offset, value) in [(0, 8_u8), (0, 6), (0, 2), (1, 1), (2, 200), (3, 1)] {
        let mut wrong = right.clone();
        wrong[4..14].fill(0); // where a forward leads: nowhere
        wrong[offset] = value;
        put(&place, id, &wrong);
        for _ in 0..2 {
            let error = place.objects.read(&mut place.store.begin(), id, |_| ()).unwrap_err();
            bytes.push(names_the_place(&error, id.page));
            let error = place.objects.put(&mut place.store.begin(), id, b"new").unwrap_err();
            names_the_place(&error, id.page);
        }
        let error = place.objects.ids(&mut place.store.begin()).unwrap_err();
        names_the_place(&error, id.page);
        let checked = place.objects.check(&place.store.begin()).unwrap();
        assert!(checked.problems.iter().any(|problem| problem.contains("pages, byte")), "{:?}", checked.problems);
        assert_eq!(place.get(other), Some(b"other".to_vec()), "others are well");
        put(&place, id, &right);
        assert_eq!(place.get(id), Some(b"object".to_vec()));
        place.objects.evict(&place.store, id).unwrap();
    }
    // State, state, a place behind the header, the byte that must be zero, and the length.
    let first = bytes[0];
    let offsets: Vec<u64> = bytes.iter().map(|byte| byte - first).collect();
    assert_eq!(offsets, [0, 0, 0, 0, 4, 4, 1, 1, 2, 2, 2, 2]);
}

#[test]
fn missing_moved_object_is_reported() {
    let place = place(UndoPolicy::CommittedOnly);
    let (id, other) = (place.insert(b"object"), place.insert(b"other"));
    let mut wrong = record(&place, id);
    wrong[0] = 2;
    for to in [(other.page.get(), other.slot.0), (other.page.get(), 99), (u64::MAX, 1), (1, 1)] {
        wrong[4..12].copy_from_slice(&to.0.to_le_bytes());
        wrong[12..14].copy_from_slice(&to.1.to_le_bytes());
        put(&place, id, &wrong);
        let error = place.objects.read(&mut place.store.begin(), id, |_| ()).unwrap_err();
        names_the_place(&error, id.page);
        let checked = place.objects.check(&place.store.begin()).unwrap();
        assert!(checked.problems.iter().any(|problem| problem.contains("where it moved")), "{:?}", checked.problems);
        place.objects.evict(&place.store, id).unwrap();
    }
}

#[test]
fn page_without_collection_is_reported() {
    let place = place(UndoPolicy::CommittedOnly);
    let id = place.insert(b"object");
    let link = RecordId::new(id.page, Slot(0));
    let right = record(&place, link);
    let cycle = [&id.page.get().to_le_bytes()[..], &right[8..]].concat();
    let stranger = [&right[..8], &77_u64.to_le_bytes()].concat();
    for (wrong, words) in [(&cycle, "cycle"), (&stranger, "another collection")] {
        put(&place, link, wrong);
        let error = place.objects.ids(&mut place.store.begin()).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        names_the_place(&error, id.page);
    }
    assert!(is_absent(&place.objects.read(&mut place.store.begin(), id, |_| ()).unwrap_err()), "it is a stranger's");
    put(&place, link, &right);
    let root = place.objects.root();
    let ends = SetRange { offset: 0, bytes: root.get().to_le_bytes()[..].into() };
    place.store.transact(|txn| txn.update(RecordId::page(root), &ends)).unwrap();
    let error = place.objects.ids(&mut place.store.begin()).unwrap_err();
    names_the_place(&error, root);
}

/// Writes the page home, evicts it by allocations, and damages it there.
fn evict_and_damage(place: &Place, page: PageId) {
    let pool = place.store.pool();
    pool.write_back(WriteBack::Below(Lsn::MAX)).unwrap();
    while pool.is_resident(page) {
        let others = place.store.pages_in_use().unwrap();
        others.iter().filter(|&&other| other != page).for_each(|&other| drop(place.store.read(other).unwrap()));
    }
    place.disk.corrupt(PAGE_FILE, page.get() * PAGE_LEN as u64 + 2000, Damage::Flip { bit: 3 }).unwrap();
}

/// E19.9: the bytes of the object have left the cache with a change that is taken back then. Its page is rebuilt with the
/// inverse, which was archived.
#[test]
fn undo_in_rebuilt_page_is_not_repeated() {
    for is_flushed in [false, true] {
        let archive: Arc<dyn Media> = Arc::new(SimDisk::new());
        let mut of_store = cedrat_txn::Options { archive: Some(archive), ..cedrat_txn::Options::simulated() };
        of_store.pool_bytes = 64 << 10;
        let place = place_with(Options { undo: UndoPolicy::Inverses, ..Options::default() }, of_store);
        let id = place.insert(&[0; 16]);
        for _ in 0..300 {
            place.insert(&[1; 900]);
        }
        let mut txn = place.begin();
        let (add, subtract) = (Add { amount: 5 }, Subtract { amount: 5 });
        place.objects.update_with(&mut txn, id, add, subtract).unwrap();
        place.objects.evict(&place.store, id).unwrap();
        evict_and_damage(&place, id.page);
        txn.rollback().unwrap();
        place.store.log().force(place.store.log().current_lsn()).unwrap();
        if is_flushed {
            place.objects.flush(&place.store, id).unwrap();
        }
        assert_eq!(place.get(id), Some(vec![0; 16]), "E19.9");
        assert_eq!(place.store.pool().stats().pages_rebuilt, 1, "the page was damaged");
        place.objects.flush_all(&place.store).unwrap();
        assert_eq!(place.crashed().get(id), Some(vec![0; 16]), "E19.9");
    }
}
