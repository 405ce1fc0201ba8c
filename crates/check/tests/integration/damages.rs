//! Silent damage of pages that use one sector only: zeros there must not read as a page that was never written (E22.3).
#![cfg(not(cedrat_shuttle))]

use cedrat_check::{self as check, Outcome, Run, Scenario};
use cedrat_pages::{LayoutKind, PageId};
use cedrat_txn::{FormatFresh, RecordId, Registry, SetRange, Store};

/// Two numbers in a page, which always add up to 100.
struct Sectors;

impl Scenario for Sectors {
    type State = [u64; 2];
    type Roots = PageId;

    fn registry(&self) -> Registry {
        Registry::new()
    }

    fn set_up(&self, store: &Store) -> Outcome<PageId> {
        Ok(store.transact(|txn| {
            let page = txn.allocate()?;
            txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::RAW))?;
            txn.update(RecordId::page(page), &SetRange { offset: 0, bytes: 100_u64.to_le_bytes().to_vec().into() })?;
            Ok(page)
        })?)
    }

    fn run(&self, run: &Run<Self>, &page: &PageId) -> Outcome {
        for number in 1..5_u64 {
            run.transact(|txn| {
                let bytes = [100 - number, number].map(u64::to_le_bytes).concat();
                txn.update(RecordId::page(page), &SetRange { offset: 0, bytes: bytes.into() })?;
                Ok(move |state: &mut [u64; 2]| *state = [100 - number, number])
            })?;
            run.store().checkpoint()?;
        }
        Ok(())
    }

    fn read(&self, store: &Store, page: &PageId) -> Outcome<[u64; 2]> {
        let page = store.read(*page)?;
        Ok([page.body()[0], page.body()[8]].map(u64::from))
    }
}

#[test]
fn zeroed_sector_of_small_page_is_noticed() {
    for seed in 1..4 {
        let damages = check::damages("small-page-damages", Sectors).seed(check::seed(seed)).cases(3_000);
        damages.run().unwrap_or_else(|failure| panic!("{failure}")).print();
    }
}
