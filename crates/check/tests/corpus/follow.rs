//! Growth in an ordered sequence: one page has the target, the others follow, and a finish completes a sequence that a crash
//! has cut.

use cedrat_check::{Outcome, Run};
use cedrat_pages::{Damaged, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{Finish, Operation, Refused, Registry, Result, Txn, Undo};
use serde::{Deserialize, Serialize};

use crate::support::{Plot, Structure, at, bugs, get, pages, peek, put};

bugs![
    "finish adds again what was added" => Check,
    "finish stops at the first page" => Check,
    "finish does nothing" => Check,
    "finish looks at the first follower only" => Check,
    "steps are undoable" => Check,
    "steps come in the wrong order" => Check,
    "finish takes back instead of completing" => Check,
    "finish fails when there is nothing to do" => Refused,
    "finish asks for an absent page" => Refused,
];

const FOLLOWERS: usize = 3;

#[derive(Debug, Serialize, Deserialize)]
struct Raise(i64);

impl Operation for Raise {
    const NAME: &'static str = "follow.raise";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> std::result::Result<Undo, Refused> {
        get(page, 0)?;
        Ok(Undo::none())
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> std::result::Result<(), Damaged> {
        let sum = peek(page, 0)?;
        put(page, 0, sum.wrapping_add(self.0))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct CatchUp {
    pages: Vec<u64>,
    amount: i64,
}

impl Finish for CatchUp {
    const NAME: &'static str = "follow.catch_up";

    fn finish(&self, txn: &mut Txn) -> Result<()> {
        let height = |txn: &Txn, page: u64| -> Result<i64> { Ok(get(&*txn.read_latched(PageId::new(page))?, 0)?) };
        if planted(3) {
            return Ok(());
        }
        let wanted = height(txn, self.pages[0])?;
        let first = wanted - height(txn, self.pages[1])?;
        if planted(8) && first == 0 {
            return Err(cedrat_txn::Error::Misuse("nothing to finish"));
        }
        if planted(7) {
            return txn.update_latched(at(PageId::new(self.pages[0]), 0), &Raise(-self.amount));
        }
        for page in &self.pages[1..] {
            let missing = match () {
                () if planted(1) => self.amount,
                () if planted(4) => first,
                () if planted(6) => (wanted - height(txn, *page)?).max(0),
                () => wanted - height(txn, *page)?,
            };
            let page = if planted(9) && missing != 0 { page + 1_000 } else { *page };
            txn.update_latched(at(PageId::new(page), 0), &Raise(missing))?;
            if planted(2) {
                break;
            }
        }
        Ok(())
    }
}

fn grow(txn: &mut Txn, roots: &[PageId], amount: i64) -> Result<()> {
    let finish = CatchUp { pages: roots.iter().map(|page| page.get()).collect(), amount };
    let mut order: Vec<PageId> = roots.to_vec();
    if planted(6) {
        order.reverse();
    }
    if planted(5) {
        return order.iter().try_for_each(|page| txn.update_latched(at(*page, 0), &Raise(amount)));
    }
    txn.ordered((), &finish, |txn| order.iter().try_for_each(|page| txn.update_latched(at(*page, 0), &Raise(amount))))
}

fn run(run: &Run<Plot>, roots: &[PageId]) -> Outcome {
    for amount in 1..9 {
        if amount % 3 == 0 {
            run.roll_back(|txn| Ok(grow(txn, roots, amount)?))?;
        } else {
            run.transact(|txn| Ok(grow(txn, roots, amount).map(|()| |_: &mut crate::support::State| ())?))?;
        }
    }
    Ok(())
}

/// The model does not contain the agreement of the pages: a finish is visible though no transaction has committed.
fn agree(store: &cedrat_txn::Store, roots: &[PageId]) -> Outcome {
    let wanted = get(&*store.read(roots[0])?, 0)?;
    for root in &roots[1..] {
        let followed = get(&*store.read(*root)?, 0)?;
        if followed != wanted {
            return Err(format!("page {root} is at {followed}, not {wanted}").into());
        }
    }
    Ok(())
}

pub(crate) const STRUCTURE: Structure = Structure {
    name: "follow",
    bugs: BUGS,
    plant: &PLANT,
    operations: || Ok(()),
    plot: Plot {
        registry: || Registry::new().operation::<Raise>().finish::<CatchUp>(),
        set_up: |store| pages(store, 1 + FOLLOWERS),
        run,
        read: |_, _| Ok(Vec::new()),
        check: agree,
    },
};
