//! Pages with valid checksums and invalid bytes: an error that names file and byte, never a wrong object.
#![cfg(not(cedrat_shuttle))]

use cedrat_objects::{ObjectId, UndoPolicy};
use cedrat_pages::layout::Versioned;
use cedrat_pages::{PAGE_LEN, PageId, Slot};
use cedrat_txn::{Error, RecordId, SetRange, VersionedUpdate};

use crate::common::{Place, is_absent, place};

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
