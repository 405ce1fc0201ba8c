//! The owners of the pages of a recovered store, for `cedrat space` and `cedrat page`.

use cedrat::pages::{LayoutKind, PageId};
use cedrat::structures::{Catalogue, Checked, Kind};
use cedrat::txn::{Store, Txn};
use cedrat_txn::GROUP_PAGES;
use serde::Serialize;

use crate::output::{Failure, plain};
use crate::verify::walked;

/// The name of the catalogue's pages in reports.
pub(crate) const CATALOGUE: &str = "the catalogue";

/// A structure of the catalogue, with its pages.
#[derive(Debug, Serialize)]
pub(crate) struct Structure {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) root: u64,
    /// None if only the program that made it can walk it.
    pub(crate) elements: Option<u64>,
    /// Bytes of its elements.
    pub(crate) element_bytes: u64,
    pub(crate) pages: u64,
    /// Pages of these that others are chained to.
    pub(crate) overflow_pages: u64,
}

/// The owner of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    SpaceMap,
    Catalogue,
    /// The number of a structure among those of the catalogue.
    Structure(usize),
    /// It is allocated, and no structure that can be walked has it.
    Unreached,
    Free,
}

/// The owners of all pages of a store.
#[derive(Debug)]
pub(crate) struct Owners {
    by_page: Vec<u32>,
    /// Structures of the catalogue, by name.
    pub(crate) structures: Vec<Structure>,
    /// Structures that could not be walked: unreached pages may be theirs.
    pub(crate) unwalked: Vec<String>,
}

/// Numbers of owners in [`Owners::by_page`]; a structure has its number plus the last of these.
const FREE: u32 = 0;
const UNREACHED: u32 = 1;
const SPACE_MAP: u32 = 2;
const IN_CATALOGUE: u32 = 3;
const STRUCTURES: u32 = 4;

impl Owners {
    /// Walks all structures of the catalogue. Takes four bytes of memory for each page.
    pub(crate) fn of(store: &Store, class_tag: Option<u8>, problems: &mut Vec<String>) -> Result<Owners, Failure> {
        let by_page = vec![FREE; store.pool().len_pages() as usize];
        let mut owners = Owners { by_page, structures: Vec::new(), unwalked: Vec::new() };
        // The first map was never written where the catalogue is the only page.
        for page in (0..store.pool().len_pages()).step_by(GROUP_PAGES as usize) {
            owners.set(PageId::new(page), SPACE_MAP);
        }
        for page in store.pages_in_use()? {
            owners.set(page, UNREACHED);
        }
        if store.read(cedrat_txn::CATALOGUE)?.kind() == LayoutKind::NONE {
            owners.set(cedrat_txn::CATALOGUE, IN_CATALOGUE);
            return Ok(owners);
        }
        let catalogue = Catalogue::open(store)?;
        let mut txn = store.begin();
        let checked = catalogue.check(&txn)?;
        problems.extend(checked.problems.iter().map(|problem| format!("{CATALOGUE}: {problem}")));
        owners.set(cedrat_txn::CATALOGUE, UNREACHED); // in use, whatever its bit says
        owners.claim(CATALOGUE, &checked, IN_CATALOGUE, problems);
        owners.structures(&catalogue, &mut txn, class_tag, problems)?;
        txn.rollback()?;
        Ok(owners)
    }

    fn structures(
        &mut self,
        catalogue: &Catalogue,
        txn: &mut Txn,
        class_tag: Option<u8>,
        problems: &mut Vec<String>,
    ) -> Result<(), Failure> {
        let store = txn.store().clone();
        for named in catalogue.list(txn)? {
            let checked = walked(&store, txn, &named, class_tag).unwrap_or_else(|Failure(problem)| {
                problems.push(problem);
                None
            });
            let mut structure = Structure {
                name: named.name.clone(),
                kind: named.kind.to_string(),
                root: named.root.get(),
                elements: None,
                element_bytes: 0,
                pages: 0,
                overflow_pages: 0,
            };
            let number = STRUCTURES + self.structures.len() as u32;
            if let Some(checked) = &checked {
                problems.extend(checked.problems.iter().map(|problem| format!("{}: {problem}", named.name)));
                structure.elements = Some(checked.elements);
                structure.element_bytes = checked.bytes;
                structure.overflow_pages = checked.overflow;
                structure.pages = self.claim(&named.name, checked, number, problems);
            } else {
                self.unwalked.push(named.name.clone());
            }
            if checked.is_none() && matches!(named.kind, Kind::User(_)) && self.owner(named.root) == Owner::Unreached {
                // Its root is all that is known of it.
                self.set(named.root, number);
                structure.pages = 1;
            }
            self.structures.push(structure);
        }
        Ok(())
    }

    fn set(&mut self, page: PageId, owner: u32) {
        if let Some(place) = self.by_page.get_mut(page.get() as usize) {
            *place = owner;
        }
    }

    /// Gives allocated pages to their owner, and returns their number.
    fn claim(&mut self, name: &str, checked: &Checked, owner: u32, problems: &mut Vec<String>) -> u64 {
        let mut claimed = 0;
        for &page in &checked.pages {
            match self.owner(page) {
                Owner::Unreached => {
                    self.set(page, owner);
                    claimed += 1;
                }
                Owner::Free => problems.push(format!("{name}: page {page} is not allocated")),
                other => problems.push(format!("{name}: page {page} belongs to {} as well", self.name(other))),
            }
        }
        claimed
    }

    /// Returns the owner of a page. Pages behind the end of the file are free.
    pub(crate) fn owner(&self, page: PageId) -> Owner {
        match self.by_page.get(page.get() as usize).copied() {
            None | Some(FREE) => Owner::Free,
            Some(UNREACHED) => Owner::Unreached,
            Some(SPACE_MAP) => Owner::SpaceMap,
            Some(IN_CATALOGUE) => Owner::Catalogue,
            Some(number) => Owner::Structure((number - STRUCTURES) as usize),
        }
    }

    /// Returns the name of an owner, for people.
    pub(crate) fn name(&self, owner: Owner) -> String {
        match owner {
            Owner::Free => "no structure: it is free".into(),
            Owner::SpaceMap => "the space maps".into(),
            Owner::Catalogue => CATALOGUE.into(),
            Owner::Structure(number) => {
                let structure = self.structures.get(number);
                structure
                    .map_or_else(String::new, |structure| format!("{}, {}", plain(&structure.name), structure.kind))
            }
            Owner::Unreached => "no structure that this command can walk, but it is allocated".into(),
        }
    }
}
