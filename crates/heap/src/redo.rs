//! Redo: encoding of heap words in a commit record (drawn in docs/formats/heap.md).
//!
//! ```text
//! body   run*
//! run    tag 1 | number 0 to 8 | [count varint] | value 8 *
//! pairs  tag 1 | number 0 to 8 | (word 4, value 8) *
//! tag    bits 0 to 3: number of bytes of the number
//!        bit 4: a count follows, else there is one value
//!        bit 5: the number is that of the heap of the runs and pairs that follow; the entry ends here
//!        bit 6: the number counts the pairs that follow, each a word's number and its value
//! ```
//!
//! A run's number is that of its first word, counted from the heap's beginning. Numbers and values are little endian. A
//! body begins with the number of its heap.
//!
//! Most commits write a few scattered words: encoded as pairs, whose positions are known before the first one is written,
//! that takes a quarter of the instructions of as many runs, and a byte less for each word.

use crate::write_set::Write;

/// Bits of a tag.
const COUNT_FOLLOWS: u8 = 0x10;
const HEAP: u8 = 0x20;
const PAIRS: u8 = 0x40;
const LEN_MASK: u8 = 0x0f;

/// Encodes runs.
#[derive(Debug, Default)]
pub(crate) struct RedoWriter {
    /// Always some bytes longer than the used part, so that numbers can be written in one step.
    bytes: Vec<u8>,
    used: usize,
    heap: Option<u32>,
    /// Offsets at which one part ends and the next begins.
    cuts: Vec<usize>,
    part_len_max: usize,
}

/// Maximum number of bytes before a run's values: its heap, then its own head.
pub(crate) const RUN_HEAD_MAX: usize = (1 + 4) + (1 + 8 + 10);

/// A pair: the word's number in four bytes, its value in eight.
const PAIR_LEN: usize = 4 + 8;

/// Larger write sets are encoded as runs. A byte counts the pairs.
const PAIRS_MAX: usize = 64;

/// Number of words up to which they are encoded as pairs without testing for runs: encoding them is cheaper than the test.
const PAIRS_IN_ANY_CASE: usize = 8;

/// Returns whether words are mostly consecutive, so that runs are shorter than pairs.
fn are_joined(writes: &[Write]) -> bool {
    let joined = writes.windows(2).filter(|pair| follows(&pair[1], &pair[0], 1)).count();
    2 * joined > writes.len()
}

/// Length of what precedes the pairs, in a body that has nothing else.
const HEAD_LEN: usize = 4;

/// Returns what precedes the pairs in a body of a small write set to one heap of so many words. `None` if runs are shorter or a
/// number has no place.
#[inline]
pub(crate) fn pairs_head(writes: &[Write], words: u64) -> Option<[u8; HEAD_LEN]> {
    let heap = writes.first()?.heap;
    let is_small = writes.len() <= PAIRS_MAX && heap <= u32::from(u8::MAX) && words <= 1 << u32::BITS;
    let fits = is_small && (writes.len() <= PAIRS_IN_ANY_CASE || !are_joined(writes));
    fits.then_some([HEAP | 1, heap as u8, PAIRS | 1, writes.len() as u8])
}

/// Returns the length of a body of so many pairs and of what precedes them.
pub(crate) const fn pairs_len(count: usize) -> usize {
    HEAD_LEN + count * PAIR_LEN
}

/// Returns the pair of a written word.
#[inline(always)]
pub(crate) fn pair(write: &Write) -> (u32, u64) {
    (write.word as u32, write.value)
}

/// Returns whether a word is the `distance`th after another one, of the same heap.
#[inline(always)]
fn follows(write: &Write, first: &Write, distance: u64) -> bool {
    write.word == first.word + distance && write.heap == first.heap
}

impl RedoWriter {
    /// Begins a body, of which no part shall be longer than this many bytes.
    #[inline]
    pub(crate) fn begin(&mut self, part_len_max: usize) {
        self.used = 0;
        self.heap = None;
        self.cuts.clear();
        self.part_len_max = part_len_max;
    }

    /// Returns the number of parts, at least one.
    #[inline]
    pub(crate) fn parts(&self) -> usize {
        self.cuts.len() + 1
    }

    /// Returns the part that goes into the commit record.
    #[inline]
    pub(crate) fn last_part(&self) -> &[u8] {
        &self.bytes[self.part_begin()..self.used]
    }

