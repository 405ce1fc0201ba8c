//! Structures read from single pages, of which some are missing or damaged, without a store: for `cedrat salvage`.
//!
//! - Nothing is trusted but the checksums of pages: they may be of different moments. A walk ends, whatever the pages have.
//! - A page that names its structure is read although the pages that lead to it are lost. Pages that are only reached through a
//!   lost page, and do not name their structure, are lost with it: those of array lists and of lists.
//! - Each page that could not be read is reported.

use std::collections::{BTreeMap, BTreeSet};

use cedrat_pages::layout::{Fixed, Slotted, Versioned};
use cedrat_pages::{LayoutKind, PageBuf, PageId, PageRef};
use cedrat_txn::CATALOGUE;

use crate::array;
use crate::bytes::Corrupt;
use crate::catalogue::{Kind, Named};
use crate::chain::PageLink;
use crate::ends::{self, Ends, Place};
use crate::hash::{self, Header, KeyHash};
use crate::kinds;
use crate::page_list::sequence;
use crate::records::LINK;

/// Returns a page, if it is whole.
pub type Pages<'p> = &'p dyn Fn(PageId) -> Option<PageBuf>;

/// The pages that name each structure, by its root.
pub type Claims = BTreeMap<PageId, Vec<PageId>>;

/// A page that could not be read, or whose content is not what its structure expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostPage {
    /// The page.
    pub page: PageId,
    /// Its place in the structure.
    pub what: &'static str,
}

/// The result of a walk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// Number of elements that were read.
    pub elements: u64,
    /// Number of pages of elements that were read.
    pub pages: u64,
    /// The pages that are lost.
    pub lost: Vec<LostPage>,
}

impl Walked {
    /// Estimates the number of elements on the lost pages, which have as many as others.
    pub fn lost_elements(&self) -> u64 {
        (self.lost.len() as u64 * self.elements).div_ceil(self.pages.max(1))
    }

    /// Adds a lost page.
    pub fn lose(&mut self, page: PageId, what: &'static str) {
        self.lost.push(LostPage { page, what });
    }
}

/// Returns the root of the structure that a page names as its own.
pub fn claimed_root(page: &PageRef<'_>) -> Option<PageId> {
    let link = |record: Option<&[u8]>| record.and_then(PageLink::of).map(|link| link.root);
    match page.kind() {
        kinds::HASH_BUCKET => hash::identity(page).ok().map(|(root, _)| PageId::new(root)),
        kinds::SEQUENCE => sequence::root(page.body()).ok().map(PageId::new),
        LayoutKind::SLOTTED => link(Slotted::of(page).ok()?.get(LINK).ok()?),
        LayoutKind::VERSIONED => link(Versioned::of(page).ok()?.get(LINK).ok()?),
        _ => None,
    }
}

/// Returns the kind of the structure of which a page is the root, unless it was dropped. Roots of objects and graphs are not known
/// here.
pub fn kind_of_root(page: &PageRef<'_>) -> Option<Kind> {
    match page.kind() {
        kinds::HASH_ROOT => Header::read(page.body()).ok().filter(|header| header.live).map(|_| Kind::HashTable),
        kinds::ARRAY_ROOT => Some(Kind::ArrayList),
        kinds::LIST_ROOT => Some(Kind::List),
        kinds::PAGE_LIST_ROOT => Some(Kind::PageList),
        kinds::RECORDS_ROOT => Some(Kind::Records),
        _ => None,
    }
}

/// Reads the catalogue.
pub fn catalogue(pages: Pages<'_>, claims: &Claims, is_recovered: bool) -> (Vec<Named>, Walked) {
    let mut all = BTreeMap::new();
    let walked = hash_table(pages, CATALOGUE, claims, is_recovered, &mut |name, line| {
        if let Ok(named) = crate::catalogue::read(name, line) {
            all.entry(named.name.clone()).or_insert(named);
        }
    });
    (all.into_values().collect(), walked)
}

/// Reads the entries of a hash table: those that its root leads to, then those of other pages that name it.
///
/// `is_recovered`: all pages are of one moment, so that an entry counts in its own bucket only. Otherwise a key may occur twice,
/// where a split had begun: the first one counts.
pub fn hash_table(
    pages: Pages<'_>,
    root: PageId,
    claims: &Claims,
    is_recovered: bool,
    each: &mut dyn FnMut(&[u8], &[u8]),
) -> Walked {
    let mut walk =
        HashWalk { pages, root, header: None, is_recovered, seen: BTreeSet::new(), walked: Walked::default() };
    let page = pages(root).filter(|page| page.page_ref().kind() == kinds::HASH_ROOT);
    walk.header = page.and_then(|page| Header::read(page.page_ref().body()).ok()).filter(|header| header.live);
    let mut broken = BTreeSet::new();
    match walk.header.clone() {
        Some(header) => {
            for bucket in 0..header.buckets {
                if !walk.chain(header.page_of(bucket), bucket, each) {
                    broken.insert(bucket);
                }
            }
        }
        None => walk.walked.lose(root, "the root of the hash table"),
    }
    for &page in claims.get(&root).into_iter().flatten() {
        if walk.seen.insert(page) {
            // Of a whole chain, it is a page that the table has left.
            walk.read(page, &mut |bucket| bucket.is_none_or(|bucket| broken.contains(&bucket)), each);
        }
    }
    walk.walked
}

