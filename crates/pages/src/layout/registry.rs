//! The interface of layouts for code that does not know them: tools that check and print pages.

use std::collections::BTreeMap;

use cedrat_sync::Arc;

use super::{Fixed, Raw, Slotted, Versioned};
use crate::page::{BODY_LEN, Damaged, LayoutKind, Slot};
use crate::view::PageRef;

/// The parts of a record, with their names.
pub type Parts<'p> = &'p [(&'p str, &'p [u8])];

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

    /// Returns the numbers of the page that are in no record, with their names: for tools that print pages.
    ///
    /// The default returns none.
    ///
    /// # Errors
    /// The page is invalid.
    fn fields(&self, page: &PageRef<'_>) -> Result<Vec<(&'static str, u64)>, Damaged> {
        let _ = page;
        Ok(Vec::new())
    }

    /// Calls `each` for every record with the parts that it consists of, such as key and value, and their names: for tools
    /// that print pages.
    ///
    /// The default calls it with each of the [`records`](Layout::records) as one part.
    ///
    /// # Errors
    /// The page is invalid.
    fn parts(&self, page: &PageRef<'_>, each: &mut dyn FnMut(Slot, Parts<'_>)) -> Result<(), Damaged> {
        self.records(page, &mut |slot, record| each(slot, &[("record", record)]))
    }
}

/// A layout of pages that are parts of a larger structure and show no records: only the check of that structure can
/// decide whether their bytes are valid.
#[derive(Clone, Debug)]
pub struct OpaqueLayout {
    /// The number that pages of this layout carry.
    pub kind: LayoutKind,
    /// The name, for people.
    pub name: &'static str,
    /// The numbers at fixed places of the page's body, for people.
    pub numbers: &'static [FixedNumber],
}

/// A little-endian number at a fixed place of a page's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedNumber {
    /// The name, for people.
    pub name: &'static str,
    /// The offset in the body, in bytes.
    pub offset: u16,
    /// The length, in bytes: 2, 4 or 8.
    pub len: u8,
}

impl FixedNumber {
    /// Returns the description of a number of `len` bytes at `offset`.
    pub const fn new(name: &'static str, offset: usize, len: u8) -> FixedNumber {
        assert!(matches!(len, 2 | 4 | 8) && offset + len as usize <= BODY_LEN, "a number within a body");
        FixedNumber { name, offset: offset as u16, len }
    }

    fn read(&self, page: &PageRef<'_>) -> Result<u64, Damaged> {
        let offset = usize::from(self.offset);
        match self.len {
            2 => page.u16_at(offset).map(u64::from),
            4 => page.u32_at(offset).map(u64::from),
            _ => page.u64_at(offset),
        }
    }
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

    fn fields(&self, page: &PageRef<'_>) -> Result<Vec<(&'static str, u64)>, Damaged> {
        self.numbers.iter().map(|number| Ok((number.name, number.read(page)?))).collect()
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

    fn fields(&self, page: &PageRef<'_>) -> Result<Vec<(&'static str, u64)>, Damaged> {
        let names: &[&str] = match self {
            Builtin::Raw => &[],
            Builtin::Fixed => &["record length", "records"],
            Builtin::Slotted => &["slots", "heap end", "bytes of gaps"],
            Builtin::Versioned => &["slots", "heap end", "bytes of gaps", "slots that have gone"],
        };
        let word = page.layout_word();
        Ok(names.iter().zip(0..).map(|(&name, place)| (name, word >> (16 * place) & 0xFFFF)).collect())
    }
}
