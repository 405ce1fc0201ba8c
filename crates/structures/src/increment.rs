//! Increment and decrement: a complete operation, the model for your own (Lemon §4.4).
//!
//! An operation has three parts: its arguments, which are logged; `prepare`, which checks the page, may refuse, and
//! returns the undo of the change; and `redo`, which changes the page. That is all it needs to survive crashes and roll
//! back. The last function is the interface for callers.

use cedrat_pages::layout::{Fixed, FixedMut};
use cedrat_pages::{Damaged, PageMut, PageRef, Slot};
use cedrat_txn::{Change, Meaning, Operation, RecordId, Refused, Result, Txn, Undo};
use serde::{Deserialize, Serialize};

/// Adds `amount` to the number in the first eight bytes of a record on a page of fixed-length records. A negative
/// amount decrements.
///
/// Increments commute, and so do their undos. So they may also be applied with
/// [`Txn::update_latched`](cedrat_txn::Txn::update_latched), without a lock on the page: many transactions can then
/// change one counter concurrently, and a rollback reverts only the transaction's own part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Increment {
    /// The number to add.
    pub amount: i64,
}

impl Operation for Increment {
    const NAME: &'static str = "cedrat.increment.v1";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        let number = number(page, at)?;
        let inverse = self.amount.checked_neg().filter(|_| number.checked_add(self.amount).is_some());
        let inverse = inverse.ok_or(Refused::new("the sum does not fit 64 bits; add less"))?;
        Ok(Undo::op(Increment { amount: inverse }))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        FixedMut::of(page)?.edit(at, |record| {
            if let Some(bytes) = record.first_chunk_mut() {
                // It wraps: an undo must not refuse, whatever other transactions have added meanwhile.
                *bytes = i64::from_le_bytes(*bytes).wrapping_add(self.amount).to_le_bytes();
            }
        })
    }

    fn meaning(&self, at: RecordId) -> Meaning {
        Meaning::one(Change::Add { at, amount: self.amount })
    }
}

/// Adds `amount` to the number at `at`, and returns the sum.
///
/// # Errors
/// [`Error::Refused`](cedrat_txn::Error::Refused) if there is no number, or the sum does not fit;
/// [`Error::Deadlock`](cedrat_txn::Error::Deadlock) from the lock on the page.
pub fn increment(txn: &mut Txn, at: RecordId, amount: i64) -> Result<i64> {
    txn.update(at, &Increment { amount })?;
    Ok(number(&*txn.read(at.page)?, at.slot)?)
}

/// Returns the number at `at`.
fn number(page: &PageRef<'_>, at: Slot) -> Result<i64, Refused> {
    let fixed = Fixed::of(page)?;
    let bytes = fixed.get(at).and_then(|record| record.first_chunk().copied());
    bytes.map(i64::from_le_bytes).ok_or(Refused::new("there is no record of eight bytes or more at this place"))
}
