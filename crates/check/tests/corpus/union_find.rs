//! Sets that are joined: each element has a parent, each root a size.

use cedrat_check::{self as check, Outcome, Run};
use cedrat_pages::{Damaged, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{Operation, Refused, Registry, Undo};
use serde::{Deserialize, Serialize};

use crate::support::{Plot, State, Structure, Tested, at, bugs, get, no_check, pages, peek, put, tried, words};

bugs![
    "joining has no undo" => Model,
    "undo forgets the size" => UndoRestores,
    "undo splits the other set off" => UndoRestores,
    "redo shortens paths, undo does not restore them" => UndoRestores,
    "sets are joined with themselves" => UndoRestores,
    "the root is found by redo in a static copy" => OnlyItsPage,
    "elements behind the last are accepted" => UndoRestores,
];

const ELEMENTS: usize = 40;

/// Word `e`: the parent of element `e`, plus one; 0: it is a root. Word `ELEMENTS + e`: the size of its set, minus one.
#[derive(Debug, Serialize, Deserialize)]
struct Join {
    one: u16,
    other: u16,
}

#[derive(Debug, Serialize, Deserialize)]
struct Split {
    child: u16,
    root: u16,
}

fn root(page: &PageRef<'_>, mut element: usize) -> Result<usize, Damaged> {
    for _ in 0..=ELEMENTS {
        match get(page, element)? {
            0 => return Ok(element),
            parent => element = (parent - 1) as usize % 500,
        }
    }
    Err(Damaged::in_body(page.id(), element * 8, "parents form a cycle"))
}

static COPY: [std::sync::atomic::AtomicU16; ELEMENTS] = [const { std::sync::atomic::AtomicU16::new(0) }; ELEMENTS];

impl Join {
    /// Returns the root of the smaller set, and that of the larger one.
    fn roots(&self, page: &PageRef<'_>) -> Result<(usize, usize), Damaged> {
        let (one, other) = (root(page, usize::from(self.one))?, root(page, usize::from(self.other))?);
        let size = |root| get(page, ELEMENTS + root);
        Ok(if size(one)? <= size(other)? { (one, other) } else { (other, one) })
    }
}

impl Operation for Join {
    const NAME: &'static str = "sets.join";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        if usize::from(self.one.max(self.other)) >= ELEMENTS && !planted(7) {
            return Err(Refused::new("there are fewer elements"));
        }
        let (child, root) = self.roots(page)?;
        if child == root && !planted(5) {
            return Err(Refused::new("they are in one set already"));
        }
        if planted(6) {
            COPY[child % ELEMENTS].store(root as u16, std::sync::atomic::Ordering::Relaxed);
        }
        let (child, root) = (child as u16, root as u16);
        Ok(match () {
            () if planted(1) => Undo::none(),
            () if planted(3) => Undo::op(Split { child: root, root: child }),
            () => Undo::op(Split { child, root }),
        })
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        let (child, mut root) = self.roots(&page.page_ref())?;
        if planted(6) {
            root = usize::from(COPY[child % ELEMENTS].load(std::sync::atomic::Ordering::Relaxed));
        }
        put(page, child, root as i64 + 1)?;
        let size = peek(page, ELEMENTS + root)?.wrapping_add(1 + peek(page, ELEMENTS + child)?);
        put(page, ELEMENTS + root, size)?;
        if planted(4) && usize::from(self.one) != root && usize::from(self.one) != child {
            put(page, usize::from(self.one), root as i64 + 1)?;
        }
        Ok(())
    }
}

impl Operation for Split {
    const NAME: &'static str = "sets.split";

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Err(Refused::new("this is only for undo"))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        let (child, root) = (usize::from(self.child), usize::from(self.root));
        put(page, child, 0)?;
        if planted(2) {
            return Ok(());
        }
        let size = peek(page, ELEMENTS + root)?.wrapping_sub(1 + peek(page, ELEMENTS + child)?);
        put(page, ELEMENTS + root, size)
    }
}

fn registry() -> Registry {
    Registry::new().operation::<Join>().operation::<Split>()
}

fn operations() -> Tested {
    let element =
        |chance: &mut check::Rng| if chance.one_in(20) { 39 + chance.below(9) } else { chance.below(40) } as u16;
    let check =
        check::operation::<Join>(move |chance, _| (Join { one: element(chance), other: element(chance) }, Slot(0)));
    let filled = check.pages(|chance, page| {
        for _ in 0..chance.below(12) {
            let join = Join { one: chance.below(40) as u16, other: chance.below(40) as u16 };
            if let Ok((child, root)) = join.roots(&page.page_ref())
                && child != root
            {
                let size =
                    peek(page, ELEMENTS + root).expect("inside") + 1 + peek(page, ELEMENTS + child).expect("inside");
                put(page, child, root as i64 + 1).expect("inside");
                put(page, ELEMENTS + root, size).expect("inside");
            }
        }
    });
    tried(filled.registry(registry()))
}

fn run(run: &Run<Plot>, roots: &[PageId]) -> Outcome {
    let page = at(roots[0], 0);
    for round in 0..12_u16 {
        let pairs = [(round, round + 13), (round + 13, (round * 5 + 1) % 39)];
        run.transact(|txn| {
            let joined = pairs.map(|(one, other)| txn.update_latched(page, &Join { one, other }).is_ok());
            Ok(move |state: &mut State| {
                for ((one, other), joined) in pairs.into_iter().zip(joined) {
                    let (one, other) = (state[0][usize::from(one)], state[0][usize::from(other)]);
                    if joined {
                        let least = one.min(other);
                        state[0].iter_mut().filter(|set| **set == one || **set == other).for_each(|set| *set = least);
                    }
                }
            })
        })?;
        run.roll_back(|txn| {
            txn.update_latched(page, &Join { one: 35, other: 39 - round % 3 })?;
            Ok(txn.update_latched(page, &Join { one: round, other: 34 })?)
        })?;
    }
    Ok(())
}

/// Returns for each element the least one of its set.
fn read(store: &cedrat_txn::Store, roots: &[PageId]) -> Outcome<State> {
    let page = store.read(roots[0])?;
    let tops = (0..ELEMENTS).map(|element| root(&page, element)).collect::<Result<Vec<_>, _>>()?;
    let least = |top| tops.iter().position(|other| *other == top).unwrap_or(0) as i64;
    Ok(vec![tops.iter().map(|top| least(*top)).collect()])
}

fn sized(store: &cedrat_txn::Store, roots: &[PageId]) -> Outcome {
    no_check(store, roots)?;
    let words = words(store, roots[0], 2 * ELEMENTS)?;
    let page = store.read(roots[0])?;
    for top in (0..ELEMENTS).filter(|element| words[*element] == 0) {
        let members = (0..ELEMENTS).filter(|element| root(&page, *element).is_ok_and(|other| other == top)).count();
        if words[ELEMENTS + top] + 1 != members as i64 {
            return Err(
                format!("the set of {top} has {members} elements, and says {}", words[ELEMENTS + top] + 1).into()
            );
        }
    }
    Ok(())
}

pub(crate) const STRUCTURE: Structure = Structure {
    name: "union-find",
    bugs: BUGS,
    plant: &PLANT,
    operations,
    plot: Plot { registry, set_up: |store| pages(store, 1), run, read, check: sized },
};
