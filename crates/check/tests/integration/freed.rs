//! A use after free: a check finds it though the page is not allocated again.
#![cfg(not(cedrat_shuttle))] // nothing is concurrent here

use cedrat_check::{self as check, Fault, Outcome, Run, Scenario};
use cedrat_pages::{LayoutKind, PageId, Slot};
use cedrat_txn::{FormatFresh, RecordId, Registry, SetRange, Store, Txn};

/// A page with a number, which the last transaction frees.
struct Freed;

fn set(txn: &mut Txn, page: PageId, number: u64) -> cedrat_txn::Result<()> {
    txn.update(RecordId::new(page, Slot(0)), &SetRange { offset: 0, bytes: number.to_le_bytes()[..].into() })
}

impl Scenario for Freed {
    type State = u64;
    type Roots = PageId;

    fn registry(&self) -> Registry {
        Registry::new()
    }

    fn set_up(&self, store: &Store) -> Outcome<PageId> {
        Ok(store.transact(|txn| {
            let page = txn.allocate()?;
            txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::RAW))?;
            Ok(page)
        })?)
    }

    fn run(&self, run: &Run<Self>, page: &PageId) -> Outcome {
        for number in 1..4 {
            run.transact(|txn| {
                set(txn, *page, number)?;
                if number == 3 {
                    txn.free(*page)?;
                }
                Ok(move |state: &mut u64| *state = number)
            })?;
        }
        Ok(())
    }

    fn read(&self, store: &Store, page: &PageId) -> Outcome<u64> {
        Ok(store.read(*page)?.u64_at(0)?)
    }
}

#[test]
fn read_of_freed_page_is_noticed() {
    let failure = check::crashes("freed", Freed).again(1, 0).shrink(0).run().expect_err("it reads a page that is free");
    assert_eq!(failure.fault, Fault::Model, "{failure}");
    assert!(failure.seen.contains(&0xdbdb_dbdb_dbdb_dbdb_u64.to_string()), "{failure}");
}
