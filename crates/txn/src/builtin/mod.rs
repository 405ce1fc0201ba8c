//! The operations that every store knows: the physical one, page formats, the space map, and records of the layouts.

mod format;
mod range;
mod records;
mod space;

pub use format::{FormatFresh, FormatPage, RestorePage};
pub use range::SetRange;
pub use records::{
    FixedRestore, FixedSet, FixedSetCount, FormatFixed, SlottedDelete, SlottedInsert, SlottedUpdate, VersionedDelete,
    VersionedInsert, VersionedUpdate, VersionedWithdraw,
};
pub use space::{SetSpace, SetSpaceScattered};

use crate::registry::Registry;

/// Registers the built-in operations.
pub(crate) fn register(registry: Registry) -> Registry {
    registry
        .operation::<SetRange>()
        .operation::<FormatFresh>()
        .operation::<FormatPage>()
        .operation::<RestorePage>()
        .operation::<SetSpace>()
        .operation::<SetSpaceScattered>()
        .with(records::register)
}
