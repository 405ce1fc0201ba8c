//! The words that a transaction will write, kept until it commits.
//!
//! A few are searched one by one, many through an index. A filter of 64 bits spares most searches of reads.

/// A word to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub(crate) word: u64,
    pub(crate) value: u64,
    /// The number of the heap.
    pub(crate) heap: u32,
    pub(crate) stripe: u32,
    /// Which bytes of the word are written.
    pub(crate) bytes: Bytes,
    /// Whether the word was read as well, by the call that wrote it: its stripe then is not in the list of those read.
    pub(crate) read: bool,
}

/// Some of the eight bytes of a word: one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bytes(u8);

impl Bytes {
    pub(crate) const ALL: Bytes = Bytes(u8::MAX);

    /// `len` bytes from `first` on.
    pub(crate) fn range(first: usize, len: usize) -> Bytes {
        Bytes((((1u32 << len) - 1) << first) as u8)
    }

    /// `new` in these bytes, `old` in the others.
    pub(crate) fn merge(self, old: u64, new: u64) -> u64 {
        let mask = (0..8).filter(|at| self.0 >> at & 1 != 0).fold(0, |mask, at| mask | 0xff << (8 * at));
        old & !mask | new & mask
    }

    fn and(self, other: Bytes) -> Bytes {
        Bytes(self.0 | other.0)
    }
}

/// How many are searched one by one.
const SEARCHED: usize = 8;

/// The write set of one transaction.
#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    writes: Vec<Write>,
    filter: u64,
    /// Some word is written only in part.
    partial: bool,
    index: Index,
    /// What was overwritten since the oldest savepoint, and where.
    journal: Vec<(u32, Write)>,
    journaling: bool,
}

/// A place in the write set to come back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteMark {
    writes: usize,
    journal: usize,
}

/// The filter's bit of a word: neighbours have others.
#[inline(always)]
fn bit(heap: u32, word: u64) -> u64 {
    1 << ((word ^ u64::from(heap)) & 63)
}

