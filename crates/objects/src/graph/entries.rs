//! Changes as bytes, which are not trusted (docs/formats/graph.md).
//!
//! ```text
//! 0      1   4     8
//! | kind | 0 | len | head of the kind | len bytes | anything, up to a multiple of 8 |
//!   1      3   4
//! ```
//!
//! All validation that needs only the bytes happens before any change.

use std::ops::Range;

use crate::graph::classes::DEFINITION_LEN_MAX;
use crate::graph::error::GraphError;
use crate::graph::handle::ROOT_NAME_LEN_MAX;
use crate::graph::object::{self, Header, OBJECT_LEN_MAX};
use crate::graph::word::{Identity, Reference, Word};

pub(crate) mod kind {
    pub(crate) const NEW: u8 = 1;
    pub(crate) const PATCH: u8 = 2;
    pub(crate) const PUT: u8 = 3;
    pub(crate) const ROOT: u8 = 4;
    pub(crate) const CLASS: u8 = 5;
}

/// Entries begin at multiples of this.
pub(crate) const ALIGNMENT: usize = 8;

/// A change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What<'b> {
    New { object: &'b [u8] },
    Patch { identity: Identity, offset: u32, bytes: &'b [u8] },
    Put { identity: Identity, object: &'b [u8] },
    Root { name: &'b str, to: Reference },
    Class { number: u32, definition: &'b [u8] },
}

/// A change, and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'b> {
    pub(crate) number: usize,
    pub(crate) offset: usize,
    pub(crate) what: What<'b>,
}

impl Entry<'_> {
    /// The existing object that it changes, if any.
    pub(crate) fn old(&self) -> Option<Identity> {
        match self.what {
            What::Patch { identity, .. } | What::Put { identity, .. } => Some(identity),
            What::New { .. } | What::Root { .. } | What::Class { .. } => None,
        }
    }

    pub(crate) fn is_of_old(&self) -> bool {
        self.old().is_some()
    }
}

/// All changes of one commit.
#[derive(Debug)]
pub(crate) struct Entries<'b> {
    pub(crate) all: Vec<Entry<'b>>,
    /// Number of new objects.
    pub(crate) new_objects: u64,
    /// Numbers of the classes that are defined.
    pub(crate) new_classes: Range<u32>,
    /// The object with the largest number of a class that was not known to be defined, if there is one.
    pub(crate) unknown_class: Option<UnknownClass>,
}

/// An object of a class that was not known to be defined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnknownClass {
    pub(crate) class: u32,
    /// The number of its entry.
    entry: usize,
    /// The offset of its entry.
    offset: usize,
}

impl UnknownClass {
    /// The error, if the graph has only so many classes.
    pub(crate) fn refused(&self, classes: u32) -> GraphError {
        let what = format!("the object's class is {}; there are {classes}", self.class);
        GraphError::BadEntry { entry: self.entry, offset: self.offset, what }
    }
}

/// Bytes that were not read yet, of this many in all.
struct Bytes<'b> {
    rest: &'b [u8],
    len: usize,
}

impl<'b> Bytes<'b> {
    fn at(&self) -> usize {
        self.len - self.rest.len()
    }

    #[inline]
    fn take(&mut self, len: usize) -> Result<&'b [u8], String> {
        let Some((taken, rest)) = self.rest.split_at_checked(len) else { return Err(self.missing(len)) };
        self.rest = rest;
        Ok(taken)
    }

    #[cold]
    fn missing(&self, len: usize) -> String {
        format!("{len} bytes are missing from byte {} on, where {} are left", self.at(), self.rest.len())
    }

    /// Reads words, after one check of their length.
    #[inline]
    fn words<const N: usize>(&mut self) -> Result<[u64; N], String> {
        let words = self.take(N * size_of::<u64>())?.as_chunks().0;
        Ok(std::array::from_fn(|at| u64::from_le_bytes(words[at])))
    }

    /// Reads the content of an entry, and skips the padding behind it.
    #[inline]
    fn padded(&mut self, len: u32) -> Result<&'b [u8], String> {
        let padded = self.take((len as usize + (ALIGNMENT - 1)) & !(ALIGNMENT - 1))?;
        Ok(&padded[..len as usize])
    }
}

impl<'b> Entries<'b> {
    /// Reads and validates changes. `classes`: a number of classes that are defined; more may be.
    pub(crate) fn of(bytes: &'b [u8], classes: u32) -> Result<Entries<'b>, GraphError> {
        let mut rest = Bytes { rest: bytes, len: bytes.len() };
        // Room for the entries of most commits at once; an entry has at least 16 bytes.
        let mut all = Vec::with_capacity((bytes.len() / 16).min(8));
        let (mut new_objects, mut new_classes) = (0, 0..0);
        while !rest.rest.is_empty() {
            let (number, offset) = (all.len(), rest.at());
            let bad = |what| GraphError::BadEntry { entry: number, offset, what };
            let what = read(&mut rest).map_err(bad)?;
            match what {
                What::New { .. } => new_objects += 1,
                What::Class { number, .. } => new_classes = with_class(new_classes, number).map_err(bad)?,
                What::Patch { .. } | What::Put { .. } | What::Root { .. } => {}
            }
            all.push(Entry { number, offset, what });
        }
        let mut entries = Entries { all, new_objects, new_classes, unknown_class: None };
        // In a second pass, because a word may refer to an object of a later entry, and an object have a class of one.
        let (mut unknown, mut largest) = (None, classes);
        for entry in &entries.all {
            let (number, offset) = (entry.number, entry.offset);
            let bad = |what| GraphError::BadEntry { entry: number, offset, what };
            let class = entries.check(&entry.what).map_err(bad)?;
            if class > largest && !entries.new_classes.contains(&class) {
                largest = class;
                unknown = Some(UnknownClass { class, entry: number, offset });
            }
        }
        entries.unknown_class = unknown;
        Ok(entries)
    }

    /// The names of the roots that are changed.
    pub(crate) fn root_names(&self) -> impl Iterator<Item = &'b str> {
        self.all.iter().filter_map(|entry| match entry.what {
            What::Root { name, .. } => Some(name),
            What::New { .. } | What::Patch { .. } | What::Put { .. } | What::Class { .. } => None,
        })
    }