    fn part_begin(&self) -> usize {
        self.cuts.last().copied().unwrap_or(0)
    }

    /// Returns the parts before the commit record.
    pub(crate) fn all_but_last(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.cuts.iter().copied());
        begins.zip(&self.cuts).map(|(begin, &end)| &self.bytes[begin..end])
    }

    /// Encodes a whole write set. Words that are consecutive both in it and in the heap become one run.
    pub(crate) fn writes(&mut self, writes: &[Write]) {
        let mut rest = writes;
        while !rest.is_empty() {
            rest = &rest[self.first_run(rest)..];
        }
    }

    /// Encodes a small write set as the whole body, in pairs. Returns `false`, without effect, if it does not fit or runs
    /// are shorter.
    pub(crate) fn pairs_alone(&mut self, writes: &[Write]) -> bool {
        let Some(first) = writes.first() else { return false };
        let words = writes.iter().map(|write| write.word).max().unwrap_or(0) + 1;
        let len = pairs_len(writes.len());
        let is_one_heap = writes.iter().all(|write| write.heap == first.heap);
        let Some(head) = pairs_head(writes, words).filter(|_| is_one_heap && len <= self.part_len_max) else {
            return false;
        };
        if self.bytes.len() < len {
            self.grow(len);
        }
        let (to, pairs) = self.bytes[..len].split_at_mut(HEAD_LEN);
        to.copy_from_slice(&head);
        for (to, write) in pairs.as_chunks_mut::<PAIR_LEN>().0.iter_mut().zip(writes) {
            let (word, value) = pair(write);
            to[..4].copy_from_slice(&word.to_le_bytes());
            to[4..].copy_from_slice(&value.to_le_bytes());
        }
        self.used = len;
        true
    }

    /// Encodes the run at the beginning of a write set; returns its number of words.
    fn first_run(&mut self, writes: &[Write]) -> usize {
        let first = &writes[0];
        let count = (1..writes.len()).find(|&at| !follows(&writes[at], first, at as u64)).unwrap_or(writes.len());
        self.run(first.heap, first.word, count, writes[..count].iter().map(|write| write.value));
        count
    }

    /// Encodes `count` words from `first` on.
    #[inline]
    pub(crate) fn run(&mut self, heap: u32, first: u64, count: usize, mut values: impl Iterator<Item = u64>) {
        let (mut first, mut left) = (first, count);
        while left > 0 {
            let fits = self.room_for(left);
            self.head(heap, first, fits);
            for value in values.by_ref().take(fits) {
                self.bytes[self.used..self.used + 8].copy_from_slice(&value.to_le_bytes());
                self.used += 8;
            }
            (first, left) = (first + fits as u64, left - fits);
        }
    }

    /// Reserves space for a run of up to this many words; returns how many of them fit into the part.
    #[inline]
    fn room_for(&mut self, count: usize) -> usize {
        let needed = RUN_HEAD_MAX + 8 * count;
        if self.used + needed > self.part_begin() + self.part_len_max {
            return self.room_in_parts(count);
        }
        // Eight more: a number is written as eight bytes, however short it is.
        if self.bytes.len() < self.used + needed + 8 {
            self.grow(needed);
        }
        count
    }

    #[cold]
    fn room_in_parts(&mut self, count: usize) -> usize {
        let room = |begin: usize| (begin + self.part_len_max).saturating_sub(self.used + RUN_HEAD_MAX) / 8;
        let mut fits = room(self.part_begin()).min(count);
        if fits == 0 {
            self.cuts.push(self.used);
            self.heap = None;
            fits = ((self.part_len_max - RUN_HEAD_MAX) / 8).min(count);
        }
        self.grow(RUN_HEAD_MAX + 8 * fits);
        fits
    }

    #[cold]
    fn grow(&mut self, needed: usize) {
        let len = (self.used + needed + 8).next_power_of_two().max(1024);
        self.bytes.resize(len.max(self.bytes.len()), 0);
    }

    #[inline]
    fn head(&mut self, heap: u32, first: u64, count: usize) {
        if self.heap != Some(heap) {
            self.number(HEAP, u64::from(heap));
            self.heap = Some(heap);
        }
        if count == 1 {
            self.number(0, first);
        } else {
            self.number(COUNT_FOLLOWS, first);
            self.count(count as u64);
        }
    }

    /// Encodes a tag and its number.
    #[inline]
    fn number(&mut self, tag: u8, number: u64) {
        let len = (64 - number.leading_zeros() as usize).div_ceil(8);
        self.bytes[self.used] = tag | len as u8;
        self.bytes[self.used + 1..self.used + 9].copy_from_slice(&number.to_le_bytes());
        self.used += 1 + len;
    }

    fn count(&mut self, mut count: u64) {
        while count >= 0x80 {
            self.bytes[self.used] = count as u8 | 0x80;
            count >>= 7;
            self.used += 1;
        }
        self.bytes[self.used] = count as u8;
        self.used += 1;
    }
}