#[inline(always)]
fn hash(heap: u32, word: u64) -> u64 {
    (word ^ u64::from(heap) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl WriteMark {
    /// Before anything was written.
    pub(crate) const BEGINNING: WriteMark = WriteMark { writes: 0, journal: 0 };
}

impl WriteSet {
    pub(crate) fn clear(&mut self) {
        if self.writes.len() > SEARCHED {
            self.index.clear();
        }
        self.writes.clear();
        self.filter = 0;
        self.partial = false;
        self.journal.clear();
        self.journaling = false;
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Whether some word may be written only in part.
    #[inline(always)]
    pub(crate) fn has_partial(&self) -> bool {
        self.partial
    }

    #[inline(always)]
    pub(crate) fn all(&self) -> &[Write] {
        &self.writes
    }

    #[inline(always)]
    pub(crate) fn all_mut(&mut self) -> &mut [Write] {
        &mut self.writes
    }

    /// What is to be written to a word.
    #[inline(always)]
    pub(crate) fn find(&self, heap: u32, word: u64) -> Option<Write> {
        if self.filter & bit(heap, word) == 0 {
            return None;
        }
        self.position(heap, word).map(|at| self.writes[at])
    }

    #[inline(never)]
    fn position(&self, heap: u32, word: u64) -> Option<usize> {
        if self.writes.len() <= SEARCHED {
            return self.writes.iter().position(|write| write.word == word && write.heap == heap);
        }
        self.index.find(hash(heap, word), |at| {
            let write = &self.writes[at];
            write.word == word && write.heap == heap
        })
    }

    /// Whether something may be to be written to a word; surely not if `false`.
    #[inline(always)]
    pub(crate) fn may_have(&self, heap: u32, word: u64) -> bool {
        self.filter & bit(heap, word) != 0
    }

    /// Adds a word that [`WriteSet::may_have`] was just asked for in vain.
    #[inline(always)]
    pub(crate) fn put_new(&mut self, new: Write) {
        self.filter |= bit(new.heap, new.word);
        self.writes.push(new);
        if self.writes.len() > SEARCHED {
            self.index_newest(hash(new.heap, new.word));
        }
    }

    /// Adds a word, or changes what is to be written to it.
    #[inline(always)]
    pub(crate) fn put(&mut self, new: Write) {
        self.partial |= new.bytes != Bytes::ALL;
        let bit = bit(new.heap, new.word);
        if self.filter & bit != 0 && self.change(new) {
            return;
        }
        self.filter |= bit;
        self.writes.push(new);
        if self.writes.len() > SEARCHED {
            self.index_newest(hash(new.heap, new.word));
        }
    }

    /// Changes what is to be written to a word that is there already; `false` if it is not.
    #[inline(never)]
    fn change(&mut self, new: Write) -> bool {
        let Some(at) = self.position(new.heap, new.word) else { return false };
        let old = &mut self.writes[at];
        if self.journaling {
            self.journal.push((at as u32, *old));
        }
        old.value = new.bytes.merge(old.value, new.value);
        old.bytes = old.bytes.and(new.bytes);
        true
    }

    fn index_newest(&mut self, newest: u64) {
        let len = self.writes.len();
        if len == SEARCHED + 1 || self.index.is_full(len) {
            self.index.rebuild(self.writes.iter().map(|write| hash(write.heap, write.word)));
        } else {
            self.index.insert(newest, len - 1);
        }
    }

    /// From here on what is overwritten is remembered.
    pub(crate) fn mark(&mut self) -> WriteMark {
        self.journaling = true;
        WriteMark { writes: self.writes.len(), journal: self.journal.len() }
    }

    /// What was written since the mark.
    pub(crate) fn since(&self, mark: WriteMark) -> &[Write] {
        &self.writes[mark.writes..]
    }

    /// As it was at the mark.
    pub(crate) fn back_to(&mut self, mark: WriteMark) {
        for (at, before) in self.journal.drain(mark.journal..).rev() {
            self.writes[at as usize] = before;
        }
        self.writes.truncate(mark.writes);
        self.index.clear();
        self.filter = 0;
        for write in &self.writes {
            self.filter |= bit(write.heap, write.word);
        }
        if self.writes.len() > SEARCHED {
            self.index.rebuild(self.writes.iter().map(|write| hash(write.heap, write.word)));
        }
    }
}

/// Places of the write set by the hashes of their words.
#[derive(Debug, Default)]
struct Index {
    /// A place plus one; 0 is free.
    table: Vec<u32>,
}

impl Index {
    fn clear(&mut self) {
        if self.table.len() > 4096 {
            self.table = Vec::new(); // one large transaction should not slow down all later ones
        }
        self.table.fill(0);
    }

    fn is_full(&self, len: usize) -> bool {
        len * 2 > self.table.len()
    }

    fn rebuild(&mut self, hashes: impl ExactSizeIterator<Item = u64>) {
        let wanted = (hashes.len() * 4).next_power_of_two();
        self.table.clear();
        self.table.resize(wanted, 0);
        for (at, hash) in hashes.enumerate() {
            self.insert(hash, at);
        }
    }

    fn slots(&self, hash: u64) -> impl Iterator<Item = usize> {
        let mask = self.table.len() - 1;
        let first = (hash >> 20) as usize;
        (0..self.table.len()).map(move |step| (first + step) & mask)
    }

    fn insert(&mut self, hash: u64, at: usize) {
        let free = self.slots(hash).find(|&slot| self.table[slot] == 0).expect("it is at most half full");
        self.table[free] = at as u32 + 1;
    }

    fn find(&self, hash: u64, is: impl Fn(usize) -> bool) -> Option<usize> {
        for slot in self.slots(hash) {
            match self.table[slot] {
                0 => return None,
                place if is(place as usize - 1) => return Some(place as usize - 1),
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// What is written to words, and ones where it is.
    type Words = BTreeMap<u64, (u64, u64)>;

    fn write(word: u64, value: u64, bytes: Bytes) -> Write {
        Write { word, value, heap: (word % 2) as u32, stripe: 0, bytes, read: false }
    }

    /// What is written, and a word of ones where it is.
    fn shown(write: &Write) -> (u64, u64) {
        (write.bytes.merge(0, write.value), write.bytes.merge(0, u64::MAX))
    }

    fn state(set: &WriteSet) -> Words {
        set.all().iter().map(|write| (write.word, shown(write))).collect()
    }

    proptest! {
        /// Against a map, with savepoints.
        #[test]
        fn a_write_set_is_a_map_that_can_go_back(
            steps in proptest::collection::vec((0u64..40, any::<u64>(), 0u8..4, 0u8..12), 1..300),
        ) {
            let mut set = WriteSet::default();
            let mut marks: Vec<(WriteMark, Words)> = Vec::new();
            let mut model: Words = BTreeMap::new();
            for (word, value, part, action) in steps {
                match action {
                    0 => marks.push((set.mark(), model.clone())),
                    1 => if let Some((mark, then)) = marks.pop() {
                        set.back_to(mark);
                        model = then;
                    },
                    _ => {
                        let (first, len) = [(0, 8), (0, 1), (1, 1), (2, 2)][usize::from(part)];
                        set.put(write(word, value, Bytes::range(first, len)));
                        let mask = Bytes::range(first, len).merge(0, u64::MAX);
                        let entry = model.entry(word).or_default();
                        *entry = (entry.0 & !mask | value & mask, entry.1 | mask);
                    }
                }
                prop_assert_eq!(&state(&set), &model);
                for word in 0..40 {
                    let found = set.find((word % 2) as u32, word).map(|write| shown(&write));
                    prop_assert_eq!(found, model.get(&word).copied());
                }
            }
            set.clear();
            prop_assert!((0..40).all(|word| set.find((word % 2) as u32, word).is_none()));
        }
    }
}
