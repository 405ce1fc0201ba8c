//! Records of 24 bytes in slots, overwritten as a whole.

use cedrat_check::{self as check, Outcome, Run};
use cedrat_pages::{Damaged, LayoutKind, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{Operation, Refused, Registry, Undo};
use serde::{Deserialize, Serialize};

use crate::support::{Plot, State, Structure, Tested, at, bugs, no_check, pages, put, slot, tried, words};

bugs![
    "a write has no undo" => Model,
    "the before-image is too short" => UndoRestores,
    "the before-image begins too late" => UndoRestores,
    "records that are too long are written over the next one" => UndoRestores,
    "the before-image is that of the next slot" => UndoRestores,
    "slots behind the page are accepted" => RefusesInPrepare,
    "a short record leaves the old one's rest, undo does not" => UndoRestores,
    "an operation that formats leaves bytes of the old page" => Formats,
    "undo writes what was written" => UndoRestores,
];

const LEN: usize = 24;

#[derive(Debug, Serialize, Deserialize)]
struct Write(Vec<u8>);

impl Operation for Write {
    const NAME: &'static str = "records.write";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        if self.0.len() > LEN && !planted(4) {
            return Err(Refused::new("the record is too long"));
        }
        let from = usize::from(at.0) * LEN;
        if planted(6) {
            return Ok(Undo::before_image(page, from, LEN).unwrap_or_else(|_| Undo::none()));
        }
        if planted(9) {
            return Ok(Undo::op(Write(self.0.clone())));
        }
        if planted(1) {
            page.slice(from..from + LEN)?;
            return Ok(Undo::none());
        }
        match () {
            () if planted(2) => Undo::before_image(page, from, LEN - 1),
            () if planted(3) => Undo::before_image(page, from + 1, LEN),
            () if planted(5) => Undo::before_image(page, from + LEN, LEN),
            () if planted(7) => Undo::before_image(page, from, self.0.len().saturating_sub(1).max(1)),
            () => Undo::before_image(page, from, LEN),
        }
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        let from = usize::from(at.0) * LEN;
        let mut bytes = self.0.clone();
        if !planted(7) {
            bytes.resize(bytes.len().max(LEN), 0);
        }
        page.put(from, &bytes)
    }
}

/// Formats a page with empty records, whatever it was.
#[derive(Debug, Serialize, Deserialize)]
struct Clear;

impl Operation for Clear {
    const NAME: &'static str = "records.clear";
    const FORMATS: bool = true;

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Ok(Undo::none())
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        if planted(8) {
            return (0..100).try_for_each(|word| put(page, word, 0));
        }
        page.format(LayoutKind::RAW);
        Ok(())
    }
}

fn operations() -> Tested {
    let write = check::operation::<Write>(|chance, _| {
        let len = chance.index(LEN + 3);
        (Write(chance.bytes(len)), slot(chance, 168))
    });
    let noise = |chance: &mut check::Rng, page: &mut PageMut<'_>| {
        (0..500).for_each(|word| put(page, word, chance.next_u64() as i64).expect("inside"));
    };
    tried(write.pages(noise))?;
    tried(check::operation::<Clear>(|_, _| (Clear, Slot(0))).pages(noise))
}

fn record(seed: u64) -> [i64; 3] {
    [seed as i64, (seed * 3) as i64, -(seed as i64)]
}

fn bytes(record: [i64; 3]) -> Vec<u8> {
    record.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn run(run: &Run<Plot>, roots: &[PageId]) -> Outcome {
    for round in 1..12_u64 {
        let page = roots[round as usize % 2];
        run.transact(|txn| {
            txn.update_latched(at(page, (round % 5) as usize), &Write(bytes(record(round))))?;
            txn.update_latched(at(page, ((round + 2) % 5) as usize), &Write(bytes(record(round + 100))))?;
            Ok(move |state: &mut State| {
                let page = &mut state[round as usize % 2];
                for (slot, seed) in [(round % 5, round), ((round + 2) % 5, round + 100)] {
                    page[slot as usize * 3..][..3].copy_from_slice(&record(seed));
                }
            })
        })?;
        run.roll_back(|txn| Ok(txn.update_latched(at(page, 1), &Write(vec![7; 20]))?))?;
        if round % 4 == 0 {
            run.transact(|txn| {
                // The formatted page is fresh: nothing of it must be restored.
                let own = txn.allocate()?;
                txn.update_latched(at(own, 0), &Clear)?;
                txn.update_latched(at(own, 1), &Write(vec![9; 9]))?;
                txn.free(own)?;
                Ok(|_: &mut State| ())
            })?;
        }
    }
    Ok(())
}

pub(crate) const STRUCTURE: Structure = Structure {
    name: "records",
    bugs: BUGS,
    plant: &PLANT,
    operations,
    plot: Plot {
        registry: || Registry::new().operation::<Write>().operation::<Clear>(),
        set_up: |store| pages(store, 2),
        run,
        read: |store, roots| Ok(vec![words(store, roots[0], 150)?, words(store, roots[1], 150)?]),
        check: no_check,
    },
};
