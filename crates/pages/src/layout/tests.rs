//! The layouts with a directory against a simple model, and every layout against random bytes.

use std::collections::BTreeMap;

use cedrat_wal::Lsn;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::page::{PAGE_LEN, PageId, Slot};
use crate::view::PageBuf;

#[derive(Clone, Debug)]
enum Step {
    Insert(u16, Vec<u8>),
    InsertVacant(Vec<u8>),
    Update(u16, Vec<u8>),
    Put(u16, usize, Vec<u8>),
    Delete(u16),
    Compact,
    /// For versioned pages only.
    Forget(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let slot = 0..40u16;
    let record = prop_oneof![4 => vec(any::<u8>(), 0..60), 1 => vec(any::<u8>(), 300..1500)];
    prop_oneof![
        2 => (slot.clone(), record.clone()).prop_map(|(slot, record)| Step::Insert(slot, record)),
        4 => record.clone().prop_map(Step::InsertVacant),
        3 => (slot.clone(), record).prop_map(|(slot, record)| Step::Update(slot, record)),
        1 => (slot.clone(), 0..50usize, vec(any::<u8>(), 0..30)).prop_map(|(s, o, b)| Step::Put(s, o, b)),
        3 => slot.clone().prop_map(Step::Delete),
        1 => Just(Step::Compact),
        2 => slot.prop_map(Step::Forget),
    ]
}

/// A page with its expected content.
struct Modelled {
    page: PageBuf,
    records: BTreeMap<u16, Vec<u8>>,
    versions: BTreeMap<u16, Lsn>,
    gone: u16,
}

impl Modelled {
    fn new(format: impl FnOnce(&mut crate::PageMut<'_>)) -> Modelled {
        let mut page = PageBuf::new(PageId::new(1));
        page.change(Lsn::new(1), format);
        Modelled { page, records: BTreeMap::new(), versions: BTreeMap::new(), gone: 0 }
    }

    /// Whether the step must succeed, by the model and by the space that the page reports.
    fn takes(&self, step: &Step, room: impl Fn(u16) -> Option<usize>) -> bool {
        match step {
            Step::Insert(slot, record) => {
                !self.records.contains_key(slot) && room(*slot).is_some_and(|room| record.len() <= room)
            }
            Step::Update(slot, record) => {
                self.records.contains_key(slot) && room(*slot).is_some_and(|room| record.len() <= room)
            }
            Step::Put(slot, offset, bytes) => {
                self.records.get(slot).is_some_and(|record| offset + bytes.len() <= record.len())
            }
            Step::Delete(slot) => self.records.contains_key(slot),
            Step::Compact => true,
            Step::Forget(gone) => match self.records.range(1..).next() {
                // There may be no slot at all, if no record was ever inserted.
                None => !self.versions.is_empty(),
                Some((&first, _)) => self.gone <= *gone && *gone < first,
            },
            Step::InsertVacant(_) => unreachable!("made an insert before"),
        }
    }

    fn apply(&mut self, step: &Step, version: Lsn) {
        match step.clone() {
            Step::Insert(slot, record) | Step::Update(slot, record) => {
                self.records.insert(slot, record);
                self.versions.insert(slot, version);
            }
            Step::Put(slot, offset, bytes) => {
                self.records.get_mut(&slot).unwrap()[offset..offset + bytes.len()].copy_from_slice(&bytes);
                self.versions.insert(slot, version);
            }
            Step::Delete(slot) => {
                self.records.remove(&slot);
                self.versions.insert(slot, version);
            }
            Step::Compact => {}
            Step::Forget(gone) => {
                let is_empty = self.records.range(1..).next().is_none();
                self.versions.retain(|&slot, _| slot == 0 || slot > gone && !is_empty);
                self.versions.entry(0).or_insert(Lsn::ZERO); // slot 0 exists, and stays
                self.gone = gone;
            }
            Step::InsertVacant(_) => unreachable!("made an insert before"),
        }
    }
}

/// Returns the step with the slot that the page suggests for an insertion.
fn resolved(step: Step, vacant: Option<Slot>) -> Option<Step> {
    match step {
        Step::InsertVacant(record) => vacant.map(|slot| Step::Insert(slot.0, record)),
        step => Some(step),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn slotted_page_behaves_like_a_map(steps in vec(step(), 1..120)) {
        let mut model = Modelled::new(|page| {
            SlottedMut::format(page);
        });
        let mut redone = model.page.clone();
        for (number, step) in steps.into_iter().filter(|step| !matches!(step, Step::Forget(_))).enumerate() {
            let lsn = Lsn::new(number as u64 + 2);
            let (takes, step) = {
                let page = model.page.page_ref();
                let slotted = Slotted::of(&page).unwrap();
                let Some(step) = resolved(step, slotted.vacant().unwrap()) else { continue };
                (model.takes(&step, |slot| slotted.room(Slot(slot)).unwrap()), step)
            };
            let before = model.page.clone();
            let redo = |page: &mut crate::PageMut<'_>| {
                let mut slotted = SlottedMut::of(page)?;
                match &step {
                    Step::Insert(slot, record) => slotted.insert(Slot(*slot), record),
                    Step::Update(slot, record) => slotted.update(Slot(*slot), record),
                    Step::Put(slot, offset, bytes) => slotted.put(Slot(*slot), *offset, bytes),
                    Step::Delete(slot) => slotted.delete(Slot(*slot)),
                    Step::Compact => slotted.compact(),
                    Step::InsertVacant(_) | Step::Forget(_) => unreachable!(),
                }
            };
            let done = model.page.change(lsn, redo);
            prop_assert_eq!(done.is_ok(), takes, "{:?}: {:?}", &step, done);
            if !takes {
                prop_assert!(model.page.page_ref().body() == before.page_ref().body(), "refused, so unchanged");
                model.page = before;
                continue;
            }
            redone.change(lsn, redo).unwrap();
            prop_assert!(redone.page_ref().bytes() == model.page.page_ref().bytes(), "redo is deterministic");
            model.apply(&step, lsn);
            let page = model.page.page_ref();
            let slotted = Slotted::of(&page).unwrap();
            slotted.check().unwrap();
            let seen: BTreeMap<u16, Vec<u8>> =
                slotted.iter().map(|record| record.unwrap()).map(|(slot, r)| (slot.0, r.to_vec())).collect();
            prop_assert_eq!(&seen, &model.records);
            let last = model.records.keys().next_back().map_or(0, |slot| slot + 1);
            prop_assert_eq!(slotted.slots(), last, "no vacant slots at the end");
        }
    }

    /// E19.1; and the numbers of dropped slots are not reused.
    #[test]
    fn versions_outlive_their_records(steps in vec(step(), 1..120)) {
        let mut model = Modelled::new(|page| {
            VersionedMut::format(page);
        });
        for (number, step) in steps.into_iter().enumerate() {
            let lsn = Lsn::new(number as u64 + 2);
            let (takes, step) = {
                let page = model.page.page_ref();
                let versioned = Versioned::of(&page).unwrap();
                let Some(step) = resolved(step, versioned.vacant().unwrap()) else { continue };
                let takes = model.takes(&step, |slot| versioned.room(Slot(slot)).unwrap());
                if let Step::Forget(gone) = &step {
                    prop_assert_eq!(versioned.may_forget(*gone).unwrap(), takes);
                }
                (takes, step)
            };
            if !takes {
                continue;
            }
            model.page.change(lsn, |page| {
                let mut versioned = VersionedMut::of(page)?;
                match &step {
                    Step::Insert(slot, record) => versioned.insert(Slot(*slot), lsn, record),
                    Step::Update(slot, record) => versioned.update(Slot(*slot), lsn, record),
                    Step::Put(slot, offset, bytes) => versioned.put(Slot(*slot), lsn, *offset, bytes),
                    Step::Delete(slot) => versioned.delete(Slot(*slot), lsn),
                    Step::Compact => versioned.compact(),
                    Step::Forget(gone) => versioned.forget(*gone),
                    Step::InsertVacant(_) => unreachable!(),
                }
            }).unwrap();
            model.apply(&step, lsn);
            let page = model.page.page_ref();
            let versioned = Versioned::of(&page).unwrap();
            versioned.check().unwrap();
            prop_assert_eq!(versioned.gone(), model.gone);
            prop_assert!((1..=model.gone).all(|slot| versioned.room(Slot(slot)).unwrap().is_none()));
            prop_assert!(versioned.numbers().all(|slot| slot.0 == 0 || model.gone < slot.0 && slot.0 < versioned.slots()));
            for slot in 0..45 {
                let version = model.versions.get(&slot).copied().unwrap_or(Lsn::ZERO);
                prop_assert_eq!(versioned.version(Slot(slot)).unwrap(), version);
                let record = model.records.get(&slot).map(Vec::as_slice);
                prop_assert_eq!(versioned.get(Slot(slot)).unwrap(), record);
            }
        }
    }

    /// Neither panic nor endless loop, whatever the bytes.
    #[test]
    fn garbage_is_answered_with_damage_at_worst(
        kind in 0..6u16,
        word in prop_oneof![any::<u64>(),
            (0..400u64, 0..5000u64, 0..5000u64, prop_oneof![0..3u64, 65_000..65_536u64])
                .prop_map(|(a, b, c, d)| a | b << 16 | c << 32 | d << 48)],
        noise in vec(any::<u8>(), PAGE_LEN),
        slots in vec(any::<u16>(), 8),
        record in vec(any::<u8>(), 0..5000),
    ) {
        let mut page = PageBuf::from_bytes(PageId::new(3), &noise.try_into().unwrap());
        let bytes = page.page_ref().bytes().to_owned();
        page.change(Lsn::new(1), |page| {
            page.format(LayoutKind(kind));
            page.set_layout_word(word);
            page.put(0, &bytes[32..]).unwrap();
        });
        let layouts = Layouts::default();
        {
            let seen = page.page_ref();
            let _ = layouts.check(&seen);
            for layout in layouts.iter() {
                let mut total = 0;
                let _ = layout.records(&seen, &mut |_, record| total += record.len());
            }
        }
        for slot in slots.iter().map(|&slot| Slot(slot % 700)) {
            page.change(Lsn::new(2), |page| {
                if let Ok(mut fixed) = FixedMut::of(page) {
                    let _ = (fixed.set(slot, &record), fixed.edit(slot, |r| r.len()), fixed.set_count(slot.0));
                }
                if let Ok(mut slotted) = SlottedMut::of(page) {
                    let _ = (slotted.insert(slot, &record), slotted.update(slot, &record[record.len() / 2..]));
                    let _ = (slotted.put(slot, record.len(), &record), slotted.compact(), slotted.delete(slot));
                }
                if let Ok(mut versioned) = VersionedMut::of(page) {
                    let _ = (versioned.insert(slot, Lsn::MAX, &record), versioned.update(slot, Lsn::ZERO, &record));
                    let _ = (versioned.compact(), versioned.delete(slot, Lsn::MAX), versioned.withdraw(slot, 0));
                    let _ = (versioned.forget(slot.0), versioned.forget(u16::MAX - slot.0));
                }
                if let Ok(mut raw) = RawMut::of(page) {
                    let _ = raw.put(usize::from(slot.0) * 7, &record);
                }
            });
            let seen = page.page_ref();
            if let Ok(slotted) = Slotted::of(&seen) {
                let _ = (slotted.get(slot), slotted.room(slot), slotted.vacant());
            }
            if let Ok(versioned) = Versioned::of(&seen) {
                let _ = (versioned.get(slot), versioned.version(slot), versioned.vacant());
            }
        }
    }
}

#[test]
fn longest_record_fits_one_more_does_not() {
    let mut page = PageBuf::new(PageId::new(1));
    page.change(Lsn::new(1), |page| {
        let mut slotted = SlottedMut::format(page);
        assert!(slotted.insert(Slot(0), &[7; Slotted::RECORD_LEN_MAX + 1]).is_err());
        slotted.insert(Slot(0), &[7; Slotted::RECORD_LEN_MAX]).unwrap();
        assert!(slotted.insert(Slot(1), &[]).is_err());
    });
    assert_eq!(Slotted::of(&page.page_ref()).unwrap().vacant(), Ok(None));
    page.change(Lsn::new(2), |page| {
        VersionedMut::format(page).insert(Slot(0), Lsn::new(9), &[7; Versioned::RECORD_LEN_MAX])
    })
    .unwrap();
}

/// Slot numbers are limited, and never used twice before the limit.
#[test]
fn last_slots_are_usable_until_forgotten() {
    let mut page = PageBuf::new(PageId::new(1));
    let mut change = |work: &dyn Fn(&mut VersionedMut<'_, '_>) -> Result<(), Damaged>| {
        page.change(Lsn::new(1), |page| work(&mut VersionedMut::of(page)?))
    };
    assert!(change(&|page| page.forget(1)).is_err(), "of another layout");
    let mut page = PageBuf::new(PageId::new(1));
    page.change(Lsn::new(1), |page| VersionedMut::format(page).insert(Slot(0), Lsn::new(1), b"stays")).unwrap();
    let mut change = |work: &dyn Fn(&mut VersionedMut<'_, '_>) -> Result<(), Damaged>| {
        page.change(Lsn::new(1), |page| work(&mut VersionedMut::of(page)?))
    };
    change(&|page| page.forget(u16::MAX - 3)).unwrap();
    change(&|page| page.insert(Slot(u16::MAX - 1), Lsn::new(2), b"last")).unwrap();
    assert!(change(&|page| page.insert(Slot(u16::MAX), Lsn::new(2), b"none")).is_err());
    assert!(change(&|page| page.insert(Slot(u16::MAX - 3), Lsn::new(2), b"gone")).is_err());
    assert!(change(&|page| page.forget(u16::MAX - 1)).is_err(), "it has a record");
    change(&|page| page.forget(u16::MAX - 2)).unwrap();
    change(&|page| page.delete(Slot(u16::MAX - 1), Lsn::new(3))).unwrap();
    change(&|page| page.forget(u16::MAX - 1)).unwrap();
    let seen = page.page_ref();
    let versioned = Versioned::of(&seen).unwrap();
    assert_eq!((versioned.vacant().unwrap(), versioned.slots()), (None, u16::MAX));
    assert_eq!(versioned.get(Slot(0)).unwrap(), Some(&b"stays"[..]));
    assert_eq!(versioned.version(Slot(u16::MAX - 1)).unwrap(), Lsn::ZERO);
}

#[test]
fn far_slot_makes_slots_before_vacant() {
    let mut page = PageBuf::new(PageId::new(1));
    page.change(Lsn::new(1), |page| SlottedMut::format(page).insert(Slot(9), b"nine")).unwrap();
    let page = page.page_ref();
    let slotted = Slotted::of(&page).unwrap();
    assert_eq!(slotted.slots(), 10);
    assert_eq!(slotted.vacant(), Ok(Some(Slot(0))));
    assert_eq!(slotted.get(Slot(9)), Ok(Some(&b"nine"[..])));
    assert_eq!(slotted.get(Slot(3)), Ok(None));
}

struct Shopping;

impl Layout for Shopping {
    fn kind(&self) -> LayoutKind {
        LayoutKind::USER_FIRST
    }
    fn name(&self) -> &str {
        "shopping"
    }
    fn check(&self, page: &crate::PageRef<'_>) -> Result<(), crate::Damaged> {
        page.u16_at(0).map(drop)
    }
    fn records(&self, _: &crate::PageRef<'_>, _: &mut dyn FnMut(Slot, &[u8])) -> Result<(), crate::Damaged> {
        Ok(())
    }
}

#[test]
fn user_layout_is_registered_only_once() {
    let mut layouts = Layouts::default();
    layouts.register(cedrat_sync::Arc::new(Shopping)).unwrap();
    let refusal = layouts.register(cedrat_sync::Arc::new(Shopping)).unwrap_err();
    assert_eq!(refusal.to_string(), "layout number 1024 is taken by \"shopping\", so \"shopping\" needs another");
    let mut page = PageBuf::new(PageId::new(1));
    page.change(Lsn::new(1), |page| page.format(LayoutKind::USER_FIRST));
    layouts.check(&page.page_ref()).unwrap();
    page.change(Lsn::new(2), |page| page.format(LayoutKind(1025)));
    assert!(layouts.check(&page.page_ref()).is_err(), "this layout is unknown");
}