    /// The entries that define classes, in the order of their numbers, with number and definition.
    pub(crate) fn classes(&self) -> impl Iterator<Item = (&Entry<'b>, u32, &'b [u8])> {
        self.all.iter().filter_map(|entry| match entry.what {
            What::Class { number, definition } => Some((entry, number, definition)),
            What::New { .. } | What::Patch { .. } | What::Put { .. } | What::Root { .. } => None,
        })
    }

    /// The entries that change existing objects, in their order.
    pub(crate) fn of_old(&self) -> impl Iterator<Item = (Identity, &Entry<'b>)> {
        self.all.iter().filter_map(|entry| Some((entry.old()?, entry)))
    }

    /// The existing objects that are changed.
    pub(crate) fn changed(&self) -> impl Iterator<Item = Identity> {
        self.all.iter().filter_map(Entry::old)
    }

    /// Validates an entry; returns the class of its object, 0 if it has none.
    fn check(&self, what: &What<'_>) -> Result<u32, String> {
        match *what {
            What::New { object } | What::Put { object, .. } => {
                let header = Header::of_object(object, object.len() as u64)?;
                object::check_words(&object[header.references_at() as usize..], self.new_objects)?;
                Ok(header.class)
            }
            // Which of its bytes are references depends on the stored object.
            What::Patch { .. } | What::Class { .. } => Ok(0),
            What::Root { to, .. } => {
                object::check_words(&to.word().to_le_bytes(), self.new_objects)?;
                Ok(0)
            }
        }
    }
}

fn read<'b>(rest: &mut Bytes<'b>) -> Result<What<'b>, String> {
    let [head] = rest.words()?;
    let (kind, zeros, len) = (head as u8, head as u32 >> 8, (head >> 32) as u32);
    if zeros != 0 {
        return Err("the three bytes behind the kind are not zero".into());
    }
    let identity = |number: u64| {
        Identity::new(number).ok_or_else(|| format!("{number:#x} is no identity that an object can have"))
    };
    let object = |object: &'b [u8]| match object.len() as u64 {
        len if len > OBJECT_LEN_MAX => Err(format!("an object of {len} bytes; at most {OBJECT_LEN_MAX} are possible")),
        _ => Ok(object),
    };
    Ok(match kind {
        kind::NEW => What::New { object: object(rest.padded(len)?)? },
        kind::PUT => {
            let [number] = rest.words()?;
            What::Put { identity: identity(number)?, object: object(rest.padded(len)?)? }
        }
        kind::PATCH => {
            let [number, place] = rest.words()?;
            let (identity, offset, zero) = (identity(number)?, place as u32, place >> 32);
            if zero != 0 {
                return Err("the four bytes behind the patch's offset are not zero".into());
            }
            let bytes = rest.padded(len)?;
            if u64::from(offset) + u64::from(len) > OBJECT_LEN_MAX {
                return Err(format!("the patch ends behind byte {OBJECT_LEN_MAX}, where no object does"));
            }
            What::Patch { identity, offset, bytes }
        }
        kind::ROOT => {
            let [to] = rest.words()?;
            let to = Reference::from_word(to);
            let name = rest.padded(len)?;
            if name.len() > ROOT_NAME_LEN_MAX {
                return Err(format!(
                    "the root's name has {} bytes; at most {ROOT_NAME_LEN_MAX} are possible",
                    name.len()
                ));
            }
            let name = str::from_utf8(name).map_err(|_| "the root's name is not UTF-8")?;
            What::Root { name, to }
        }
        kind::CLASS => {
            let [number] = rest.words()?;
            let (number, zero) = (number as u32, number >> 32);
            if zero != 0 {
                return Err("the four bytes behind the number of the class are not zero".into());
            }
            let definition = rest.padded(len)?;
            if definition.len() > DEFINITION_LEN_MAX {
                return Err(format!("a definition of {len} bytes; at most {DEFINITION_LEN_MAX} are possible"));
            }
            What::Class { number, definition }
        }
        kind => return Err(format!("there is no kind {kind} of entries")),
    })
}

/// Adds a class to those that the entries before it define.
fn with_class(before: Range<u32>, number: u32) -> Result<Range<u32>, String> {
    if number == 0 || number == u32::MAX {
        return Err(format!("a class cannot have the number {number}"));
    }
    match before.is_empty() {
        true => Ok(number..number + 1),
        false if number == before.end => Ok(before.start..number + 1),
        false => Err(format!("class {number} is defined behind class {}; give it the next number", before.end - 1)),
    }
}

/// Replaces references to new objects by their identities. The words were validated.
pub(crate) fn resolve(bytes: &mut [u8], identities: &[Identity]) {
    for word in bytes.as_chunks_mut().0 {
        if let Word::New(number) = Reference::from_word(u64::from_le_bytes(*word)).kind() {
            *word = identities[number as usize].get().to_le_bytes();
        }
    }
}
