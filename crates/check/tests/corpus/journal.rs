//! A journal of entries of any length, over as many pages as necessary.

use cedrat_check::{self as check, Outcome, Run};
use cedrat_pages::{BODY_LEN, Damaged, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{Operation, Refused, Registry, Result, Txn, Undo};
use serde::{Deserialize, Serialize};

use crate::support::{Plot, State, Structure, Tested, at, bugs, fresh, get, no_check, pages, peek, put, tried};

bugs![
    "an append has no undo" => Model,
    "undo of an append forgets the length" => UndoRestores,
    "an entry that does not fit is appended" => RefusesInPrepare,
    "the next page is linked before it is formatted and undo forgets the link" => Workload,
    "an append goes to the length that prepare saw last" => OnlyItsPage,
    "the length counts entries, not bytes, in undo" => UndoRestores,
    "an entry's header is cut to a byte" => Model,
    "redo keeps the end in a static" => UndoRestores,
    "a new page is taken for empty before it is formatted" => Workload,
];

/// Word 0: the next page. Word 1: bytes in use. Entries follow: a length of two bytes, and bytes.
const FIRST: usize = 16;

#[derive(Debug, Serialize, Deserialize)]
struct Append(Vec<u8>);

#[derive(Debug, Serialize, Deserialize)]
struct Truncate(i64);

#[derive(Debug, Serialize, Deserialize)]
struct Link(i64);

static SEEN: std::sync::atomic::AtomicI64 = std::sync::atomic::AtomicI64::new(0);

fn used(page: &PageRef<'_>) -> std::result::Result<usize, Damaged> {
    let used = get(page, 1)?;
    let fits = (0..=(BODY_LEN - FIRST) as i64).contains(&used);
    if fits { Ok(used as usize) } else { Err(Damaged::in_body(page.id(), 8, "a journal page has fewer bytes")) }
}

impl Operation for Append {
    const NAME: &'static str = "journal.append";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> std::result::Result<Undo, Refused> {
        let used = used(page)?;
        if FIRST + used + 2 + self.0.len() > BODY_LEN && !planted(3) {
            return Err(Refused::new("the page is full"));
        }
        if planted(5) {
            SEEN.store(used as i64, std::sync::atomic::Ordering::Relaxed);
        }
        Ok(match () {
            () if planted(1) => Undo::none(),
            () if planted(6) => Undo::op(Truncate(used as i64 - 1)),
            () => Undo::op(Truncate(used as i64)),
        })
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> std::result::Result<(), Damaged> {
        let mut at = used(&page.page_ref())?;
        if planted(5) {
            at = SEEN.load(std::sync::atomic::Ordering::Relaxed) as usize;
        }
        if planted(8) {
            at = (SEEN.fetch_max(at as i64, std::sync::atomic::Ordering::Relaxed) as usize).max(at) % 2_000;
        }
        let len = if planted(7) { (self.0.len() as u8).into() } else { self.0.len() as u16 };
        page.put_u16(FIRST + at, len)?;
        page.put(FIRST + at + 2, &self.0)?;
        put(page, 1, (at + 2 + self.0.len()) as i64)
    }
}

impl Operation for Truncate {
    const NAME: &'static str = "journal.truncate";

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> std::result::Result<Undo, Refused> {
        Err(Refused::new("this is only for undo"))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> std::result::Result<(), Damaged> {
        let now = used(&page.page_ref())?;
        let to = usize::try_from(self.0).unwrap_or(0).min(now);
        page.fill(FIRST + to..FIRST + now, 0)?;
        if planted(2) {
            return Ok(());
        }
        put(page, 1, to as i64)
    }
}

impl Operation for Link {
    const NAME: &'static str = "journal.link";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> std::result::Result<Undo, Refused> {
        let before = get(page, 0)?;
        Ok(if planted(4) { Undo::none() } else { Undo::op(Link(before)) })
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> std::result::Result<(), Damaged> {
        peek(page, 0)?;
        put(page, 0, self.0)
    }
}

fn append(txn: &mut Txn, root: PageId, entry: &[u8]) -> Result<()> {
    let mut page = root;
    for _ in 0..60 {
        let (next, used) = {
            let read = txn.read_latched(page)?;
            (get(&read, 0)?, used(&read)?)
        };
        if next != 0 {
            page = PageId::new(next as u64);
            continue;
        }
        if FIRST + used + 2 + entry.len() <= BODY_LEN || planted(3) && used < 3_000 {
            return txn.update_latched(at(page, 0), &Append(entry.to_vec()));
        }
        let new = if planted(9) { txn.allocate()? } else { fresh(txn)? };
        txn.update_latched(at(page, 0), &Link(new.get() as i64))?;
        page = new;
    }
    Err(cedrat_txn::Error::Misuse("the journal has no end"))
}

fn entry(round: i64) -> Vec<u8> {
    vec![round as u8; 300 + 101 * round as usize]
}

fn run(run: &Run<Plot>, roots: &[PageId]) -> Outcome {
    for round in 1..12_i64 {
        run.transact(|txn| {
            append(txn, roots[0], &entry(round))?;
            append(txn, roots[0], &[7; 9])?;
            Ok(move |state: &mut State| state.extend([vec![entry(round).len() as i64, round], vec![9, 7]]))
        })?;
        run.roll_back(|txn| {
            append(txn, roots[0], &[1; 900])?;
            append(txn, roots[0], &[2; 1_900])?;
            Ok(append(txn, roots[0], &[2; 1_900])?)
        })?;
    }
    Ok(())
}

fn registry() -> Registry {
    Registry::new().operation::<Append>().operation::<Truncate>().operation::<Link>()
}

fn operations() -> Tested {
    let check = check::operation::<Append>(|chance, _| {
        let len = chance.index(1_000);
        (Append(chance.bytes(len)), Slot(0))
    });
    let filled = check.pages(|chance, page| put(page, 1, chance.below(4_000) as i64).expect("inside"));
    tried(filled.registry(registry()))
}

fn read(store: &cedrat_txn::Store, roots: &[PageId]) -> Outcome<State> {
    let (mut state, mut page) = (State::new(), roots[0]);
    for _ in 0..50 {
        let read = store.read(page)?;
        let (used, mut at) = (used(&read)?, 0);
        while at < used {
            let len = usize::from(read.u16_at(FIRST + at)?);
            let first = read.slice(FIRST + at + 2..FIRST + at + 3)?[0];
            state.push(vec![len as i64, i64::from(first)]);
            at += 2 + len;
        }
        match get(&read, 0)? {
            0 => return Ok(state),
            next => page = PageId::new(next as u64),
        }
    }
    Err("the journal has no end".into())
}

pub(crate) const STRUCTURE: Structure = Structure {
    name: "journal",
    bugs: BUGS,
    plant: &PLANT,
    operations,
    plot: Plot { registry, set_up: |store| pages(store, 1), run, read, check: no_check },
};
