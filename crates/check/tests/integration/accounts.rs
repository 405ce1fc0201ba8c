//! Accounts on a page, for the banks on pages and in heaps.

use cedrat_pages::{Damaged, LayoutKind, PageMut, PageRef, Slot};
use cedrat_txn::{Operation, Refused, Result, Undo};
use serde::{Deserialize, Serialize};

/// Initial balance of every account.
pub(crate) const BALANCE: i64 = 1_000;

fn place(at: Slot) -> usize {
    usize::from(at.0) * 8
}

/// Returns an account's balance. A page of zeros was never written, or lost: only its layout shows that its accounts are not
/// empty.
pub(crate) fn balance(page: &PageRef<'_>, at: Slot) -> std::result::Result<i64, Damaged> {
    if page.kind() != LayoutKind::RAW {
        return Err(Damaged::wrong_kind(page.id()));
    }
    Ok(page.u64_at(place(at))? as i64)
}

/// Adds to one account.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Deposit {
    pub(crate) amount: i64,
}

impl Operation for Deposit {
    const NAME: &'static str = "accounts.deposit";
    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        let balance = balance(page, at)?;
        balance.checked_add(self.amount).ok_or_else(|| Refused::new("the balance overflows"))?;
        Ok(Undo::op(Deposit { amount: -self.amount }))
    }
    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        let balance = balance(&page.page_ref(), at)?;
        page.put_u64(place(at), balance.wrapping_add(self.amount) as u64)
    }
}

/// Formats a fresh page for accounts.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OpenAccounts {
    pub(crate) count: u64,
}

impl Operation for OpenAccounts {
    const NAME: &'static str = "accounts.open";
    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Ok(Undo::none())
    }
    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        page.format(LayoutKind::RAW);
        (0..self.count).try_for_each(|account| page.put_u64(account as usize * 8, BALANCE as u64))
    }
}
