//! Types of the arguments in a store's log (E6.6).

use cedrat_media::{Media, SimDisk};
use cedrat_pages::{Damaged, PageMut, PageRef, Slot};
use cedrat_sync::Arc;
use cedrat_txn::{OpenError, Operation, Refused, Registry, Store, Undo};
use serde::{Deserialize, Serialize};

use crate::common::{self, at, numbers, options, page_with_zeros};

/// Declares an operation that adds a number of type `$number`.
macro_rules! adds {
    ($name:ident, $number:ty) => {
        #[derive(Debug, Serialize, Deserialize)]
        struct $name($number);

        impl Operation for $name {
            const NAME: &'static str = "test.amount";

            fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
                Ok(Undo::none())
            }

            fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
                let offset = usize::from(at.0) * 8;
                let there = page.page_ref().u64_at(offset)?;
                page.put_u64(offset, there.wrapping_add(self.0 as u64))
            }
        }
    };
}

adds!(Signed, i64);
adds!(Unsigned, u64);
adds!(Short, i32);

fn open(disk: &Arc<SimDisk>, registry: Registry) -> Result<Store, OpenError> {
    let media: Arc<dyn Media> = Arc::<SimDisk>::clone(disk);
    Store::open(media, options(), registry)
}

/// E6.6.
#[test]
fn arguments_of_another_type_are_refused() {
    let disk = Arc::new(SimDisk::new());
    let signed = || common::registry().operation::<Signed>();
    let store = open(&disk, signed()).unwrap();
    let page = store.transact(page_with_zeros).unwrap();
    store.transact(|txn| txn.update(at(page, 0), &Signed(-5))).unwrap();
    drop(store);

    let before = disk.image().hash();
    let error = open(&disk, common::registry().operation::<Unsigned>()).unwrap_err();
    assert!(matches!(&error, OpenError::OtherArguments { name } if name == "test.amount"), "{error}");
    assert!(error.to_string().contains("\"test.amount\""), "{error}");
    assert_eq!(disk.image().hash(), before, "R2");

    let store = open(&disk, signed()).unwrap();
    assert_eq!(numbers(&store, page)[0], -5);
    drop(store);
    // Numbers of fewer bits are encoded the same way.
    let store = open(&disk, common::registry().operation::<Short>()).unwrap();
    assert_eq!(numbers(&store, page)[0], -5);
}
