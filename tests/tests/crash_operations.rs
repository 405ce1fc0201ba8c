//! Every built-in operation by itself: ten thousand generated pages and arguments each.
#![forbid(unsafe_code)]
#![cfg(not(cedrat_shuttle))]

use cedrat::check::{self, OperationCheck, Rng, Tried};
use cedrat::pages::layout::{Fixed, FixedMut, Slotted, SlottedMut, Versioned, VersionedMut};
use cedrat::pages::{BODY_LEN, LayoutKind, PageMut, PageRef, Slot};
use cedrat::structures::Increment;
use cedrat::wal::Lsn;
use cedrat_structures::records::{DeleteRecord, InsertRecord, SetFixed, UpdateRecord};
use cedrat_txn::{
    FixedRestore, FixedSet, FixedSetCount, FormatFixed, FormatFresh, FormatPage, Operation, RestorePage, SetRange,
    SetSpace, SlottedDelete, SlottedInsert, SlottedUpdate, SmallBytes, VersionedDelete, VersionedInsert,
    VersionedUpdate,
};

/// Operations, including refused ones, and the pages that they were performed on.
#[track_caller]
fn passes<O: Operation>(check: OperationCheck<O>) -> Tried {
    let check = check.registry(cedrat::registry()).seed(check::seed(1));
    let tried = check.run().unwrap_or_else(|broken| panic!("{broken}"));
    assert!(tried.performed > 5_000, "{} was hardly tried: {tried:?}", O::NAME);
    println!(
        "{:<32} {:>6} performed {:>6} refused {:>6} on garbage",
        O::NAME,
        tried.performed,
        tried.refused,
        tried.garbage
    );
    tried
}

fn bytes(chance: &mut Rng, len_max: usize) -> SmallBytes {
    let len = chance.index(len_max + 1);
    chance.bytes(len)[..].into()
}

fn noise(chance: &mut Rng, page: &mut PageMut<'_>) {
    page.format(LayoutKind::RAW);
    let bytes = chance.bytes(BODY_LEN);
    page.put(0, &bytes).expect("it fits");
}

fn fixed(chance: &mut Rng, page: &mut PageMut<'_>) {
    let record_len = 8 + chance.below(100) as u16;
    let mut fixed = FixedMut::format(page, record_len).expect("a possible length");
    let count = chance.below(30) as u16;
    fixed.set_count(count).expect("it fits");
    for slot in 0..count {
        fixed.set(Slot(slot), &chance.bytes(record_len.into())).expect("it is there");
    }
}

fn slotted(chance: &mut Rng, page: &mut PageMut<'_>) {
    let mut slotted = SlottedMut::format(page);
    for slot in 0..chance.below(12) as u16 {
        let record = bytes(chance, 300);
        slotted.insert(Slot(slot), &record).expect("it fits");
    }
}

fn versioned(chance: &mut Rng, page: &mut PageMut<'_>) {
    let mut versioned = VersionedMut::format(page);
    for slot in 0..chance.below(12) as u16 {
        let record = bytes(chance, 300);
        versioned.insert(Slot(slot), Lsn::new(1), &record).expect("it fits");
    }
}

/// Returns whether the same slots of two pages contain the same records, wherever they lie.
fn same_slots(one: &PageRef<'_>, other: &PageRef<'_>) -> bool {
    let records = |page: &PageRef<'_>| -> Vec<Vec<u8>> {
        let page = Slotted::of(page).expect("a slotted page");
        let records: Vec<_> = page.iter().map(|record| record.expect("a whole page")).collect();
        records.iter().map(|(slot, record)| [&slot.0.to_le_bytes(), *record].concat()).collect()
    };
    records(one) == records(other)
}