/// An invalid body whose checksum is correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt(pub &'static str);

/// A run of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run<'a> {
    pub(crate) heap: u32,
    pub(crate) first: u64,
    /// The values, eight bytes each.
    pub(crate) values: &'a [u8],
}

/// Decoder of a body's runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runs<'a> {
    rest: &'a [u8],
    heap: Option<u32>,
    /// Number of pairs to return first.
    pairs: u64,
}

const CUT: Corrupt = Corrupt("a run of words is truncated");

/// Calls `seen` for each run of words that a commit, or a part of one, writes: with the number of the heap, the first word, and
/// the values, eight bytes each, little endian.
///
/// # Errors
/// The body is invalid; the runs before the defect were seen.
pub fn words_of_commit(body: &[u8], mut seen: impl FnMut(u32, u64, &[u8])) -> Result<(), Corrupt> {
    Runs::of(body).try_for_each(|run| run.map(|run| seen(run.heap, run.first, run.values)))
}

impl<'a> Runs<'a> {
    pub(crate) fn of(body: &'a [u8]) -> Runs<'a> {
        Runs { rest: body, heap: None, pairs: 0 }
    }

    #[inline]
    fn take(&mut self) -> Result<Option<Run<'a>>, Corrupt> {
        if self.pairs > 0 {
            return self.pair().map(Some);
        }
        while let Some((&tag, rest)) = self.rest.split_first() {
            self.rest = rest;
            let number = self.number(usize::from(tag & LEN_MASK))?;
            if tag & HEAP != 0 {
                let heap = u32::try_from(number).map_err(|_| Corrupt("the number of a heap is too large"))?;
                self.heap = Some(heap);
                continue;
            }
            let heap = self.heap.ok_or(Corrupt("words without a heap"))?;
            if tag & PAIRS != 0 {
                self.pairs = number;
                if number == 0 {
                    continue;
                }
                return self.pair().map(Some);
            }
            let count = if tag & COUNT_FOLLOWS == 0 { 1 } else { self.count()? };
            let len = count.checked_mul(8).and_then(|len| usize::try_from(len).ok()).ok_or(CUT)?;
            let (values, rest) = self.rest.split_at_checked(len).ok_or(CUT)?;
            self.rest = rest;
            return Ok(Some(Run { heap, first: number, values }));
        }
        Ok(None)
    }

    /// Decodes the next pair, as a run of one word.
    #[inline]
    fn pair(&mut self) -> Result<Run<'a>, Corrupt> {
        let heap = self.heap.ok_or(Corrupt("words without a heap"))?;
        let Some((pair, rest)) = self.rest.split_at_checked(PAIR_LEN) else {
            *self = Runs::of(&[]); // the rest cannot be decoded
            return Err(CUT);
        };
        let (word, values) = pair.split_first_chunk().expect("a pair has twelve bytes");
        (self.rest, self.pairs) = (rest, self.pairs - 1);
        Ok(Run { heap, first: u64::from(u32::from_le_bytes(*word)), values })
    }

    #[inline]
    fn number(&mut self, len: usize) -> Result<u64, Corrupt> {
        if len > 8 {
            return Err(Corrupt("a number has more than eight bytes"));
        }
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(CUT)?;
        self.rest = rest;
        let mut number = [0; 8];
        number[..len].copy_from_slice(bytes);
        Ok(u64::from_le_bytes(number))
    }

    fn count(&mut self) -> Result<u64, Corrupt> {
        let mut value = 0u64;
        for (at, &byte) in self.rest.iter().enumerate().take(9) {
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        Err(CUT)
    }
}

