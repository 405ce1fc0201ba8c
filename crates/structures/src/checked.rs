//! The result of a structure's check.

use std::fmt;

use cedrat_pages::PageId;

/// The result of a `check`: the number of elements and their bytes, the pages of the structure, and its defects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Number of elements, entries or records.
    pub elements: u64,
    /// Bytes of the elements as they are stored, keys included, without the structure's own links and directories.
    pub bytes: u64,
    /// Number of pages that others are chained to because these are full.
    pub overflow: u64,
    /// Every page of the structure; each must belong to no other structure and be allocated.
    pub pages: Vec<PageId>,
    /// The defects, one sentence each; empty if there are none.
    pub problems: Vec<String>,
}

impl Checked {
    /// Whether there are no defects.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    /// Panics if there are defects: for tests.
    #[track_caller]
    pub fn expect_sound(&self) {
        assert!(self.is_sound(), "{}", self.problems.join("; "));
    }

    pub(crate) fn problem(&mut self, page: PageId, what: impl fmt::Display) {
        self.problems.push(format!("page {page}: {what}"));
    }

    pub(crate) fn with_problem(mut self, page: PageId, what: impl fmt::Display) -> Checked {
        self.problem(page, what);
        self
    }
}