/// Like `same_slots`; versions are not compared, since they increase in undo too (E19.1).
fn same_versioned_slots(one: &PageRef<'_>, other: &PageRef<'_>) -> bool {
    let records = |page: &PageRef<'_>| -> Vec<Vec<u8>> {
        let page = Versioned::of(page).expect("a versioned page");
        let slots = (0..page.slots()).map(Slot);
        let records = slots.filter_map(|slot| Some((slot, page.get(slot).expect("a whole page")?)));
        records.map(|(slot, record)| [&slot.0.to_le_bytes(), record].concat()).collect()
    };
    records(one) == records(other)
}

fn slot(chance: &mut Rng, below: u64) -> Slot {
    Slot(chance.below(below) as u16)
}

#[test]
fn increment_keeps_the_rules_in_random_cases() {
    passes(
        check::operation::<Increment>(|chance, _| (Increment { amount: chance.number() }, slot(chance, 32)))
            .pages(fixed),
    );
}

#[test]
fn ranges_keep_the_rules_in_random_cases() {
    let arguments = |chance: &mut Rng, _: &PageRef<'_>| {
        let offset = chance.below(BODY_LEN as u64 + 20) as u16;
        (SetRange { offset, bytes: bytes(chance, 200) }, Slot(0))
    };
    passes(check::operation::<SetRange>(arguments).pages(noise));
}

#[test]
fn formats_keep_the_rules_in_random_cases() {
    let format = |chance: &mut Rng, _: &PageRef<'_>| {
        (FormatPage { kind: chance.below(5) as u16, layout_word: chance.next_u64() }, Slot(0))
    };
    passes(check::operation::<FormatPage>(format).pages(noise));
    let restore = |chance: &mut Rng, _: &PageRef<'_>| {
        let body = bytes(chance, BODY_LEN + 10);
        (RestorePage { kind: chance.below(5) as u16, layout_word: chance.next_u64(), body }, Slot(0))
    };
    passes(check::operation::<RestorePage>(restore).pages(noise));
}

#[test]
fn fixed_records_follow_rules_in_random_cases() {
    passes(
        check::operation::<FixedSet>(|chance, _| (FixedSet { record: bytes(chance, 110) }, slot(chance, 32)))
            .pages(fixed),
    );
    passes(
        check::operation::<SetFixed>(|chance, _| (SetFixed { record: bytes(chance, 110) }, slot(chance, 32)))
            .pages(fixed),
    );
    // Records beyond the count have no meaning, so their bytes may differ.
    let same = |one: &PageRef<'_>, other: &PageRef<'_>| {
        let (one, other) = (Fixed::of(one).expect("fixed"), Fixed::of(other).expect("fixed"));
        one.count() == other.count() && one.iter().eq(other.iter())
    };
    let arguments = |chance: &mut Rng, _: &PageRef<'_>| (FixedSetCount { count: chance.below(60) as u16 }, Slot(0));
    passes(check::operation::<FixedSetCount>(arguments).pages(fixed).equal(same));
}

#[test]
fn slotted_records_follow_rules_in_random_cases() {
    let insert = |chance: &mut Rng, _: &PageRef<'_>| (SlottedInsert { record: bytes(chance, 900) }, slot(chance, 20));
    passes(check::operation::<SlottedInsert>(insert).pages(slotted).equal(same_slots));
    let update = |chance: &mut Rng, _: &PageRef<'_>| (SlottedUpdate { record: bytes(chance, 900) }, slot(chance, 12));
    passes(check::operation::<SlottedUpdate>(update).pages(slotted).equal(same_slots));
    let delete = |chance: &mut Rng, _: &PageRef<'_>| (SlottedDelete {}, slot(chance, 12));
    passes(check::operation::<SlottedDelete>(delete).pages(slotted).equal(same_slots));
}

#[test]
fn structure_records_follow_rules_in_random_cases() {
    let insert = |chance: &mut Rng, _: &PageRef<'_>| (InsertRecord { record: bytes(chance, 900) }, slot(chance, 20));
    passes(check::operation::<InsertRecord>(insert).pages(slotted).equal(same_slots));
    let update = |chance: &mut Rng, _: &PageRef<'_>| (UpdateRecord { record: bytes(chance, 900) }, slot(chance, 12));
    passes(check::operation::<UpdateRecord>(update).pages(slotted).equal(same_slots));
    let delete = |chance: &mut Rng, _: &PageRef<'_>| (DeleteRecord {}, slot(chance, 12));
    passes(check::operation::<DeleteRecord>(delete).pages(slotted).equal(same_slots));
}