struct HashWalk<'p> {
    pages: Pages<'p>,
    root: PageId,
    header: Option<Header>,
    is_recovered: bool,
    seen: BTreeSet<PageId>,
    walked: Walked,
}

impl HashWalk<'_> {
    /// Reads a bucket's pages. Returns whether all of them could be read.
    fn chain(&mut self, first: PageId, bucket: u64, each: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        let mut next = first;
        while next != PageId::new(0) {
            if !self.seen.insert(next) {
                return false;
            }
            match self.read(next, &mut |of| of.is_none_or(|of| of == bucket), each) {
                Some(after) => next = after,
                None => {
                    self.walked.lose(next, "entries of the hash table");
                    return false;
                }
            }
        }
        true
    }

    /// Reads the entries of a page whose buckets are wanted. Returns the next page of the chain; `None` if it is no page of the
    /// table, or not all of its entries are valid.
    fn read(
        &mut self,
        page: PageId,
        is_wanted: &mut dyn FnMut(Option<u64>) -> bool,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Option<PageId> {
        let page = (self.pages)(page).filter(|page| page.page_ref().kind() == kinds::HASH_BUCKET)?;
        let page = page.page_ref();
        let (root, seed) = hash::identity(&page).ok()?;
        let is_own = root == self.root.get() && self.header.as_ref().is_none_or(|header| header.seed == seed);
        let entries = hash::entries(page.body()).ok().filter(|_| is_own)?;
        self.walked.pages += 1;
        let header = self.header.as_ref().filter(|_| self.is_recovered);
        let mut is_whole = true;
        for entry in entries {
            let Ok((key, value)) = entry else {
                is_whole = false;
                continue;
            };
            let bucket = header.map(|header| KeyHash::of(key, seed).bucket(header.buckets));
            if is_wanted(bucket) {
                self.walked.elements += 1;
                each(key, value);
            }
        }
        let next = hash::next(&page).ok().filter(|_| is_whole)?;
        Some(PageId::new(next))
    }
}

/// Returns the length of the elements of an array list; `None` if its root is lost.
pub fn element_len(pages: Pages<'_>, root: PageId) -> Option<u16> {
    array::salvage::Elements::of(&pages(root)?.page_ref()).map(|elements| elements.element_len)
}

/// Reads the elements of an array list in their order; `None` stands for each lost one.
pub fn array_list(pages: Pages<'_>, root: PageId, each: &mut dyn FnMut(Option<&[u8]>)) -> Walked {
    let mut walked = Walked::default();
    let found = pages(root).and_then(|page| array::salvage::Elements::of(&page.page_ref()));
    let Some(elements) = found else {
        walked.lose(root, "the root of the array list");
        return walked;
    };
    let mut left = elements.len;
    for number in 0.. {
        if left == 0 {
            break;
        }
        let on_page = left.min(u64::from(elements.per_page));
        left -= on_page;
        let id = elements.page(number);
        let page = pages(id);
        let page = page.as_ref().map(PageBuf::page_ref);
        let fixed = page.as_ref().and_then(|page| Fixed::of(page).ok());
        match fixed.filter(|fixed| fixed.record_len() == elements.element_len && u64::from(fixed.count()) >= on_page) {
            Some(fixed) => {
                walked.pages += 1;
                walked.elements += on_page;
                fixed.iter().take(on_page as usize).for_each(|(_, element)| each(Some(element)));
            }
            None => {
                walked.lose(id, "elements of the array list");
                (0..on_page).for_each(|_| each(None));
            }
        }
    }
    walked
}

