//! Reference words: eight bytes that refer to an object, or contain a value of the program (docs/formats/graph.md).

use std::fmt;

use crate::ObjectId;
use cedrat_pages::{PageId, Slot};
use cedrat_txn::RecordId;

const PAYLOAD_BITS: u32 = 56;
const PAYLOAD: u64 = (1 << PAYLOAD_BITS) - 1;

/// The tag of a new object's number.
const NEW: u8 = 0xff;

/// Identity of an object: constant as long as the object lives, and not reused while the store is open.
///
/// As a number it is the page, shifted left by 16 bits, and the slot; less than 2^56, and never 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(u64);

impl Identity {
    /// Returns the identity with this number; `None` if no object can have it.
    pub fn new(number: u64) -> Option<Identity> {
        let (page, slot) = (number >> 16, number & 0xffff);
        (page != 0 && slot != 0 && number <= PAYLOAD).then_some(Identity(number))
    }

    /// The number of the identity.
    pub fn get(self) -> u64 {
        self.0
    }

    pub(crate) fn of(id: ObjectId) -> Identity {
        let number = id.page.get() << 16 | u64::from(id.slot.0);
        debug_assert!(Identity::new(number).is_some(), "an object lies in a page, behind its link");
        Identity(number)
    }

    pub(crate) fn place(self) -> RecordId {
        RecordId::new(PageId::new(self.0 >> 16), Slot((self.0 & 0xffff) as u16))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({self})")
    }
}

/// Displays page and slot.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place().fmt(f)
    }
}

/// Reference of one object to another: null, an object, or a value of the program that is not an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reference(u64);

impl Reference {
    /// The null reference.
    pub const NULL: Reference = Reference(0);

    /// The reference with this word, as stored in an object.
    pub const fn from_word(word: u64) -> Reference {
        Reference(word)
    }

    /// The word, as stored in an object.
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Makes a value that is not an object: a tag from 1 to 254, and 56 bits. `None` if it does not fit.
    pub fn value(tag: u8, payload: u64) -> Option<Reference> {
        let fits = tag != 0 && tag != NEW && payload <= PAYLOAD;
        fits.then_some(Reference(u64::from(tag) << PAYLOAD_BITS | payload))
    }

    /// Makes a reference to the new object of this number, within the changes of one commit.
    pub(crate) fn new_object(number: u64) -> Reference {
        Reference(u64::from(NEW) << PAYLOAD_BITS | number)
    }

    /// The identity of the object, if the reference is one to an object.
    pub fn identity(self) -> Option<Identity> {
        Identity::new(self.0)
    }

    /// Tag and payload, if the reference is a value.
    pub fn as_value(self) -> Option<(u8, u64)> {
        let tag = (self.0 >> PAYLOAD_BITS) as u8;
        (tag != 0).then_some((tag, self.0 & PAYLOAD))
    }

    pub(crate) fn kind(self) -> Word {
        match self.as_value() {
            Some((NEW, number)) => Word::New(number),
            Some(_) => Word::Value,
            None if self.0 == 0 => Word::Null,
            None => self.identity().map_or(Word::Nowhere, Word::Object),
        }
    }
}

impl From<Identity> for Reference {
    fn from(identity: Identity) -> Reference {
        Reference(identity.0)
    }
}

impl From<Option<Identity>> for Reference {
    fn from(identity: Option<Identity>) -> Reference {
        identity.map_or(Reference::NULL, Reference::from)
    }
}

/// Kind of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Null,
    Object(Identity),
    /// A number that no object can have.
    Nowhere,
    New(u64),
    Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_the_format_says() {
        let kind = |word| Reference::from_word(word).kind();
        assert_eq!(kind(0), Word::Null);
        assert_eq!(kind(0x7_0003), Word::Object(Identity::new(0x7_0003).unwrap()));
        assert_eq!(kind(0x7_0000), Word::Nowhere);
        assert_eq!(kind(3), Word::Nowhere);
        assert_eq!(kind(0x0100_0000_0000_0000), Word::Value);
        assert_eq!(kind(0xff00_0000_0000_0009), Word::New(9));
        assert_eq!(Reference::new_object(9).word(), 0xff00_0000_0000_0009);
        assert_eq!(Reference::value(3, 5).unwrap().as_value(), Some((3, 5)));
        assert_eq!(Reference::value(0xff, 5), None);
        assert_eq!(Reference::value(3, 1 << 56), None);
        let identity = Identity::new(0x7_0003).unwrap();
        assert_eq!(Identity::of(identity.place()), identity);
    }
}
