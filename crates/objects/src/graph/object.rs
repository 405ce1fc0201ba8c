//! The bytes of an object (docs/formats/graph.md).
//!
//! ```text
//! 0       4          8       8 + data_len
//! | class | data_len | data  | references, 8 bytes each, to the end |
//!   4       4
//! ```

use crate::graph::word::{Reference, Word};

/// The longest object, in bytes.
pub const OBJECT_LEN_MAX: u64 = 1 << 31;

/// Bytes before the data.
pub(crate) const HEADER_LEN: usize = 4 + 4;

/// Header of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) class: u32,
    pub(crate) data_len: u32,
}

impl Header {
    pub(crate) fn of(bytes: &[u8]) -> Option<Header> {
        let number = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        Some(Header { class: number(0)?, data_len: number(4)? })
    }

    /// Offset of the references.
    pub(crate) fn references_at(self) -> u64 {
        HEADER_LEN as u64 + u64::from(self.data_len)
    }

    /// Validates the header of an object of `len` bytes, or returns the reason why it is invalid.
    pub(crate) fn of_object(bytes: &[u8], len: u64) -> Result<Header, &'static str> {
        let header = Header::of(bytes).ok_or("the object is shorter than its header, which has 8 bytes")?;
        if header.class == 0 {
            return Err("the object's class is 0; classes are numbered from 1");
        }
        if !header.data_len.is_multiple_of(8) {
            return Err("the length of the object's data is no multiple of 8; pad them with zeros");
        }
        let references = len.checked_sub(header.references_at());
        let references = references.ok_or("the object's data are longer than the object")?;
        if !references.is_multiple_of(8) {
            return Err("the object's references are no whole words of 8 bytes");
        }
        if len > OBJECT_LEN_MAX {
            return Err("the object is longer than 2^31 bytes");
        }
        Ok(header)
    }
}

/// Returns the words in bytes, whose length is a multiple of 8.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = Reference> + '_ {
    bytes.as_chunks().0.iter().map(|&word| Reference::from_word(u64::from_le_bytes(word)))
}

/// Returns an error if these words must not occur in an object, in changes with `new_objects` new objects.
pub(crate) fn check_words(bytes: &[u8], new_objects: u64) -> Result<(), String> {
    for word in words(bytes) {
        match word.kind() {
            Word::Null | Word::Object(_) | Word::Value => {}
            Word::New(number) if number < new_objects => {}
            Word::New(number) => {
                return Err(format!("new object {number} is referred to, but there are {new_objects} in all"));
            }
            Word::Nowhere => {
                let word = word.word();
                return Err(format!("the reference {word:#x} is invalid: no object has such an identity"));
            }
        }
    }
    Ok(())
}

/// An object as it was committed: see [`Graph::object`](crate::graph::Graph::object).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The number of its class.
    pub class: u32,
    /// Its data: a multiple of 8 bytes.
    pub data: Vec<u8>,
    /// The references of the object.
    pub references: Vec<Reference>,
}

impl Object {
    pub(crate) fn of(bytes: &[u8]) -> Result<Object, &'static str> {
        let header = Header::of_object(bytes, bytes.len() as u64)?;
        let (data, references) = bytes[HEADER_LEN..].split_at(header.data_len as usize);
        Ok(Object { class: header.class, data: data.to_vec(), references: words(references).collect() })
    }
}
