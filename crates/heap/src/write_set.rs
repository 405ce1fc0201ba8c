//! Write set: the words that a transaction will write, kept until it commits.
//!
//! A filter finds most words. The others are searched, linearly where they are few, or else through an index.

use std::ops::Range;

use cedrat_sync::planted;

use crate::view::List;

/// A word to be written.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Write {
    pub(crate) word: u64,
    pub(crate) value: u64,
    /// Number of the heap.
    pub(crate) heap: u32,
    pub(crate) stripe: u32,
    /// Bytes of the word that are written.
    pub(crate) bytes: Bytes,
    /// Whether the call that wrote the word also read it: its stripe then is not in the read set.
    pub(crate) read: bool,
}

/// Some of the eight bytes of a word: one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Bytes(u8);

impl Bytes {
    pub(crate) const ALL: Bytes = Bytes(u8::MAX);

    /// Returns `len` bytes from `first` on.
    pub(crate) fn range(first: usize, len: usize) -> Bytes {
        Bytes((((1u32 << len) - 1) << first) as u8)
    }

    /// Combines `new` in these bytes with `old` in the others.
    pub(crate) fn merge(self, old: u64, new: u64) -> u64 {
        let mask = (0..8).filter(|at| self.0 >> at & 1 != 0).fold(0, |mask, at| mask | 0xff << (8 * at));
        old & !mask | new & mask
    }

    fn and(self, other: Bytes) -> Bytes {
        Bytes(self.0 | other.0)
    }
}

/// Number of words up to which the search is linear. A batch searches seldom, and does not fill an index for it.
const SEARCHED: usize = 64;

/// Number of words up to which their bytes of the filter are cleared one by one. Sets of at most this length have no byte of a
/// word that was undone.
const FEW: usize = 64;

/// Write set of one transaction. Its first two fields are part of the layout that `view` exposes: outside code appends
/// words whose byte of the filter is zero, and sets the byte; and it changes the value of a write that the byte names.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct WriteSet {
    writes: List<Write>,
    pub(crate) filter: Filter,
    /// Whether some word is written only in part.
    partial: bool,
    index: Index,
    /// Number of words in the index: the others are added when a word is searched.
    indexed: usize,
    /// Words whose bytes of the filter name no write until the end, even after a rollback.
    suspected: Vec<Range<u64>>,
    /// Number of those words.
    suspicions: u64,
    /// Values overwritten since the oldest savepoint, with their indices.
    journal: Vec<(u32, Write)>,
    journaling: bool,
}

/// A point in the write set to roll back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteMark {
    writes: usize,
    journal: usize,
}

