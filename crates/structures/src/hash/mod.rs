//! The linear hash table, default form (Lemon §6): keys and values of any bytes, buckets that split one by one.
//!
//! | file | content |
//! |---|---|
//! | `bucket` | the bytes of a bucket page |
//! | `header` | the bytes of a root page |
//! | `packed` | many entries in one log record |
//! | `ops` | the operations and their undos |
//! | `resident` | the state in memory: latch and copy of the root page |
//! | `table` | opening, creating, looking up |
//! | `write` | inserting and removing |
//! | `split` | growing |
//! | `merge` | the inverse of a split |
//! | `fold` | fewer pages for a bucket |
//! | `shrink` | when buckets merge and fold |
//! | `walk` | iterating, checking, dropping |
//! | `typed` | keys and values of Rust types |
//!
//! Its invariants are S1 to S5 and S10 of `docs/inside/invariants.md`. A reader without a latch uses its result only if the
//! latch's stamp did not change (E12.2).

mod bucket;
mod fold;
mod header;
#[cfg(test)]
mod meetings;
mod merge;
mod ops;
mod packed;
mod resident;
mod shrink;
mod split;
mod table;
mod typed;
mod walk;
mod write;

use cedrat_txn::Registry;

pub use bucket::ENTRY_LEN_MAX;
pub(crate) use bucket::{KeyHash, NUMBERS as BUCKET_NUMBERS, entries, identity, next};
pub(crate) use header::{Header, NUMBERS as ROOT_NUMBERS};
pub use table::RawHashTable;
pub use typed::HashTable;
pub use walk::{Entries, Pair};

pub(crate) fn register(registry: Registry) -> Registry {
    registry
        .operation::<ops::Insert>()
        .operation::<ops::Replace>()
        .operation::<ops::Remove>()
        .operation::<ops::Fill>()
        .operation::<ops::Purge>()
        .operation::<ops::Append>()
        .operation::<ops::Withdraw>()
        .operation::<ops::Link>()
        .operation::<ops::Found>()
        .operation::<ops::FoundDoubling>()
        .operation::<ops::Clear>()
        .operation::<ops::SetBuckets>()
        .operation::<ops::AddRegion>()
        .operation::<ops::SetLive>()
        .logical::<ops::TakeOut>()
        .logical::<ops::PutBack>()
        .logical::<ops::Unfound>()
}