/// Reads the elements of a list from its first one to the first lost one.
pub fn list(pages: Pages<'_>, root: PageId, each: &mut dyn FnMut(&[u8])) -> Walked {
    let mut walked = Walked::default();
    let Some(ends) = ends_of(pages, root, kinds::LIST_ROOT) else {
        walked.lose(root, "the root of the list");
        return walked;
    };
    // A cycle is noticed when it comes back to a place that is remembered; each is remembered twice as long as the one before.
    let (mut next, mut remembered, mut steps, mut steps_max) = (ends.first, Place::default(), 0_u64, 1);
    let mut page: Option<(u64, PageBuf)> = None;
    while let Some(at) = next.record() {
        if next == remembered {
            walked.lose(at.page, "elements of the list behind a cycle");
            break;
        }
        steps += 1;
        if steps == steps_max {
            (remembered, steps_max) = (next, 2 * steps_max);
        }
        if page.as_ref().is_none_or(|(number, _)| *number != next.page) {
            page = pages(at.page).map(|page| (next.page, page));
            walked.pages += u64::from(page.is_some());
        }
        let node = page.as_ref().and_then(|(_, page)| {
            let page = page.page_ref();
            let record = Slotted::of(&page).ok()?.get(at.slot).ok()??;
            let (link, element) = (record.first_chunk::<10>()?, &record[10..]);
            let (page, slot) = link.split_at(8);
            let (page, slot) = (page.try_into().ok()?, slot.try_into().ok()?);
            each(element);
            Some(Place { page: u64::from_le_bytes(page), slot: u16::from_le_bytes(slot) })
        });
        match node {
            Some(after) => {
                walked.elements += 1;
                next = after;
            }
            None => {
                walked.lose(at.page, "the elements of the list from this page on");
                break;
            }
        }
    }
    walked
}

/// Reads the records of a page-oriented list: from its first page to a lost one, then those of other pages that name it, then those
/// from behind the last lost page to the end.
pub fn page_list(pages: Pages<'_>, root: PageId, claims: &Claims, each: &mut dyn FnMut(&[u8])) -> Walked {
    let mut walked = Walked::default();
    let mut seen = BTreeSet::new();
    let read = |id: PageId| {
        let page = pages(id).filter(|page| page.page_ref().kind() == kinds::SEQUENCE)?;
        let is_own = sequence::root(page.page_ref().body()) == Ok(root.get());
        Some(page).filter(|_| is_own)
    };
    let mut last = Vec::new();
    match ends_of(pages, root, kinds::PAGE_LIST_ROOT) {
        Some(ends) => {
            let mut next = ends.first.page;
            while next != 0 && seen.insert(PageId::new(next)) {
                let Some(page) = read(PageId::new(next)) else {
                    walked.lose(PageId::new(next), "records of the page-oriented list");
                    break;
                };
                walked.sequence(&page, each);
                next = sequence::links(page.page_ref().body()).map_or(0, |links| links.next);
            }
            let mut before = ends.last.page;
            while before != 0 && seen.insert(PageId::new(before)) {
                let Some(page) = read(PageId::new(before)) else {
                    walked.lose(PageId::new(before), "records of the page-oriented list");
                    break;
                };
                last.push(PageId::new(before));
                before = sequence::links(page.page_ref().body()).map_or(0, |links| links.previous);
            }
        }
        None => walked.lose(root, "the root of the page-oriented list"),
    }
    let has_lost = !walked.lost.is_empty();
    // Of a whole list, other pages are those that it has left.
    let others = claims.get(&root).into_iter().flatten().copied().filter(|_| has_lost);
    let others = others.filter(|&page| seen.insert(page)).collect::<Vec<_>>();
    for page in others.into_iter().chain(last.into_iter().rev()) {
        if let Some(page) = read(page) {
            walked.sequence(&page, each);
        }
    }
    walked
}

impl Walked {
    fn sequence(&mut self, page: &PageBuf, each: &mut dyn FnMut(&[u8])) {
        self.pages += 1;
        let page = page.page_ref();
        let Ok(records) = sequence::records(page.body()) else { return self.lose(page.id(), "invalid records") };
        for record in records {
            match record {
                Ok(record) => {
                    self.elements += 1;
                    each(record);
                }
                Err(Corrupt) => return self.lose(page.id(), "invalid records"),
            }
        }
    }
}

/// Reads the records of a collection from all pages that name it.
pub fn records(pages: Pages<'_>, root: PageId, claims: &Claims, each: &mut dyn FnMut(PageId, u16, &[u8])) -> Walked {
    let mut walked = Walked::default();
    let first = match ends_of(pages, root, kinds::RECORDS_ROOT) {
        Some(ends) => ends.first.page,
        None => {
            walked.lose(root, "the root of the collection of records");
            0
        }
    };
    let mut next = Vec::from([first]);
    for &id in claims.get(&root).into_iter().flatten() {
        let Some(page) = pages(id) else { continue };
        let page = page.page_ref();
        let Ok(slotted) = Slotted::of(&page) else { continue };
        walked.pages += 1;
        next.extend(
            slotted.get(LINK).ok().flatten().and_then(PageLink::of).and_then(|link| link.next).map(PageId::get),
        );
        for record in slotted.iter() {
            match record {
                Ok((LINK, _)) => {}
                Ok((slot, record)) => {
                    walked.elements += 1;
                    each(id, slot.0, record);
                }
                Err(_) => {
                    walked.lose(id, "invalid records");
                    break;
                }
            }
        }
    }
    lost_of_chain(pages, next, "records of the collection", &mut walked);
    walked
}

