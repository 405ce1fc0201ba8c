//! What a structure's walk over itself found.

use std::fmt;

use cedrat_pages::PageId;

/// What a `check` found: how much there is, which pages it lies on, and what is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Elements, entries or records.
    pub elements: u64,
    /// Every page that the structure holds; each belongs to nothing else and is allocated.
    pub pages: Vec<PageId>,
    /// What is wrong, a sentence each; empty if all is well.
    pub problems: Vec<String>,
}

impl Checked {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    /// Panics unless nothing is wrong: for tests.
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
