//! The interface of layouts for code that does not know them: tools that check and print pages.

use std::collections::BTreeMap;

use cedrat_sync::Arc;

use super::{Fixed, Raw, Slotted, Versioned};
use crate::page::{Damaged, LayoutKind, Slot};
use crate::view::PageRef;

/// A page layout, as generic tools need it.
///
/// Operations use a layout's own views; through this trait `verify` checks, and tools print, pages of every kind. It
/// must handle any bytes: no panic, no endless loop.
pub trait Layout: Send + Sync {
    /// Returns the number that pages of this layout carry, from [`LayoutKind::USER_FIRST`] on for your own.
    fn kind(&self) -> LayoutKind;

    /// Returns the name, for people.
    fn name(&self) -> &str;

    /// Checks that the whole page is valid.
    ///
    /// # Errors
    /// It is not.
    fn check(&self, page: &PageRef<'_>) -> Result<(), Damaged>;

    /// Calls `each` for every record, by number; never for layouts without records.
    ///
    /// # Errors
    /// The page is invalid.
    fn records(&self, page: &PageRef<'_>, each: &mut dyn FnMut(Slot, &[u8])) -> Result<(), Damaged>;
}

/// A layout of pages that are parts of a larger structure and show no records: only the check of that structure can
/// decide whether their bytes are valid.
#[derive(Clone, Debug)]
pub struct OpaqueLayout {
    /// The number that pages of this layout carry.
    pub kind: LayoutKind,
    /// The name, for people.
    pub name: &'static str,
}

impl Layout for OpaqueLayout {
    fn kind(&self) -> LayoutKind {
        self.kind
    }

    fn name(&self) -> &str {
        self.name
    }

    fn check(&self, _: &PageRef<'_>) -> Result<(), Damaged> {
        Ok(())
    }

    fn records(&self, _: &PageRef<'_>, _: &mut dyn FnMut(Slot, &[u8])) -> Result<(), Damaged> {
        Ok(())
    }
}

/// The layouts that a store knows. It begins with the four of Lemon §4.2.
#[derive(Clone)]
pub struct Layouts {
    by_kind: BTreeMap<LayoutKind, Arc<dyn Layout>>,
}

/// Two layouts claim one number. Choose another for yours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("layout number {} is taken by \"{holder}\", so \"{refused}\" needs another", kind.0)]
pub struct KindTaken {
    /// The number.
    pub kind: LayoutKind,
    /// The name of the layout that has the number.
    pub holder: String,
    /// The name of the layout that was refused.
    pub refused: String,
}

impl Default for Layouts {
    fn default() -> Layouts {
        let mut layouts = Layouts { by_kind: BTreeMap::new() };
        for builtin in [Builtin::Raw, Builtin::Fixed, Builtin::Slotted, Builtin::Versioned] {
            layouts.by_kind.insert(builtin.kind(), Arc::new(builtin));
        }
        layouts
    }
}

impl Layouts {
    /// Adds a layout.
    ///
    /// # Errors
    /// Its number is taken.
    pub fn register(&mut self, layout: Arc<dyn Layout>) -> Result<(), KindTaken> {
        let kind = layout.kind();
        if let Some(holder) = self.by_kind.get(&kind) {
            let (holder, refused) = (holder.name().to_owned(), layout.name().to_owned());
            return Err(KindTaken { kind, holder, refused });
        }
        if kind == LayoutKind::NONE {
            let (holder, refused) = ("no layout".to_owned(), layout.name().to_owned());
            return Err(KindTaken { kind, holder, refused });
        }
        self.by_kind.insert(kind, layout);
        Ok(())
    }

    /// Returns the layout with this number.
    pub fn get(&self, kind: LayoutKind) -> Option<&dyn Layout> {
        self.by_kind.get(&kind).map(|layout| &**layout)
    }

    /// Returns all layouts, by number.
    pub fn iter(&self) -> impl Iterator<Item = &dyn Layout> {
        self.by_kind.values().map(|layout| &**layout)
    }

    /// Checks that the whole page is valid in its own layout. A page that was never formatted is valid.
    ///
    /// # Errors
    /// It is not, or its layout is unknown.
    pub fn check(&self, page: &PageRef<'_>) -> Result<(), Damaged> {
        match self.get(page.kind()) {
            Some(layout) => layout.check(page),
            None if page.kind() == LayoutKind::NONE => Ok(()),
            None => Err(Damaged::wrong_kind(page.id())),
        }
    }
}

impl std::fmt::Debug for Layouts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter().map(|layout| (layout.kind().0, layout.name()))).finish()
    }
}

/// Cedrat's own layouts.
#[derive(Clone, Copy)]
enum Builtin {
    Raw,
    Fixed,
    Slotted,
    Versioned,
}

impl Layout for Builtin {
    fn kind(&self) -> LayoutKind {
        match self {
            Builtin::Raw => LayoutKind::RAW,
            Builtin::Fixed => LayoutKind::FIXED,
            Builtin::Slotted => LayoutKind::SLOTTED,
            Builtin::Versioned => LayoutKind::VERSIONED,
        }
    }

    fn name(&self) -> &str {
        match self {
            Builtin::Raw => "raw",
            Builtin::Fixed => "fixed",
            Builtin::Slotted => "slotted",
            Builtin::Versioned => "versioned",
        }
    }

    fn check(&self, page: &PageRef<'_>) -> Result<(), Damaged> {
        match self {
            Builtin::Raw => Raw::of(page).map(drop),
            Builtin::Fixed => Fixed::of(page).map(drop),
            Builtin::Slotted => Slotted::of(page)?.check(),
            Builtin::Versioned => Versioned::of(page)?.check(),
        }
    }

    fn records(&self, page: &PageRef<'_>, each: &mut dyn FnMut(Slot, &[u8])) -> Result<(), Damaged> {
        match self {
            Builtin::Raw => {
                Raw::of(page)?;
            }
            Builtin::Fixed => Fixed::of(page)?.iter().for_each(|(slot, record)| each(slot, record)),
            Builtin::Slotted => {
                for record in Slotted::of(page)?.iter() {
                    let (slot, record) = record?;
                    each(slot, record);
                }
            }
            Builtin::Versioned => {
                for record in Versioned::of(page)?.iter() {
                    let (slot, _, record) = record?;
                    each(slot, record);
                }
            }
        }
        Ok(())
    }
}
