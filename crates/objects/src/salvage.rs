//! Objects and graphs read from single pages, of which some are missing or damaged, without a store: for `cedrat salvage`.
//!
//! As in [`cedrat_structures::salvage`]. Each page of objects names its collection, so all objects of whole pages are read.

use std::collections::BTreeMap;

use cedrat_pages::{PageId, PageRef};
use cedrat_structures::Kind;
use cedrat_structures::salvage::{Claims, Pages, Walked, hash_table, lost_of_chain};
use cedrat_txn::RecordId;

use crate::ObjectId;
use crate::graph::salvage::Parts;
use crate::graph::{Identity, Object, Reference};
use crate::place::Ends;
use crate::record::{ObjectPage, object};

/// Returns the kind of the structure of which a page is the root, if it is one of this crate and was not dropped.
pub fn kind_of_root(page: &PageRef<'_>) -> Option<Kind> {
    match Ends::of(page) {
        Ok(Some(_)) => Some(Kind::Objects),
        _ => Parts::of(page).map(|_| Kind::Graph),
    }
}

/// Returns the roots of the parts of a graph, which are no structures of their own; none if its root is lost.
pub fn parts_of_graph(pages: Pages<'_>, root: PageId) -> Vec<PageId> {
    let parts = pages(root).and_then(|page| Parts::of(&page.page_ref()));
    parts.map_or(Vec::new(), |parts| vec![parts.objects, parts.roots, parts.classes])
}

/// Reads the objects of a collection from all pages that name it.
pub fn objects(pages: Pages<'_>, root: PageId, claims: &Claims, each: &mut dyn FnMut(ObjectId, &[u8])) -> Walked {
    let mut walked = Walked::default();
    let mut linked = Vec::new();
    match pages(root).and_then(|page| Ends::of(&page.page_ref()).ok().flatten()) {
        Some(ends) => linked.extend(ends.first.map(PageId::get)),
        None => walked.lose(root, "the root of the collection of objects"),
    }
    for &id in claims.get(&root).into_iter().flatten() {
        let Some(page) = pages(id) else { continue };
        let page = page.page_ref();
        let Ok(Some(found)) = ObjectPage::of(&page) else { continue };
        walked.pages += 1;
        linked.extend(found.link.next.map(PageId::get));
        for slot in found.slots() {
            let at = RecordId::new(id, slot);
            match found.get(slot) {
                Ok(Some(record)) if !record.header.is_dead() && !record.header.is_target() => {
                    let is_read = match record.header.forward {
                        None => {
                            each(at, object(record.bytes, &record.header));
                            true
                        }
                        Some(to) => read_target(pages, to, &mut |bytes| each(at, bytes)),
                    };
                    walked.elements += u64::from(is_read);
                    if !is_read {
                        walked.lose(record.header.forward.map_or(id, |to| to.page), "an object that has moved there");
                    }
                }
                Ok(_) => {}
                Err(_) => walked.lose(id, "an object with an invalid header"),
            }
        }
    }
    lost_of_chain(pages, linked, "objects of the collection", &mut walked);
    walked
}

/// Reads the record that an object has moved to.
fn read_target(pages: Pages<'_>, to: RecordId, look: &mut dyn FnMut(&[u8])) -> bool {
    let Some(page) = pages(to.page) else { return false };
    let page = page.page_ref();
    let Ok(Some(found)) = ObjectPage::of(&page) else { return false };
    match found.get(to.slot) {
        Ok(Some(record)) if record.header.is_target() && !record.header.is_dead() => {
            look(object(record.bytes, &record.header));
            true
        }
        _ => false,
    }
}

/// Calls `look` with the object of this identity, and returns whether there is one.
pub(crate) fn read_object(pages: Pages<'_>, at: RecordId, look: &mut dyn FnMut(&[u8])) -> bool {
    let Some(page) = pages(at.page) else { return false };
    let page = page.page_ref();
    let Ok(Some(found)) = ObjectPage::of(&page) else { return false };
    match found.get(at.slot) {
        Ok(Some(record)) if record.header.is_dead() || record.header.is_target() => false,
        Ok(Some(record)) => match record.header.forward {
            Some(to) => read_target(pages, to, look),
            None => {
                look(object(record.bytes, &record.header));
                true
            }
        },
        _ => false,
    }
}

/// The part of a graph that a walk has come to.
#[derive(Debug)]
pub enum GraphPart<'g> {
    /// A class, from number 1 on, with its definition: `None` if it was dropped, empty if it is lost.
    Class(u32, Option<&'g [u8]>),
    /// An object.
    Object(Identity, &'g Object),
    /// A root.
    Root(&'g str, Reference),
}

/// Reads a graph: classes, then objects, then roots. Objects of which a piece is lost are lost as a whole.
pub fn graph(
    pages: Pages<'_>,
    root: PageId,
    claims: &Claims,
    is_recovered: bool,
    each: &mut dyn FnMut(GraphPart<'_>),
) -> Walked {
    let mut walked = Walked::default();
    let Some(parts) = pages(root).and_then(|page| Parts::of(&page.page_ref())) else {
        walked.lose(root, "the root of the graph");
        return walked;
    };
    let mut pieces = BTreeMap::new();
    let classes = hash_table(pages, parts.classes, claims, is_recovered, &mut |key, piece| {
        if let Ok(key) = <[u8; 8]>::try_from(key) {
            pieces.entry(u64::from_be_bytes(key)).or_insert_with(|| piece.to_vec());
        }
    });
    crate::graph::salvage::classes(&pieces, &mut |number, definition| each(GraphPart::Class(number, definition)));
    drop(pieces);
    let mut broken = Vec::new();
    let found =
        objects(pages, parts.objects, claims, &mut |at, bytes| match crate::graph::salvage::object(pages, bytes) {
            Ok(Some(object)) => each(GraphPart::Object(Identity::of(at), &object)),
            Ok(None) => {}
            Err(page) => broken.push(page.unwrap_or(at.page)),
        });
    let mut roots = Vec::new();
    let of_roots = hash_table(pages, parts.roots, claims, is_recovered, &mut |name, word| {
        if let (Ok(name), Ok(word)) = (str::from_utf8(name), <[u8; 8]>::try_from(word)) {
            roots.push((name.to_owned(), Reference::from_word(u64::from_le_bytes(word))));
        }
    });
    for (name, to) in roots {
        each(GraphPart::Root(&name, to));
    }
    walked.elements = found.elements;
    walked.pages = found.pages;
    walked.lost = [classes.lost, found.lost, of_roots.lost].concat();
    for page in broken {
        walked.lose(page, "a part of an object of several pieces");
    }
    walked
}
