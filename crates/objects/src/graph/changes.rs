//! Builder for changes in Rust.

use crate::graph::entries::{ALIGNMENT, kind};
use crate::graph::word::{Identity, Reference};

/// Bytes that are allocated at once, if an entry needs no more.
const LEN_USUAL: usize = 256;

/// Changes of one commit: new and changed objects, roots, and classes. See [`Graph::commit`](crate::graph::Graph::commit).
///
/// ```
/// # use cedrat_objects::graph::{Changes, Reference};
/// # let point = 1;
/// let mut changes = Changes::new();
/// // Two that refer to each other: the first knows the second before that is there.
/// let second = changes.next(1);
/// let first = changes.add(point, &7_u64.to_le_bytes(), &[second]);
/// assert_eq!(changes.add(point, &8_u64.to_le_bytes(), &[first]), second);
/// changes.set_root("points", first);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Changes {
    bytes: Vec<u8>,
    new_objects: u64,
}

impl Changes {
    /// Makes an empty set of changes.
    pub fn new() -> Changes {
        Changes::default()
    }

    /// Returns a reference to the object that is added after `others_before` others: 0 is the next one.
    pub fn next(&self, others_before: u64) -> Reference {
        Reference::new_object(self.new_objects + others_before)
    }

    /// Adds an object, and returns a reference to it that is valid within these changes. Data are padded with zeros
    /// to a multiple of 8 bytes.
    ///
    /// # Panics
    /// If it is longer than [`OBJECT_LEN_MAX`](crate::graph::OBJECT_LEN_MAX).
    pub fn add(&mut self, class: u32, data: &[u8], references: &[Reference]) -> Reference {
        let reference = self.next(0);
        self.new_objects += 1;
        let len = object_len(data, references);
        self.head(kind::NEW, len, []);
        self.object(class, data, references);
        reference
    }

    /// Replaces the bytes of an object, and its class.
    ///
    /// # Panics
    /// As [`add`](Changes::add).
    pub fn put(&mut self, identity: Identity, class: u32, data: &[u8], references: &[Reference]) -> &mut Changes {
        let len = object_len(data, references);
        self.head(kind::PUT, len, [identity.get()]);
        self.object(class, data, references);
        self
    }

    /// Overwrites a part of an object, from `offset` on, counted in bytes from its first one: its data begin at 8.
    /// Changes of references are whole words. A patch behind the end of the object adds references; a gap is filled
    /// with nulls.
    pub fn patch(&mut self, identity: Identity, offset: u32, bytes: &[u8]) -> &mut Changes {
        self.head(kind::PATCH, bytes.len(), [identity.get(), offset.into()]);
        self.padded(bytes)
    }

    /// Overwrites the reference at this offset.
    pub fn patch_reference(&mut self, identity: Identity, offset: u32, to: impl Into<Reference>) -> &mut Changes {
        self.patch(identity, offset, &to.into().word().to_le_bytes())
    }

    /// Makes an object the root of this name.
    pub fn set_root(&mut self, name: &str, to: impl Into<Reference>) -> &mut Changes {
        self.head(kind::ROOT, name.len(), [to.into().word()]);
        self.padded(name.as_bytes())
    }

    /// Removes a root, if it exists.
    pub fn remove_root(&mut self, name: &str) -> &mut Changes {
        self.set_root(name, Reference::NULL)
    }

    /// Defines a class by uninterpreted bytes, at most 16 MiB. Objects of these changes may have it. Its number is the one that
    /// follows those of all classes so far, which [`Graph::classes_len`](crate::graph::Graph::classes_len) returns, and of the
    /// classes that these changes define before.
    pub fn define_class(&mut self, number: u32, definition: &[u8]) -> &mut Changes {
        self.head(kind::CLASS, definition.len(), [number.into()]);
        self.padded(definition)
    }

    /// Returns whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The changes as bytes (docs/formats/graph.md).
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends the head of an entry: kind and length, and the words of the kind.
    fn head<const N: usize>(&mut self, kind: u8, len: usize, words: [u64; N]) {
        let len = u32::try_from(len).expect("an object has at most 2^31 bytes");
        // Most commits are a few small entries: they need one allocation, not one for each doubling from 8 bytes on.
        let needed = size_of::<u64>() * (1 + N) + (len as usize).next_multiple_of(ALIGNMENT);
        if self.bytes.capacity() - self.bytes.len() < needed {
            self.bytes.reserve(needed.max(LEN_USUAL));
        }
        self.word(u64::from(kind) | u64::from(len) << 32);
        words.into_iter().for_each(|word| self.word(word));
    }

    fn object(&mut self, class: u32, data: &[u8], references: &[Reference]) {
        let data_len = data.len().next_multiple_of(ALIGNMENT);
        self.word(u64::from(class) | (data_len as u64) << 32);
        self.padded(data);
        references.iter().for_each(|reference| self.word(reference.word()));
    }

    #[inline]
    fn word(&mut self, word: u64) {
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    fn padded(&mut self, bytes: &[u8]) -> &mut Changes {
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        self
    }
}

impl AsRef<[u8]> for Changes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn object_len(data: &[u8], references: &[Reference]) -> usize {
    crate::graph::object::HEADER_LEN + data.len().next_multiple_of(ALIGNMENT) + 8 * references.len()
}