impl<'a> Iterator for Runs<'a> {
    type Item = Result<Run<'a>, Corrupt>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.take().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn write(heap: u32, word: u64, value: u64) -> Write {
        Write { word, value, heap, stripe: 0, bytes: crate::write_set::Bytes::ALL, read: false }
    }

    fn begun() -> RedoWriter {
        let mut writer = RedoWriter::default();
        writer.begin(1 << 20);
        writer
    }

    fn read(body: &[u8]) -> BTreeMap<(u32, u64), u64> {
        let mut words = BTreeMap::new();
        for run in Runs::of(body) {
            let run = run.expect("it was just written");
            for (at, value) in run.values.chunks_exact(8).enumerate() {
                words.insert((run.heap, run.first + at as u64), u64::from_le_bytes(value.try_into().unwrap()));
            }
        }
        words
    }

    proptest! {
        #[test]
        fn written_redo_is_read_back(
            words in proptest::collection::vec((0u32..3, 0u64..600, any::<u64>()), 0..500), heaps in 1u32..4, far: bool,
            sets in 1usize..4,
        ) {
            let word = |word| word + if far { (1 << 32) - 300 } else { 0 };
            let writes: Vec<Write> =
                words.iter().map(|&(heap, at, value)| write(heap % heaps, word(at), value)).collect();
            let expected: BTreeMap<_, _> = writes.iter().map(|write| ((write.heap, write.word), write.value)).collect();
            let mut writer = begun();
            writes.chunks(writes.len().div_ceil(sets).max(1)).for_each(|set| writer.writes(set));
            prop_assert_eq!(read(writer.last_part()), expected.clone());
            writer.begin(1 << 20);
            if writer.pairs_alone(&writes) {
                prop_assert_eq!(read(writer.last_part()), expected);
            } else {
                prop_assert_eq!(writer.last_part(), &[]);
            }
            prop_assert!(writer.last_part().len() <= words.len() * (8 + RUN_HEAD_MAX));
        }

        #[test]
        fn garbage_never_panics(bytes: Vec<u8>) {
            let _ = Runs::of(&bytes).take_while(Result::is_ok).count();
        }
    }

    #[test]
    fn neighbours_share_a_head() {
        let mut writer = begun();
        let writes: Vec<Write> = (1_000_000..1_000_300).map(|word| write(0, word, word)).collect();
        writer.writes(&writes);
        assert_eq!(writer.last_part().len(), 1 + 1 + 3 + 2 + 300 * 8);
        assert_eq!(read(writer.last_part()).len(), 300);
    }

    #[test]
    fn scattered_words_take_twelve_bytes_each() {
        let mut writer = begun();
        let writes: Vec<Write> = (0..6).map(|at| write(0, at * 1000, at)).collect();
        assert!(writer.pairs_alone(&writes));
        assert_eq!(writer.last_part().len(), 2 + 2 + 6 * PAIR_LEN);
        assert_eq!(read(writer.last_part()).len(), 6);
        let cut = &writer.last_part()[..writer.last_part().len() - 1];
        assert_eq!(Runs::of(cut).last(), Some(Err(CUT)));
    }

    #[test]
    fn parts_are_short_and_stand_alone() {
        let mut writer = RedoWriter::default();
        writer.begin(1000);
        writer.run(4, 0, 1000, (0..1000).map(|word| word + 7));
        let parts: Vec<&[u8]> = writer.all_but_last().chain([writer.last_part()]).collect();
        assert_eq!(parts.len(), writer.parts());
        assert!(parts.len() > 8 && parts.iter().all(|part| part.len() <= 1000));
        let words: BTreeMap<_, _> = parts.into_iter().flat_map(read).collect();
        assert_eq!(words, (0..1000).map(|word| ((4, word), word + 7)).collect());
    }

    #[test]
    fn large_word_numbers_come_back() {
        let mut writer = begun();
        let last = (1 << 61) - 2;
        writer.writes(&[write(u32::MAX, last, 1), write(u32::MAX, 0, 5)]);
        writer.run(u32::MAX, last + 1, 1, [2].into_iter());
        assert_eq!(
            read(writer.last_part()),
            BTreeMap::from([((u32::MAX, last), 1), ((u32::MAX, 0), 5), ((u32::MAX, last + 1), 2)])
        );
    }
}
