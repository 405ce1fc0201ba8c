//! A pool of strings: contiguous bytes, with an offset for each string.

use cedrat_check::{self as check, Outcome, Run};
use cedrat_pages::{BODY_LEN, Damaged, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{Operation, Refused, Registry, Undo};
use serde::{Deserialize, Serialize};

use crate::support::{Plot, State, Structure, Tested, at, bugs, get, no_check, pages, peek, put, tried};

bugs![
    "adding has no undo" => Model,
    "undo forgets the bytes" => UndoRestores,
    "undo cuts one byte less" => UndoRestores,
    "a string that does not fit is accepted" => UndoRestores,
    "redo depends on the time" => Deterministic,
    "undo forgets the number of strings" => UndoRestores,
    "an offset is cut to a byte" => Model,
];

/// Largest number of strings. Word 0: number of strings. Word 1: bytes. Words 2 to 33: end of each string. Bytes from word 40
/// on.
const STRINGS_MAX: i64 = 32;
const BYTES_AT: usize = 40 * 8;

#[derive(Debug, Serialize, Deserialize)]
struct Put(Vec<u8>);

#[derive(Debug, Serialize, Deserialize)]
struct Cut {
    len: usize,
}

fn counts(page: &PageRef<'_>) -> Result<(usize, usize), Damaged> {
    let (strings, bytes) = (get(page, 0)?, get(page, 1)?);
    let fits = (0..=STRINGS_MAX).contains(&strings) && (0..=(BODY_LEN - BYTES_AT) as i64).contains(&bytes);
    if fits { Ok((strings as usize, bytes as usize)) } else { Err(Damaged::in_body(page.id(), 0, "no string pool")) }
}

impl Operation for Put {
    const NAME: &'static str = "strings.put";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        let (strings, bytes) = counts(page)?;
        let fits = strings < STRINGS_MAX as usize && BYTES_AT + bytes + self.0.len() <= BODY_LEN;
        if !fits && !planted(4) {
            return Err(Refused::new("the pool is full"));
        }
        let len = if planted(3) { self.0.len().saturating_sub(1) } else { self.0.len() };
        Ok(if planted(1) { Undo::none() } else { Undo::op(Cut { len }) })
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        let (strings, bytes) = counts(&page.page_ref())?;
        let mut string = self.0.clone();
        if planted(5) {
            let now =
                std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.as_nanos());
            string.iter_mut().take(1).for_each(|byte| *byte = (now / 64) as u8);
        }
        page.put(BYTES_AT + bytes, &string)?;
        let end = bytes + string.len();
        put(page, 2 + strings, if planted(7) { i64::from(end as u8) } else { end as i64 })?;
        put(page, 0, strings as i64 + 1)?;
        put(page, 1, end as i64)
    }
}

impl Operation for Cut {
    const NAME: &'static str = "strings.cut";

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Err(Refused::new("this is only for undo"))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        let (strings, bytes) = counts(&page.page_ref())?;
        let (Some(last), Some(rest)) = (strings.checked_sub(1), bytes.checked_sub(self.len)) else {
            return Err(Damaged::in_body(page.id(), 0, "nothing to cut"));
        };
        if !planted(2) {
            page.fill(BYTES_AT + rest..BYTES_AT + bytes, 0)?;
        }
        put(page, 2 + last, 0)?;
        if !planted(6) {
            put(page, 0, last as i64)?;
        }
        put(page, 1, rest as i64)
    }
}

fn registry() -> Registry {
    Registry::new().operation::<Put>().operation::<Cut>()
}

fn operations() -> Tested {
    let check = check::operation::<Put>(|chance, _| {
        let len = chance.index(300);
        (Put(chance.bytes(len)), Slot(0))
    });
    let filled = check.pages(|chance, page| {
        let (strings, len) = (chance.below(STRINGS_MAX as u64) as i64, chance.below(100) as i64);
        put(page, 0, strings).expect("inside");
        put(page, 1, strings * len).expect("inside");
        (0..strings).for_each(|i| put(page, 2 + i as usize, (i + 1) * len).expect("inside"));
        let bytes = chance.bytes((strings * len) as usize);
        page.put(BYTES_AT, &bytes).expect("inside");
        let _ = peek(page, 0);
    });
    tried(filled.registry(registry()))
}

fn string(round: u64) -> Vec<u8> {
    vec![b'a' + (round % 26) as u8; 20 + round as usize]
}

fn run(run: &Run<Plot>, roots: &[PageId]) -> Outcome {
    let pool = at(roots[0], 0);
    for round in 0..12_u64 {
        if run.model().len() as i64 > STRINGS_MAX - 4 {
            break;
        }
        run.transact(|txn| {
            txn.update_latched(pool, &Put(string(round)))?;
            txn.update_latched(pool, &Put(vec![1, 2, round as u8]))?;
            Ok(move |state: &mut State| {
                state.push(string(round).into_iter().map(i64::from).collect());
                state.push(vec![1, 2, round as i64]);
            })
        })?;
        run.roll_back(|txn| {
            txn.update_latched(pool, &Put(vec![9; 50]))?;
            Ok(txn.update_latched(pool, &Put(vec![8; 5]))?)
        })?;
    }
    Ok(())
}

fn read(store: &cedrat_txn::Store, roots: &[PageId]) -> Outcome<State> {
    let page = store.read(roots[0])?;
    let (strings, _) = counts(&page)?;
    let mut begin = 0;
    let mut state = Vec::new();
    for number in 0..strings {
        let end = get(&page, 2 + number)?.max(begin);
        let bytes = page.slice(BYTES_AT + begin as usize..BYTES_AT + end as usize)?;
        state.push(bytes.iter().copied().map(i64::from).collect());
        begin = end;
    }
    Ok(state)
}

pub(crate) const STRUCTURE: Structure = Structure {
    name: "strings",
    bugs: BUGS,
    plant: &PLANT,
    operations,
    plot: Plot { registry, set_up: |store| pages(store, 1), run, read, check: no_check },
};
