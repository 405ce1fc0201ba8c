//! Redo: what a commit record says about heap words (drawn in docs/formats/heap.md).
//!
//! ```text
//! body   run*
//! run    word << 1      varint | value 8                    one word
//!        word << 1 | 1  varint | count varint | value 8*    `count` > 0 words
//!        heap << 1 | 1  varint | 0            varint        the runs that follow are of this heap
//! ```
//!
//! Words are counted from the heap's beginning, values are little endian. A body begins with the number of its heap.

/// Writes runs.
#[derive(Debug, Default)]
pub(crate) struct RedoWriter {
    bytes: Vec<u8>,
    heap: Option<u32>,
    /// The run that may grow, if the last thing written was one.
    last: Option<LastRun>,
    /// Where parts end, and the next begin.
    cuts: Vec<usize>,
    part_len_max: usize,
}

#[derive(Debug)]
struct LastRun {
    first: u64,
    count: u64,
    /// Where it begins.
    at: usize,
}

/// The most bytes that stand before a run's values.
pub(crate) const RUN_HEAD_MAX: usize = 10 + 10 + 2 * 6;

/// The most bytes that one more word adds.
const WORD_LEN_MAX: usize = RUN_HEAD_MAX + 8;

/// Runs longer than this go on in another: what precedes a count of one byte need not move.
const COUNT_MAX: u64 = 127;

impl RedoWriter {
    /// Begins a body, of which no part shall be longer than this many bytes.
    #[inline]
    pub(crate) fn begin(&mut self, part_len_max: usize) {
        self.bytes.clear();
        self.heap = None;
        self.last = None;
        self.cuts.clear();
        self.part_len_max = part_len_max;
    }

    /// How many parts there are; at least one.
    #[inline]
    pub(crate) fn parts(&self) -> usize {
        self.cuts.len() + 1
    }

    /// What goes into the commit record.
    #[inline]
    pub(crate) fn last_part(&self) -> &[u8] {
        &self.bytes[self.cuts.last().copied().unwrap_or(0)..]
    }

    /// What goes before it.
    pub(crate) fn all_but_last(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.cuts.iter().copied());
        begins.zip(&self.cuts).map(|(begin, &end)| &self.bytes[begin..end])
    }

    #[cold]
    fn cut(&mut self) {
        self.cuts.push(self.bytes.len());
        self.heap = None;
        self.last = None;
    }

    /// One word.
    #[inline]
    pub(crate) fn word(&mut self, heap: u32, word: u64, value: u64) {
        if self.last_part().len() + WORD_LEN_MAX > self.part_len_max {
            self.cut();
        }
        if self.heap != Some(heap) {
            self.begin_heap(heap);
        }
        if let Some(last) = &mut self.last
            && last.first + last.count == word
            && last.count < COUNT_MAX
        {
            if last.count == 1 {
                // A single word becomes a run: its head has another lowest bit, and a count behind it.
                let mut head = [0; 20];
                let len = put(&mut head, last.first << 1 | 1);
                let values_at = last.at + len;
                self.bytes[last.at] |= 1;
                self.bytes.insert(values_at, 2);
            } else {
                let head = varint_len(last.first << 1);
                self.bytes[last.at + head] += 1;
            }
            last.count += 1;
            self.bytes.extend_from_slice(&value.to_le_bytes());
            return;
        }
        let at = self.bytes.len();
        let mut head = [0; 18];
        let len = put(&mut head, word << 1);
        head[len..len + 8].copy_from_slice(&value.to_le_bytes());
        self.bytes.extend_from_slice(&head[..len + 8]);
        self.last = Some(LastRun { first: word, count: 1, at });
    }

    #[cold]
    fn begin_heap(&mut self, heap: u32) {
        let mut head = [0; 10];
        let len = put(&mut head, u64::from(heap) << 1 | 1);
        self.bytes.extend_from_slice(&head[..len]);
        self.bytes.push(0);
        self.heap = Some(heap);
        self.last = None;
    }
}

/// A body that makes no sense, although its checksum holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Senseless(pub &'static str);

/// A run of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run<'a> {
    pub(crate) heap: u32,
    pub(crate) first: u64,
    /// The values, eight bytes each.
    pub(crate) values: &'a [u8],
}

/// Reads a body's runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runs<'a> {
    rest: &'a [u8],
    heap: Option<u32>,
}

impl<'a> Runs<'a> {
    pub(crate) fn of(body: &'a [u8]) -> Runs<'a> {
        Runs { rest: body, heap: None }
    }

    #[inline]
    fn take(&mut self) -> Result<Option<Run<'a>>, Senseless> {
        const CUT: Senseless = Senseless("a run of words is cut short");
        while !self.rest.is_empty() {
            let head = take_varint(&mut self.rest).ok_or(CUT)?;
            let count = if head & 1 == 0 { 1 } else { take_varint(&mut self.rest).ok_or(CUT)? };
            if count == 0 {
                let heap = u32::try_from(head >> 1).map_err(|_| Senseless("no heap has such a number"))?;
                self.heap = Some(heap);
                continue;
            }
            let heap = self.heap.ok_or(Senseless("words of no heap"))?;
            let len = usize::try_from(count).ok().and_then(|count| count.checked_mul(8)).ok_or(CUT)?;
            let values = self.rest.get(..len).ok_or(CUT)?;
            self.rest = &self.rest[len..];
            return Ok(Some(Run { heap, first: head >> 1, values }));
        }
        Ok(None)
    }
}

impl<'a> Iterator for Runs<'a> {
    type Item = Result<Run<'a>, Senseless>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.take().transpose()
    }
}

#[inline]
fn put(to: &mut [u8], mut value: u64) -> usize {
    let mut at = 0;
    while value >= 0x80 {
        to[at] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    to[at] = value as u8;
    at + 1
}

fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

#[inline]
fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (at, &byte) in rest.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            if at == 9 && byte > 1 {
                return None;
            }
            *rest = &rest[at + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

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
        fn what_is_written_is_read(words in proptest::collection::vec((0u32..3, 0u64..600, any::<u64>()), 0..500)) {
            let mut writer = begun();
            let mut expected = BTreeMap::new();
            for &(heap, word, value) in &words {
                writer.word(heap, word, value);
                expected.insert((heap, word), value);
            }
            prop_assert_eq!(read(writer.last_part()), expected);
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
        for word in 1_000_000..1_000_300 {
            writer.word(0, word, word);
        }
        assert!(writer.last_part().len() <= 300 * 8 + 3 * 5 + 2, "{}", writer.last_part().len());
        assert_eq!(read(writer.last_part()).len(), 300);
    }

    #[test]
    fn parts_are_short_and_stand_alone() {
        let mut writer = RedoWriter::default();
        writer.begin(1000);
        for word in 0..1000 {
            writer.word(4, word, word + 7);
        }
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
        writer.word(u32::MAX, last, 1);
        writer.word(u32::MAX, last + 1, 2);
        assert_eq!(read(writer.last_part()), BTreeMap::from([((u32::MAX, last), 1), ((u32::MAX, last + 1), 2)]));
    }
}
