//! Pages in memory and at home: buffer pool, latches, layouts, write-back (Lemon §3, §4.2).
//!
//! A page is 4096 bytes with a number, a home in the page file, and the LSN of the last record that changed it. The
//! [`Pool`] moves pages between memory and home; a *layout* defines the structure of their bytes.
//!
//! | task | API |
//! |---|---|
//! | read a page | [`Pool::read`] → [`LatchedPage`], a [`PageRef`], or [`Pool::optimistic`] → [`OptimisticPage`] |
//! | change a page | [`Pool::exclusive`] → [`Exclusive`], whose [`Exclusive::change`] lends a [`PageMut`] |
//! | update one versioned record out of order | [`Exclusive::change_record`] |
//! | protect the shape of a structure | [`StructureLatch`] |
//! | define the structure of a page's bytes | [`layout`] |
//! | bound recovery | [`Pool::write_back`], [`Pool::redo_point`] |
//!
//! `docs/inside/latches.md` lists the permitted waits; `docs/formats/page.md` draws the bytes.

#![deny(unsafe_code)]

mod at_home;
mod beside;
mod cleaner;
mod copy;
mod double_write;
mod error;
mod evict;
mod exclusive;
mod file;
#[allow(unsafe_code)]
mod frames;
mod home;
mod latch;
pub mod layout;
mod order;
mod page;
mod pool;
mod rebuild;
mod redo;
mod structure_latch;
mod table;
#[allow(unsafe_code)]
mod view;
mod write_back;
mod written;

pub use at_home::PageAtHome;
pub use beside::{PagesAsOf, PagesBeside};
pub use cleaner::Cleaner;
pub use copy::{CopiedPages, EarlierPages, check_copied_pages, copy_page_files, grow_page_file};
pub use double_write::{DOUBLE_WRITE_FILE, pages_in_double_write};
pub use error::PoolError;
pub use exclusive::Exclusive;
pub use file::PAGE_FILE;
pub use home::Home;
pub use order::{LatchRank, assert_no_page_latch};
pub use page::{BODY_LEN, Damaged, LayoutKind, PAGE_FORMAT, PAGE_LEN, PageId, Slot, verify};
#[cfg(feature = "planted-faults")]
pub use pool::Fault;
pub use pool::{Pool, PoolOptions, PoolStats};
pub use rebuild::{Rebuild, RebuiltPage, copy_of_page};
pub use redo::{ForRedo, PendingRedo};
pub use structure_latch::{
    ExclusivePart, ExclusiveStructure, OwnedExclusiveStructure, OwnedSharedStructure, PartLatch, SharedStructure,
    Stamp, StructureLatch,
};
pub use view::{LatchedPage, OptimisticPage, PageBuf, PageMut, PageRef, TagMatches};
pub use write_back::WriteBack;
pub use written::WRITTEN_FILE;
