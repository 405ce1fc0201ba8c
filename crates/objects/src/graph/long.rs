//! Objects that are longer than a record (docs/formats/graph.md).
//!
//! ```text
//! 0   4      5        6   8     16        24
//! | 0 | head | height | 0 | len | changes | words: leaves, or with a height the nodes above them … |
//! | 0 | node | height | 0 | words …  |        height 1: leaves
//! | 0 | leaf | 0      | 0 | bytes … |         PIECE_LEN of them, but for the last
//! ```
//!
//! The head has the object's identity. Each change of a piece increments its counter, so a reader that finds the head
//! unchanged after it has read the pieces has read one state of all of them (E21.3).

use crate::{Edit, OBJECT_LEN_MAX as RECORD_LEN_MAX, Objects};
use cedrat_txn::{RecordId, Result, Txn};

use crate::graph::error::corrupt;
use crate::graph::object::{HEADER_LEN, Header};
use crate::graph::word::Identity;

/// Length of the header of a piece.
const PIECE_HEADER_LEN: usize = 8;

/// Bytes before the words of a head.
const HEAD_LEN: usize = PIECE_HEADER_LEN + 8 + 8;

/// Bytes of an object in one leaf.
pub(crate) const PIECE_LEN: usize = RECORD_LEN_MAX - PIECE_HEADER_LEN;
const _: () = assert!(PIECE_LEN.is_multiple_of(8), "words do not cross the borders of pieces");

/// Longest object that is stored without pieces.
pub(crate) const SHORT_LEN_MAX: usize = RECORD_LEN_MAX;

/// Words in a head, or in a node.
const FAN: usize = (RECORD_LEN_MAX - HEAD_LEN) / 8;

/// The greatest height of a head.
const HEIGHT_MAX: u8 = 2;
const _: () = assert!((FAN.pow(HEIGHT_MAX as u32 + 1) * PIECE_LEN) as u64 >= crate::graph::OBJECT_LEN_MAX);

mod kind {
    pub(super) const HEAD: u8 = 1;
    pub(super) const NODE: u8 = 2;
    pub(super) const LEAF: u8 = 3;
}

/// A record of the collection, as the graph interprets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stored<'b> {
    /// An object, with its bytes.
    Short(&'b [u8]),
    /// An object that lies in pieces.
    Long(Head),
    /// Inner node: identities of the nodes one level below, or of leaves.
    Node {
        height: u8,
        words: Vec<Identity>,
    },
    Leaf(&'b [u8]),
}

impl<'b> Stored<'b> {
    /// Parses a record, which may be any bytes; returns the reason if it is invalid.
    pub(crate) fn of(bytes: &'b [u8]) -> Result<Stored<'b>, &'static str> {
        let (class, _) = bytes.split_first_chunk().ok_or("it is shorter than a class's number")?;
        if u32::from_le_bytes(*class) != 0 {
            return Ok(Stored::Short(bytes));
        }
        let (header, rest) = bytes.split_first_chunk().ok_or("it is shorter than the header of a piece")?;
        match *header {
            [_, _, _, _, kind::LEAF, 0, 0, 0] => Ok(Stored::Leaf(rest)),
            [_, _, _, _, kind::NODE, height @ 1..=HEIGHT_MAX, 0, 0] => {
                Ok(Stored::Node { height, words: identities(rest)? })
            }
            [_, _, _, _, kind::HEAD, height @ 0..=HEIGHT_MAX, 0, 0] => {
                let (len, rest) = rest.split_first_chunk().ok_or("it is shorter than a head")?;
                let (changes, rest) = rest.split_first_chunk().ok_or("it is shorter than a head")?;
                let (len, changes) = (u64::from_le_bytes(*len), u64::from_le_bytes(*changes));
                let head = Head { height, len, changes, words: identities(rest)? };
                if len < HEADER_LEN as u64 {
                    return Err("its head tells of an object that is shorter than an object's header");
                }
                if len > crate::graph::OBJECT_LEN_MAX || head.words.len() != words_at(head.leaves(), height) {
                    return Err("its head has more or fewer words than an object of its length");
                }
                Ok(Stored::Long(head))
            }
            _ => Err("it is neither an object nor a piece of one"),
        }
    }
}

fn identities(bytes: &[u8]) -> Result<Vec<Identity>, &'static str> {
    let (words, []) = bytes.as_chunks() else { return Err("its words are not whole") };
    let identity = |word: &[u8; 8]| Identity::new(u64::from_le_bytes(*word)).ok_or("a word in it is not an identity");
    words.iter().map(identity).collect()
}