/// Reports the pages of a chain that could not be read.
pub fn lost_of_chain(pages: Pages<'_>, mut linked: Vec<u64>, what: &'static str, walked: &mut Walked) {
    linked.sort_unstable();
    linked.dedup();
    for page in linked.into_iter().filter(|&page| page != 0).map(PageId::new) {
        if pages(page).is_none() {
            walked.lose(page, what);
        }
    }
}

fn ends_of(pages: Pages<'_>, root: PageId, kind: LayoutKind) -> Option<Ends> {
    ends::read(&pages(root)?.page_ref(), kind).ok()
}

#[cfg(test)]
mod tests {
    use cedrat_pages::Slot;
    use cedrat_pages::layout::SlottedMut;
    use cedrat_wal::Lsn;

    use super::*;

    const ROOT: PageId = PageId::new(7);

    /// A page of nodes that each name the next one; the elements are the numbers of the slots.
    fn nodes(page: u64, next: &[(u64, u16)]) -> PageBuf {
        let mut buffer = PageBuf::new(PageId::new(page));
        buffer.change(Lsn::new(1), |page| {
            let mut slotted = SlottedMut::format(page);
            for (slot, (page, next)) in (0..).zip(next) {
                let record = [&page.to_le_bytes()[..], &next.to_le_bytes(), &[slot as u8]].concat();
                slotted.insert(Slot(slot), &record).expect("there is room");
            }
        });
        buffer
    }

    fn root_of_list(first: u64) -> PageBuf {
        let mut buffer = PageBuf::new(ROOT);
        buffer.change(Lsn::new(1), |page| {
            page.format(kinds::LIST_ROOT);
            page.put_u64(0, first).expect("it is in the body");
        });
        buffer
    }

    fn read(pages: &[PageBuf]) -> (Vec<u8>, Walked) {
        let find = |id: PageId| pages.iter().find(|page| page.page_ref().id() == id).cloned();
        let mut elements = Vec::new();
        let walked = list(&find, ROOT, &mut |element| elements.extend_from_slice(element));
        (elements, walked)
    }

    #[test]
    fn list_is_read_to_lost_page() {
        let whole = [root_of_list(10), nodes(10, &[(10, 1), (11, 0)]), nodes(11, &[(0, 0)])];
        let (elements, walked) = read(&whole);
        assert_eq!((elements, walked.elements, walked.lost.len()), (vec![0, 1, 0], 3, 0));
        let (elements, walked) = read(&whole[..2]);
        assert_eq!(elements, [0, 1]);
        assert_eq!(walked.lost.iter().map(|lost| lost.page.get()).collect::<Vec<_>>(), [11]);
        let (elements, walked) = read(&whole[1..]);
        assert_eq!((elements.len(), walked.lost[0].page), (0, ROOT));
    }

    #[test]
    fn walk_along_cycle_ends() {
        for len in 1..20 {
            let next: Vec<(u64, u16)> = (0..len).map(|slot| (10, (slot + 1) % len)).collect();
            let (elements, walked) = read(&[root_of_list(10), nodes(10, &next)]);
            assert!(
                elements.len() >= usize::from(len) && elements.len() <= 4 * usize::from(len),
                "{len}: {elements:?}"
            );
            assert_eq!(walked.lost[0].what, "elements of the list behind a cycle");
        }
        // A page-oriented list whose pages lead back is read once.
        let mut root = PageBuf::new(ROOT);
        root.change(Lsn::new(1), |page| {
            page.format(kinds::PAGE_LIST_ROOT);
            page.put_u64(0, 10).and_then(|()| page.put_u64(16, 10)).expect("they are in the body");
        });
        let mut cycle = PageBuf::new(PageId::new(10));
        cycle.change(Lsn::new(1), |page| {
            page.format(kinds::SEQUENCE);
            let links = sequence::Links { next: 10, previous: 10 };
            page.edit(0..cedrat_pages::BODY_LEN, |body| sequence::format(body, ROOT.get(), links)).expect("a body");
        });
        let pages = [root, cycle];
        let find = |id: PageId| pages.iter().find(|page| page.page_ref().id() == id).cloned();
        assert_eq!(page_list(&find, ROOT, &Claims::new(), &mut |_| {}).pages, 1);
    }

    #[test]
    fn lost_elements_are_estimated() {
        let lost = LostPage { page: ROOT, what: "test" };
        let walked = Walked { elements: 100, pages: 10, lost: vec![lost; 3] };
        assert_eq!(walked.lost_elements(), 30);
        assert_eq!(Walked::default().lost_elements(), 0);
    }
}
