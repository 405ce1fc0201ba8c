//! A page of counters, and the operations that change it.

use cedrat::pages::{Damaged, PageMut, PageRef, Slot};
use cedrat::prelude::*;
use serde::{Deserialize, Serialize};

pub const COUNTERS: usize = 100;

/// Adds to one counter. Its undo commutes with all other changes.
#[derive(Debug, Serialize, Deserialize)]
pub struct Count(pub i64);

/// Adds to all counters of a page, for the roll-up with this number.
#[derive(Debug, Serialize, Deserialize)]
pub struct Shift {
    pub round: u64,
    pub amounts: Vec<i64>,
}

pub fn counter_of(page: &PageRef<'_>, counter: usize) -> Result<i64, Damaged> {
    Ok(page.u64_at(8 + 8 * counter)? as i64)
}

fn add(page: &mut PageMut<'_>, counter: usize, amount: i64) -> Result<(), Damaged> {
    let before = counter_of(&page.page_ref(), counter)?;
    page.put_u64(8 + 8 * counter, before.wrapping_add(amount) as u64)
}

impl Operation for Count {
    const NAME: &'static str = "cookbook.count.v1";

    fn prepare(&self, _: &PageRef<'_>, counter: Slot) -> Result<Undo, Refused> {
        if usize::from(counter.0) >= COUNTERS {
            return Err(Refused::new("there is no such counter"));
        }
        Ok(Undo::op(Count(self.0.wrapping_neg())))
    }

    fn redo(&self, page: &mut PageMut<'_>, counter: Slot) -> Result<(), Damaged> {
        add(page, counter.0.into(), self.0)
    }
}

impl Operation for Shift {
    const NAME: &'static str = "cookbook.shift.v1";

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        if self.amounts.len() > COUNTERS {
            return Err(Refused::new("there are not so many counters"));
        }
        Ok(Undo::none())
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        page.put_u64(0, self.round)?;
        self.amounts.iter().enumerate().try_for_each(|(counter, amount)| add(page, counter, *amount))
    }
}