/// Returns the number of words above `leaves` leaves, `height` levels up.
fn words_at(leaves: usize, height: u8) -> usize {
    (0..height).fold(leaves, |words, _| words.div_ceil(FAN))
}

fn leaves_of(len: u64) -> usize {
    len.div_ceil(PIECE_LEN as u64) as usize
}

fn leaf_bytes(bytes: &[u8]) -> Vec<u8> {
    [&[0, 0, 0, 0, kind::LEAF, 0, 0, 0], bytes].concat()
}

fn node_bytes(height: u8, words: &[Identity]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 0, kind::NODE, height, 0, 0];
    words.iter().for_each(|word| bytes.extend_from_slice(&word.get().to_le_bytes()));
    bytes
}

/// The head of an object that lies in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) height: u8,
    /// Length of the object, in bytes.
    pub(crate) len: u64,
    changes: u64,
    pub(crate) words: Vec<Identity>,
}

/// Reads the pieces of an object, inside or outside of a transaction.
pub(crate) trait Pieces {
    fn piece<T>(&mut self, at: RecordId, look: impl FnOnce(&[u8]) -> Result<T>) -> Result<T>;
}

/// Reads and changes pieces in a transaction.
pub(crate) struct PieceWriter<'t> {
    pub(crate) objects: &'t Objects,
    pub(crate) txn: &'t mut Txn,
    /// Pieces that it has inserted.
    pub(crate) born: &'t mut Vec<Identity>,
}

impl Pieces for PieceWriter<'_> {
    fn piece<T>(&mut self, at: RecordId, look: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        self.objects.read_for_change(self.txn, at, look)?
    }
}

impl PieceWriter<'_> {
    fn insert(&mut self, piece: &[u8]) -> Result<Identity> {
        let identity = Identity::of(self.objects.insert(self.txn, piece)?);
        self.born.push(identity);
        Ok(identity)
    }

    fn put(&mut self, at: Identity, piece: &[u8]) -> Result<()> {
        self.objects.put(self.txn, at.place(), piece)
    }

    fn remove(&mut self, at: Identity) -> Result<()> {
        self.objects.remove(self.txn, at.place())
    }
}

fn wrong() -> cedrat_txn::Error {
    corrupt("a piece of the object is not what its head says")
}

/// Reads a leaf of `len` bytes.
pub(crate) fn leaf<P: Pieces, T>(pieces: &mut P, at: Identity, len: usize, look: impl FnOnce(&[u8]) -> T) -> Result<T> {
    pieces.piece(at.place(), |bytes| match Stored::of(bytes) {
        Ok(Stored::Leaf(bytes)) if bytes.len() == len => Ok(look(bytes)),
        _ => Err(wrong()),
    })
}

/// Returns the children of a node of this height.
fn node<P: Pieces>(pieces: &mut P, at: Identity, height: u8) -> Result<Vec<Identity>> {
    pieces.piece(at.place(), |bytes| match Stored::of(bytes) {
        Ok(Stored::Node { height: found, words }) if found == height && !words.is_empty() => Ok(words),
        _ => Err(wrong()),
    })
}

/// All pieces of an object.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AllPieces {
    pub(crate) nodes: Vec<Identity>,
    pub(crate) leaves: Vec<Identity>,
}