#[inline(always)]
fn hash(heap: u32, word: u64) -> u64 {
    (word ^ u64::from(heap) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl WriteMark {
    /// The mark of an empty write set.
    pub(crate) const BEGINNING: WriteMark = WriteMark { writes: 0, journal: 0 };
}

impl Default for WriteSet {
    fn default() -> WriteSet {
        /// More than most transactions write: code outside of the library cannot grow the set.
        const ROOM: usize = 64;
        WriteSet {
            writes: List::with_capacity(ROOM),
            filter: Filter::default(),
            partial: false,
            index: Index::default(),
            indexed: 0,
            suspected: Vec::new(),
            suspicions: 0,
            journal: Vec::new(),
            journaling: false,
        }
    }
}

impl WriteSet {
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.forget_index();
        self.clear_filter();
        self.writes.clear();
        self.partial = false;
        self.journal.clear();
        self.journaling = false;
    }

    #[inline(always)]
    fn clear_filter(&mut self) {
        if self.writes.len() as u64 + self.suspicions <= FEW as u64 {
            self.writes.iter().for_each(|write| self.filter.forget(write.word));
            self.suspected.iter().cloned().flatten().for_each(|word| self.filter.forget(word));
        } else {
            self.filter = Filter::default();
        }
        if self.suspicions > 0 {
            self.suspected.clear();
            self.suspicions = 0;
        }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Returns whether some word may be written only in part.
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

    #[inline(always)]
    fn forget_index(&mut self) {
        if self.indexed > 0 {
            self.index.clear();
            self.indexed = 0;
        }
    }

    /// Disables the filter for these words: each access to them calls `find`.
    pub(crate) fn suspect(&mut self, words: Range<u64>) {
        self.filter.suspect(&words);
        self.suspicions += words.end - words.start;
        self.suspected.push(words);
    }

    /// Returns the pending write to a word.
    #[inline(always)]
    pub(crate) fn find(&mut self, heap: u32, word: u64) -> Option<Write> {
        if !self.filter.has(word) {
            return None;
        }
        self.search(heap, word).map(|at| self.writes[at])
    }

    /// Returns the index of the pending write to a word.
    #[inline(never)]
    fn search(&mut self, heap: u32, word: u64) -> Option<usize> {
        let is = |write: &Write| write.word == word && write.heap == heap;
        if let Some(at) = self.filter.index(word) {
            return self.writes.get(at).is_some_and(is).then_some(at);
        }
        if self.writes.len() <= SEARCHED {
            // Most searches find nothing: a loop without an exit has the fewest instructions.
            let has_word = self.writes.iter().fold(false, |has, write| has | (write.word == word));
            if !has_word {
                return None;
            }
            return self.writes.iter().rposition(is);
        }
        self.search_index(heap, word)
    }

    #[inline(never)]
    fn search_index(&mut self, heap: u32, word: u64) -> Option<usize> {
        if self.indexed < self.writes.len() {
            self.index_newest();
        }
        self.index.find(hash(heap, word), |at| {
            let write = &self.writes[at];
            write.word == word && write.heap == heap
        })
    }

    /// Returns whether a write to a word is pending.
    #[inline(always)]
    pub(crate) fn has(&mut self, heap: u32, word: u64) -> bool {
        self.filter.has(word) && self.search(heap, word).is_some()
    }

    /// Returns whether a write can be added without a search and without more memory: certainly none to this word is pending.
    #[inline(always)]
    pub(crate) fn has_place_for(&self, word: u64) -> bool {
        !self.filter.has(word) && self.writes.has_place()
    }

    /// Adds a write to a word that the set does not contain ([`WriteSet::has`]).
    #[inline(always)]
    pub(crate) fn put_new(&mut self, new: Write) {
        if !planted!("written_word_not_in_filter") {
            self.filter.add(new.word, self.writes.len());
        }
        self.writes.push(new);
    }

    /// Adds a write to a word, or changes the pending one.
    #[inline(always)]
    pub(crate) fn put(&mut self, new: Write) {
        self.partial |= new.bytes != Bytes::ALL;
        if self.filter.has(new.word)
            && let Some(at) = self.search(new.heap, new.word)
        {
            return self.change(at, new);
        }
        self.put_new(new);
    }

    /// Appends a word as code outside of the library does.
    #[cfg(test)]
    pub(crate) fn append_outside(&mut self, new: Write) {
        self.filter.add(new.word, self.writes.len());
        self.writes.push(new);
    }

    /// Changes the pending write at this index.
    #[inline(never)]
    fn change(&mut self, at: usize, new: Write) {
        let old = &mut self.writes[at];
        if self.journaling {
            self.journal.push((at as u32, *old));
        }
        old.value = new.bytes.merge(old.value, new.value);
        old.bytes = old.bytes.and(new.bytes);
    }

    /// Adds the words written since the last search to the index.
    fn index_newest(&mut self) {
        if self.indexed == 0 || self.index.is_full(self.writes.len()) {
            self.index.rebuild(self.writes.iter().map(|write| hash(write.heap, write.word)));
        } else {
            for at in self.indexed..self.writes.len() {
                self.index.insert(hash(self.writes[at].heap, self.writes[at].word), at);
            }
        }
        self.indexed = self.writes.len();
    }

    /// Sets a mark; from here on overwritten values are journaled.
    pub(crate) fn mark(&mut self) -> WriteMark {
        self.journaling = true;
        WriteMark { writes: self.writes.len(), journal: self.journal.len() }
    }

    /// Returns whether overwritten values are journaled.
    #[inline]
    pub(crate) fn is_journaling(&self) -> bool {
        self.journaling
    }

    /// Invalidates all marks: nothing is journaled any more.
    #[inline]
    pub(crate) fn unmark(&mut self) {
        self.journal.clear();
        self.journaling = false;
    }

    /// Sets a mark as [`WriteSet::mark`] does, and invalidates all older marks.
    #[inline]
    pub(crate) fn mark_afresh(&mut self) -> WriteMark {
        self.journal.clear();
        self.mark()
    }

    /// Returns the number of overwritten values in the journal.
    #[cfg(all(test, not(cedrat_shuttle)))]
    pub(crate) fn journaled(&self) -> usize {
        self.journal.len()
    }

    /// Returns the words added since the mark.
    pub(crate) fn since(&self, mark: WriteMark) -> &[Write] {
        &self.writes[mark.writes..]
    }

    /// Restores the state at the mark. The cost depends on what is undone, not on what stays: a transaction may write millions of
    /// words and undo a step after each.
    pub(crate) fn back_to(&mut self, mark: WriteMark) {
        for (at, before) in self.journal.drain(mark.journal..).rev() {
            self.writes[at as usize] = before;
        }
        let undone = self.writes.len() - mark.writes;
        if mark.writes <= undone.max(FEW) || planted!("all_words_indexed_again") {
            return self.keep_first(mark.writes);
        }
        // Newest first: no search for an older word has passed its slot.
        for at in (mark.writes..self.indexed).rev() {
            self.index.remove(hash(self.writes[at].heap, self.writes[at].word), at);
        }
        self.indexed = self.indexed.min(mark.writes);
        for (at, write) in self.writes.iter().enumerate().skip(mark.writes) {
            self.filter.remove(write.word, at);
        }
        self.writes.truncate(mark.writes);
    }

    /// Keeps the first `count` words, and makes filter and index anew.
    fn keep_first(&mut self, count: usize) {
        self.writes.truncate(count);
        self.forget_index();
        self.filter = Filter::default();
        self.writes.iter().enumerate().for_each(|(at, write)| self.filter.add(write.word, at));
        self.suspected.iter().for_each(|words| self.filter.suspect(words));
    }
}

/// Words that may be in the set. One byte stands for each word, and for all others whose numbers differ by a multiple of
/// [`Filter::WORDS`]: zero if none of them is in the set, the index plus one of the only one, or [`Filter::ANY`].
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Filter([u8; Filter::WORDS as usize]);

impl Default for Filter {
    fn default() -> Filter {
        Filter([0; Filter::WORDS as usize])
    }
}

impl Filter {
    pub(crate) const WORDS: u64 = 1024;

    /// Any number of them.
    const ANY: u8 = u8::MAX;

    #[inline(always)]
    fn byte(word: u64) -> usize {
        (word % Filter::WORDS) as usize
    }

    #[inline(always)]
    fn has(&self, word: u64) -> bool {
        self.0[Filter::byte(word)] != 0
    }

    /// Returns the index that the byte of a word names, which is not zero. The write there may be one of another word: this one
    /// then is not in the set.
    #[inline(always)]
    fn index(&self, word: u64) -> Option<usize> {
        let byte = self.0[Filter::byte(word)];
        (byte != Filter::ANY).then(|| usize::from(byte.wrapping_sub(1)))
    }

    /// Adds the word of the write at this index.
    #[inline(always)]
    fn add(&mut self, word: u64, at: usize) {
        let byte = &mut self.0[Filter::byte(word)];
        *byte = if *byte == 0 { (at + 1).min(usize::from(Filter::ANY)) as u8 } else { Filter::ANY };
    }

    #[inline(always)]
    fn forget(&mut self, word: u64) {
        self.0[Filter::byte(word)] = 0;
    }

    /// Removes the word of the write at this index, if its byte names that write alone. Any other byte stays: words that the set
    /// lacks may have one.
    fn remove(&mut self, word: u64, at: usize) {
        if self.index(word) == Some(at) {
            self.forget(word);
        }
    }

    fn suspect(&mut self, words: &Range<u64>) {
        words.clone().take(Filter::WORDS as usize).for_each(|word| self.0[Filter::byte(word)] = Filter::ANY);
    }
}

/// Indices of the write set by the hashes of their words.
#[derive(Debug, Default)]
struct Index {
    /// An index plus one; 0 is free.
    table: Vec<u32>,
    #[cfg(test)]
    insertions: u64,
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
        /// Enough for a batch: a table of this length is cleared in some forty instructions.
        const KEPT: usize = 256;
        let wanted = (hashes.len() * 4).next_power_of_two().max(self.table.len().min(KEPT));
        self.table.clear();
        self.table.resize(wanted, 0);
        for (at, hash) in hashes.enumerate() {
            self.insert(hash, at);
        }
    }

    /// Returns the slot where the probing begins; it continues with the next ones.
    #[inline(always)]
    fn first_slot(hash: u64) -> usize {
        (hash >> 20) as usize
    }

    fn insert(&mut self, hash: u64, at: usize) {
        let mask = self.table.len() - 1;
        let mut slot = Index::first_slot(hash) & mask;
        // At most half of the slots are taken.
        while self.table[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        self.table[slot] = at as u32 + 1;
        #[cfg(test)]
        {
            self.insertions += 1;
        }
    }

    /// Removes the index that was inserted last.
    fn remove(&mut self, hash: u64, at: usize) {
        let mask = self.table.len() - 1;
        let mut slot = Index::first_slot(hash) & mask;
        while self.table[slot] != at as u32 + 1 {
            slot = (slot + 1) & mask;
        }
        self.table[slot] = 0;
    }

    #[inline]
    fn find(&self, hash: u64, is: impl Fn(usize) -> bool) -> Option<usize> {
        let mask = self.table.len() - 1;
        let mut slot = Index::first_slot(hash) & mask;
        loop {
            match self.table[slot] {
                0 => return None,
                place if is(place as usize - 1) => return Some(place as usize - 1),
                _ => slot = (slot + 1) & mask,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// More words than are searched linearly.
    const WORDS: u64 = 3 * SEARCHED as u64;

    /// Returns one of many words, of which four share a byte of the filter.
    fn nth(number: u64) -> u64 {
        number % 4 * Filter::WORDS + number / 4
    }

    /// Written values by word, each with a mask of the written bytes.
    type Words = BTreeMap<u64, (u64, u64)>;

    fn write(word: u64, value: u64, bytes: Bytes) -> Write {
        Write { word, value, heap: (word % 2) as u32, stripe: 0, bytes, read: false }
    }

    /// Returns the written value, and a mask of the written bytes.
    fn shown(write: &Write) -> (u64, u64) {
        (write.bytes.merge(0, write.value), write.bytes.merge(0, u64::MAX))
    }

    fn state(set: &WriteSet) -> Words {
        set.all().iter().map(|write| (write.word, shown(write))).collect()
    }

    proptest! {
        /// Compares with a map, with savepoints.
        #[test]
        fn write_set_is_map_with_rollback(
            steps in proptest::collection::vec((0u64..WORDS, any::<u64>(), 0u8..4, 0u8..20), 1..300),
        ) {
            let mut set = WriteSet::default();
            let mut marks: Vec<(WriteMark, Words)> = Vec::new();
            let mut model: Words = BTreeMap::new();
            for (number, value, part, action) in steps {
                let word = nth(number);
                match action {
                    0 => marks.push((set.mark(), model.clone())),
                    1 => if let Some((mark, then)) = marks.pop() {
                        set.back_to(mark);
                        model = then;
                    },
                    2 => set.suspect(word..word + u64::from(part)),
                    _ => {
                        let (first, len) = [(0, 8), (0, 1), (1, 1), (2, 2)][usize::from(part)];
                        set.put(write(word, value, Bytes::range(first, len)));
                        let mask = Bytes::range(first, len).merge(0, u64::MAX);
                        let entry = model.entry(word).or_default();
                        *entry = (entry.0 & !mask | value & mask, entry.1 | mask);
                    }
                }
                prop_assert_eq!(&state(&set), &model);
                for word in (0..WORDS).map(nth) {
                    let found = set.find((word % 2) as u32, word).map(|write| shown(&write));
                    prop_assert_eq!(found, model.get(&word).copied());
                }
            }
            set.clear();
            prop_assert!((0..WORDS).map(nth).all(|word| set.find((word % 2) as u32, word).is_none()));
            prop_assert!((0..Filter::WORDS).all(|word| !set.filter.has(word)));
        }
    }

    #[test]
    fn rollback_costs_what_it_undoes() {
        const KEPT: u64 = 10_000;
        let mut set = WriteSet::default();
        let put = |set: &mut WriteSet, number: u64| set.put(write(number, 1, Bytes::ALL));
        (0..KEPT).for_each(|number| put(&mut set, number));
        for step in 0..1000 {
            let mark = set.mark();
            set.put(write(step, 2, Bytes::ALL));
            (0..3).for_each(|number| put(&mut set, KEPT + number));
            set.back_to(mark);
            let value = |set: &mut WriteSet, word: u64| set.find((word % 2) as u32, word).map(|write| write.value);
            assert_eq!((value(&mut set, step), value(&mut set, KEPT)), (Some(1), None));
        }
        let insertions = set.index.insertions;
        assert!(insertions < 4 * KEPT, "H4d: {insertions} insertions for 1,000 rollbacks of four words each");
    }

    #[test]
    fn words_of_outside_code_are_found() {
        let mut set = WriteSet::default();
        for number in 0..WORDS {
            set.put(write(nth(number), number, Bytes::ALL));
            set.append_outside(write(nth(WORDS + number), number, Bytes::ALL));
        }
        for word in (0..2 * WORDS).map(nth) {
            set.put(write(word, 7, Bytes::ALL));
        }
        assert_eq!(set.all().len() as u64, 2 * WORDS, "no word is there twice");
    }
}
