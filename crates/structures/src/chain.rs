//! Chains of pages: each page of a collection has a link in slot 0, which names the next page and the collection's root.
//!
//! ```text
//! a link:
//! 0           8      10           16     24
//! | next page | FFFF | spare page | root |
//! ```
//!
//! Collections of records, and those of objects (`cedrat-objects`), are chains. Their pages have different layouts, and their
//! roots name the first page in different ways; so the caller reads both.

use std::collections::HashSet;

use cedrat_pages::{PageId, Slot};
use cedrat_txn::{Result, SmallBytes, Store};

use crate::error::damaged;

/// The link of a page: its collection, and the pages after it. A page has one exactly as long as it belongs to a
/// collection (S6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLink {
    /// The page after it, if it is not the last.
    pub next: Option<PageId>,
    /// The root of the collection.
    pub root: PageId,
    /// The spare page after it; 0 if it is the last of them.
    pub(crate) spare: u64,
}

impl PageLink {
    /// Slot of the link in its page.
    pub const SLOT: Slot = Slot(0);

    /// Length of a link, in bytes.
    pub const LEN: usize = 24;

    /// Lowest 16 bits of the word between the next page and the root; its upper 48 bits are the next spare page. No node of
    /// a list has this value there, for it would name a slot that no page has.
    const MARK: u64 = 0xFFFF;

    /// Value of `spare` in a page that is not spare.
    pub(crate) const NOT_SPARE: u64 = u64::MAX >> 16;

    /// Returns the link of a page that is not spare.
    pub fn new(root: PageId, next: Option<PageId>) -> PageLink {
        PageLink { next, root, spare: PageLink::NOT_SPARE }
    }

    /// Whether the page is listed as spare.
    pub fn is_spare(&self) -> bool {
        self.spare != PageLink::NOT_SPARE
    }

    /// Returns the link as a record.
    pub fn record(self) -> SmallBytes {
        let next = self.next.map_or(0, PageId::get);
        let words = [next, self.spare << 16 | PageLink::MARK, self.root.get()].map(u64::to_le_bytes);
        SmallBytes::from(words.as_flattened())
    }

    /// Parses the record in a page's slot 0, if it is a link.
    pub fn of(record: &[u8]) -> Option<PageLink> {
        let &[next, mark, root] = <&[[u8; 8]; 3]>::try_from(record.as_chunks().0).ok()?;
        let [next, mark, root] = [next, mark, root].map(u64::from_le_bytes);
        let is_link = record.len() == PageLink::LEN && mark & PageLink::MARK == PageLink::MARK;
        let next = (next != 0).then(|| PageId::new(next));
        is_link.then(|| PageLink { next, root: PageId::new(root), spare: mark >> 16 })
    }
}

/// The pages of the collection with this root, from its first page on.
#[derive(Clone, Copy, Debug)]
pub struct PageChain<'s> {
    store: &'s Store,
    root: PageId,
}

impl<'s> PageChain<'s> {
    /// Returns the chain of the collection with this root.
    pub fn of(store: &'s Store, root: PageId) -> PageChain<'s> {
        PageChain { store, root }
    }

    /// Returns the link of a page, which must be one of the collection's.
    ///
    /// # Errors
    /// Damage, if it is not.
    pub fn own(&self, page: PageId, link: Option<PageLink>) -> Result<PageLink> {
        let own = link.filter(|link| link.root == self.root);
        own.ok_or_else(|| damaged(self.store, page, "the page belongs to another collection, or to none"))
    }

    /// Returns the pages, first to last; `link_of` reads the link of each.
    ///
    /// # Errors
    /// Those of `link_of`; damage, if a page is not one of the collection's, or is there twice.
    pub fn pages(
        &self,
        first: Option<PageId>,
        mut link_of: impl FnMut(PageId) -> Result<Option<PageLink>>,
    ) -> Result<Vec<PageId>> {
        let (mut pages, mut seen, mut next) = (Vec::new(), HashSet::new(), first);
        while let Some(page) = next {
            if !seen.insert(page) {
                return Err(damaged(self.store, page, "the pages of the collection form a cycle"));
            }
            pages.push(page);
            next = self.own(page, link_of(page)?)?.next;
        }
        Ok(pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_survives_encoding() {
        for (next, spare) in [(None, 0), (Some(PageId::new(9)), 7), (None, PageLink::NOT_SPARE)] {
            let link = PageLink { next, root: PageId::new(4), spare };
            assert_eq!(PageLink::of(&link.record()), Some(link));
        }
        assert_eq!(PageLink::new(PageId::new(4), None).record()[8..16], [0xFF; 8], "the mark of a page of objects");
        assert_eq!(PageLink::of(&[0; 8]), None);
        assert_eq!(PageLink::of(&[0; PageLink::LEN]), None, "without the mark");
        assert_eq!(PageLink::of(&[0xFF; PageLink::LEN + 1]), None, "too long");
    }
}