impl Head {
    pub(crate) fn leaves(&self) -> usize {
        leaves_of(self.len)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0, 0, 0, 0, kind::HEAD, self.height, 0, 0];
        bytes.extend_from_slice(&self.len.to_le_bytes());
        bytes.extend_from_slice(&self.changes.to_le_bytes());
        self.words.iter().for_each(|word| bytes.extend_from_slice(&word.get().to_le_bytes()));
        bytes
    }

    /// Returns the length of the head of an object of `object_len` bytes.
    pub(crate) fn len_for(object_len: u64) -> usize {
        let mut words = leaves_of(object_len);
        while words > FAN {
            words = words.div_ceil(FAN);
        }
        HEAD_LEN + 8 * words
    }

    /// The number of bytes of the object in leaf `index`.
    pub(crate) fn leaf_len(&self, index: usize) -> usize {
        leaf_len(self.len, index)
    }

    /// Returns all pieces, in order.
    pub(crate) fn pieces<P: Pieces>(&self, pieces: &mut P) -> Result<AllPieces> {
        let mut all = AllPieces { nodes: Vec::new(), leaves: self.words.clone() };
        for height in (1..=self.height).rev() {
            let above = std::mem::take(&mut all.leaves);
            for &at in &above {
                all.leaves.extend(node(pieces, at, height)?);
            }
            all.nodes.extend(above);
        }
        if all.leaves.len() != self.leaves() {
            return Err(wrong());
        }
        Ok(all)
    }

    /// Returns the identity of a leaf.
    pub(crate) fn leaf_at<P: Pieces>(&self, pieces: &mut P, index: usize) -> Result<Identity> {
        let mut words = self.words.clone();
        for height in (0..=self.height).rev() {
            let each = FAN.pow(height.into());
            let at = *words.get(index / each % FAN).ok_or_else(wrong)?;
            if height == 0 {
                return Ok(at);
            }
            words = node(pieces, at, height)?;
        }
        Err(wrong())
    }

    /// Reads all bytes of the object.
    pub(crate) fn read<P: Pieces>(&self, pieces: &mut P) -> Result<Vec<u8>> {
        let all = self.pieces(pieces)?;
        let mut bytes = Vec::with_capacity(self.len as usize);
        for (index, &at) in all.leaves.iter().enumerate() {
            leaf(pieces, at, self.leaf_len(index), |leaf| bytes.extend_from_slice(leaf))?;
        }
        Ok(bytes)
    }

    /// Reads the bytes `from..to` of the object, which must be as long as that.
    pub(crate) fn read_range<P: Pieces>(&self, pieces: &mut P, from: u64, to: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity((to - from) as usize);
        let mut at = from;
        while at < to {
            let index = (at / PIECE_LEN as u64) as usize;
            let first = index as u64 * PIECE_LEN as u64;
            let within = (at - first) as usize..(to - first).min(self.leaf_len(index) as u64) as usize;
            let place = self.leaf_at(pieces, index)?;
            leaf(pieces, place, self.leaf_len(index), |leaf| bytes.extend_from_slice(&leaf[within.clone()]))?;
            at = first + within.end as u64;
        }
        Ok(bytes)
    }

    /// Reads the bytes of the references.
    pub(crate) fn references<P: Pieces>(&self, pieces: &mut P) -> Result<Vec<u8>> {
        let start = self.read_range(pieces, 0, HEADER_LEN as u64)?;
        let header = Header::of_object(&start, self.len).map_err(corrupt)?;
        self.read_range(pieces, header.references_at(), self.len)
    }

    // ---- changing ---------------------------------------------------------------------------------------------

    /// Writes the pieces of an object.
    pub(crate) fn write(pen: &mut PieceWriter<'_>, object: &[u8]) -> Result<Head> {
        let mut head = Head { height: 0, len: object.len() as u64, changes: 0, words: Vec::new() };
        for bytes in object.chunks(PIECE_LEN) {
            head.words.push(pen.insert(&leaf_bytes(bytes))?);
        }
        head.raise(pen)?;
        Ok(head)
    }

    /// Adds levels of nodes until their words fit the head.
    fn raise(&mut self, pen: &mut PieceWriter<'_>) -> Result<()> {
        while self.words.len() > FAN {
            self.height += 1;
            let mut above = Vec::new();
            for words in self.words.chunks(FAN) {
                above.push(pen.insert(&node_bytes(self.height, words))?);
            }
            self.words = above;
        }
        Ok(())
    }

    /// Replaces the bytes of the object. The caller writes the head.
    pub(crate) fn rewrite(&mut self, pen: &mut PieceWriter<'_>, object: &[u8]) -> Result<()> {
        let all = self.pieces(pen)?;
        let mut leaves = all.leaves;
        for (index, bytes) in object.chunks(PIECE_LEN).enumerate() {
            match leaves.get(index) {
                Some(leaf) => pen.put(*leaf, &leaf_bytes(bytes))?,
                None => leaves.push(pen.insert(&leaf_bytes(bytes))?),
            }
        }
        let count = leaves_of(object.len() as u64);
        for leaf in leaves.split_off(count) {
            pen.remove(leaf)?;
        }
        if count != self.leaves() {
            for node in all.nodes {
                pen.remove(node)?;
            }
            (self.height, self.words) = (0, leaves);
            self.raise(pen)?;
        }
        self.len = object.len() as u64;
        self.changes += 1;
        Ok(())
    }

    /// Overwrites a part of the object, which grows if necessary; a gap is filled with zeros. The caller writes the head.
    pub(crate) fn overlay(&mut self, pen: &mut PieceWriter<'_>, offset: u64, bytes: &[u8]) -> Result<()> {
        let len = self.len.max(offset + bytes.len() as u64);
        let (old_leaves, leaves) = (self.leaves(), leaves_of(len));
        let grows = len > self.len;
        // The last leaf must be full before another one follows.
        let first = if grows { offset.min(self.len - 1) } else { offset } / PIECE_LEN as u64;
        let last = if grows { leaves } else { (offset + bytes.len() as u64).div_ceil(PIECE_LEN as u64) as usize };
        for index in first as usize..last {
            let at = index as u64 * PIECE_LEN as u64;
            let leaf_len = leaf_len(len, index);
            let from = offset.max(at).min(at + leaf_len as u64);
            let to = (offset + bytes.len() as u64).min(at + leaf_len as u64).max(from);
            let part = if from < to { &bytes[(from - offset) as usize..(to - offset) as usize] } else { &[] };
            let within = (from - at) as usize..(to - at) as usize;
            if index >= old_leaves {
                let mut leaf = vec![0; leaf_len];
                leaf[within].copy_from_slice(part);
                let leaf = pen.insert(&leaf_bytes(&leaf))?;
                self.push(pen, index, leaf)?;
                continue;
            }
            let place = self.leaf_at(pen, index)?.place();
            let edit = if leaf_len == self.leaf_len(index) {
                Some(Edit::Range { at: PIECE_HEADER_LEN + within.start, bytes: part.into() })
            } else {
                None
            };
            pen.objects.edit(pen.txn, place, |old| {
                let Ok(Stored::Leaf(old)) = Stored::of(old) else { return Err(wrong()) };
                let longer = || {
                    let mut leaf = old.to_vec();
                    leaf.resize(leaf_len, 0);
                    leaf[within].copy_from_slice(part);
                    Edit::Whole(leaf_bytes(&leaf))
                };
                Ok((edit.unwrap_or_else(longer), ()))
            })?;
        }
        self.len = len;
        self.changes += 1;
        Ok(())
    }

    /// Adds a leaf behind the `index` others.
    fn push(&mut self, pen: &mut PieceWriter<'_>, index: usize, leaf: Identity) -> Result<()> {
        if index == FAN.pow(u32::from(self.height) + 1) {
            self.height += 1;
            let node = pen.insert(&node_bytes(self.height, &self.words))?;
            self.words = vec![node];
        }
        // The lowest node on the path that has space gets a word; below it, as many new nodes are made as necessary.
        let mut below = leaf;
        for height in 1..=self.height {
            if !index.is_multiple_of(FAN.pow(height.into())) {
                let place = self.last_node(pen, height)?.place();
                let longer = |node: &[u8]| Ok((Edit::Whole([node, &below.get().to_le_bytes()].concat()), ()));
                return pen.objects.edit(pen.txn, place, longer);
            }
            below = pen.insert(&node_bytes(height, &[below]))?;
        }
        self.words.push(below);
        Ok(())
    }

    /// Returns the last node of this height.
    fn last_node<P: Pieces>(&self, pieces: &mut P, height: u8) -> Result<Identity> {
        let mut at = *self.words.last().ok_or_else(wrong)?;
        for above in (height + 1..=self.height).rev() {
            at = *node(pieces, at, above)?.last().ok_or_else(wrong)?;
        }
        Ok(at)
    }

    /// Removes all pieces.
    pub(crate) fn remove_pieces(&self, pen: &mut PieceWriter<'_>) -> Result<()> {
        let all = self.pieces(pen)?;
        all.leaves.into_iter().chain(all.nodes).try_for_each(|piece| pen.remove(piece))
    }
}

fn leaf_len(object_len: u64, index: usize) -> usize {
    (object_len - index as u64 * PIECE_LEN as u64).min(PIECE_LEN as u64) as usize
}
