//! Counters of an hour that are moved to those of the day: an ordered sequence.

use cedrat::pages::{LatchRank, PageId, Slot, StructureLatch};
use cedrat::prelude::*;
use cedrat::txn::{LockMode, Resource};
use serde::{Deserialize, Serialize};

use crate::counters::{COUNTERS, Count, Shift, counter_of};

/// Two pages, at first of zeros: each has the number of its last roll-up, then its counters.
pub struct Meter {
    pub hour: PageId,
    pub day: PageId,
}

/// The whole sequence. It looks which of its steps are done, so it can also finish them.
#[derive(Debug, Serialize, Deserialize)]
pub struct RollUp {
    hour: u64,
    day: u64,
    round: u64,
    amounts: Vec<i64>,
}

impl Meter {
    pub fn count(&self, txn: &mut Txn, counter: u16, amount: i64) -> Result<()> {
        txn.lock(Resource::Structure(self.hour), LockMode::IntentionExclusive)?;
        txn.update_latched(RecordId::new(self.hour, Slot(counter)), &Count(amount))
    }

    pub fn total(&self, txn: &mut Txn, counter: u16) -> Result<i64> {
        txn.lock(Resource::Structure(self.hour), LockMode::Shared)?; // waits for transactions that count
        let latch = txn.store().resident(self.hour, || Ok(StructureLatch::new(LatchRank(1))))?;
        let _latched = latch.shared(); // no roll-up is half done
        let in_hour = counter_of(&*txn.read_latched(self.hour)?, counter.into())?;
        Ok(in_hour.wrapping_add(counter_of(&*txn.read_latched(self.day)?, counter.into())?))
    }

    pub fn roll_up(&self, txn: &mut Txn) -> Result<()> {
        let latch = txn.store().resident(self.hour, || Ok(StructureLatch::new(LatchRank(1))))?;
        let latched = latch.exclusive();
        let roll_up = {
            let page = txn.read_latched(self.hour)?;
            let amounts = (0..COUNTERS).map(|n| counter_of(&page, n)).collect::<Result<_, _>>()?;
            RollUp { hour: self.hour.get(), day: self.day.get(), round: page.u64_at(0)? + 1, amounts }
        };
        txn.ordered(latched, &roll_up, |txn| roll_up.finish(txn))
    }
}

impl Finish for RollUp {
    const NAME: &'static str = "cookbook.roll_up.v1";
    const LOG_BYTES_MAX: u32 = 2 * (64 + 16 + 10 * COUNTERS as u32); // two records of 64 bytes, and their arguments

    fn finish(&self, txn: &mut Txn) -> Result<()> {
        for (page, sign) in [(self.day, 1), (self.hour, -1)] {
            let page = PageId::new(page);
            if txn.read_latched(page)?.u64_at(0)? < self.round {
                let amounts = self.amounts.iter().map(|amount| amount.wrapping_mul(sign)).collect();
                txn.update_latched(RecordId::page(page), &Shift { round: self.round, amounts })?;
            }
        }
        Ok(())
    }
}