/// E19.1, E19.2.
#[test]
fn versioned_records_follow_rules_in_random_cases() {
    let insert = |chance: &mut Rng, _: &PageRef<'_>| (VersionedInsert { record: bytes(chance, 900) }, slot(chance, 20));
    passes(check::operation::<VersionedInsert>(insert).pages(versioned).equal(same_versioned_slots));
    let update = |chance: &mut Rng, _: &PageRef<'_>| (VersionedUpdate { record: bytes(chance, 900) }, slot(chance, 12));
    passes(check::operation::<VersionedUpdate>(update).pages(versioned).equal(same_versioned_slots));
    let delete = |chance: &mut Rng, _: &PageRef<'_>| (VersionedDelete {}, slot(chance, 12));
    passes(check::operation::<VersionedDelete>(delete).pages(versioned).equal(same_versioned_slots));
}

/// Compares the encoding of an operation with that in the logs of existing stores.
#[track_caller]
fn keeps_encoding<O: Operation>(operation: O, bytes: &[u8]) {
    let check = check::operation::<O>(|_, _| -> (O, Slot) { unreachable!("no case is tried") });
    check.cases(0).encoded(operation, bytes).run().unwrap_or_else(|broken| panic!("{broken}"));
}

/// Numbers are one byte up to 127, and then seven bits a byte; bytes follow their number.
#[test]
fn built_in_operations_keep_their_encodings() {
    let record = || SmallBytes::from(&[1, 2, 3][..]);
    keeps_encoding(Increment { amount: 300 }, &[0xd8, 0x04]);
    keeps_encoding(Increment { amount: -1 }, &[0x01]);
    keeps_encoding(SetRange { offset: 300, bytes: record() }, &[0xac, 0x02, 3, 1, 2, 3]);
    keeps_encoding(FormatPage { kind: 3, layout_word: 300 }, &[3, 0xac, 0x02]);
    keeps_encoding(FormatFresh { kind: 3, layout_word: 300 }, &[3, 0xac, 0x02]);
    keeps_encoding(RestorePage { kind: 3, layout_word: 300, body: record() }, &[3, 0xac, 0x02, 3, 1, 2, 3]);
    keeps_encoding(FormatFixed { record_len: 300, count: 5 }, &[0xac, 0x02, 5]);
    keeps_encoding(FixedSetCount { count: 300 }, &[0xac, 0x02]);
    keeps_encoding(FixedRestore { count: 300, records: record() }, &[0xac, 0x02, 3, 1, 2, 3]);
    keeps_encoding(FixedSet { record: record() }, &[3, 1, 2, 3]);
    keeps_encoding(SetFixed { record: record() }, &[3, 1, 2, 3]);
    keeps_encoding(SlottedInsert { record: record() }, &[3, 1, 2, 3]);
    keeps_encoding(SlottedUpdate { record: record() }, &[3, 1, 2, 3]);
    keeps_encoding(SlottedDelete {}, &[]);
    keeps_encoding(InsertRecord { record: record() }, &[3, 1, 2, 3]);
    keeps_encoding(UpdateRecord { record: record() }, &[3, 1, 2, 3]);
    keeps_encoding(DeleteRecord {}, &[]);
    keeps_encoding(VersionedInsert { record: record() }, &[3, 1, 2, 3]);
    keeps_encoding(VersionedUpdate { record: record() }, &[3, 1, 2, 3]);
    keeps_encoding(VersionedDelete {}, &[]);
    keeps_encoding(SetSpace { first: 300, pages: 5, used: true }, &[0xac, 0x02, 5, 1]);
}
