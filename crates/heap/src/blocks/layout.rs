//! Layout of the words that record the blocks of a heap (drawn in docs/formats/heap-blocks.md).
//!
//! ```text
//! word 0 …         the account: heads of the lists of roots
//! word 512 …       the table of spans, one word each:
//!                    0                                  free
//!                    1 | stride << 8 | carved << 32     blocks of one size; the first `carved` have headers
//!                    2 | spans << 8                     one block that fills several spans; the others have 0
//! span             word 0      nothing
//!                  word 1      header of the first block
//!                  word 2 …    the first block, at a multiple of 16 bytes
//! header           0                                    free
//!                  0xb5 | length << 8                   allocated
//! ```
//!
//! All of these words are changed in transactions only, and no block covers one. A heap of zeros is one without blocks.
//! Headers are written when they are carved, whatever those words held before: neither remains of an older block nor plain
//! stores of a failed transaction are ever taken for a header.

use crate::region::WORD_LEN;

/// First word after the account of blocks, where the table begins.
pub(crate) const FIRST_WORD: u64 = 512;

const SPAN_WORDS_MIN: u64 = 256;
const SPAN_WORDS_MAX: u64 = 8192;
/// A heap has at least this many spans, or small ones.
const SPANS_WANTED: u64 = 256;

/// Lowest byte of the header of an allocated block.
const ALLOCATED: u64 = 0xb5;

const SIZED: u64 = 1;
const RUN: u64 = 2;

/// Table entry of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// A span without blocks.
    Free,
    /// Blocks of one size.
    Sized {
        /// Words from one header to the next.
        stride: u64,
        /// Number of valid headers.
        carved: u64,
    },
    /// One block in this span and the following ones.
    Run {
        /// Number of spans.
        spans: u64,
    },
}

impl Span {
    pub(crate) fn to_word(self) -> u64 {
        match self {
            Span::Free => 0,
            Span::Sized { stride, carved } => SIZED | stride << 8 | carved << 32,
            Span::Run { spans } => RUN | spans << 8,
        }
    }

    /// Decodes an entry; `None` if no transaction of this crate writes such a word.
    pub(crate) fn of_word(word: u64) -> Option<Span> {
        match word & 0xff {
            0 if word == 0 => Some(Span::Free),
            SIZED => {
                let (stride, carved) = (word >> 8 & 0xff_ffff, word >> 32);
                (stride >= 2 && stride.is_multiple_of(2)).then_some(Span::Sized { stride, carved })
            }
            RUN => (word >> 8 > 0).then_some(Span::Run { spans: word >> 8 }),
            _ => None,
        }
    }
}

/// Returns the header of an allocated block of this length.
#[inline(always)]
pub(crate) fn header(len: u64) -> u64 {
    len << 8 | ALLOCATED
}

/// Returns the length of the block with this header, if it is allocated.
#[inline(always)]
pub(crate) fn allocated_len(header: u64) -> Option<u64> {
    if header & 0xff == ALLOCATED { Some(header >> 8) } else { None }
}

/// Stride up to which there is a size for every second word.
const SMALL_STRIDE_MAX: u64 = 16;

/// Position of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Word of its header; its first word is the next.
    pub(crate) header: u64,
    /// Number of its words.
    pub(crate) words: u64,
    /// Span in which it begins.
    pub(crate) span: u64,
}

impl Place {
    /// Returns the length of the block, if its header marks it as allocated.
    #[inline(always)]
    pub(crate) fn allocated_len(&self, header: u64) -> Option<u64> {
        allocated_len(header).filter(|&len| len <= self.words * WORD_LEN)
    }
}

/// Division of a heap: a function of the words that are reserved for it, which never change.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) span_words: u64,
    /// Words of a span, as a power of two.
    span_shift: u32,
    /// First span after the table.
    pub(crate) first_span: u64,
    /// Maximum number of spans.
    spans: u64,
    /// Strides of the sizes, ascending.
    strides: Vec<u64>,
}

impl Layout {
    pub(crate) fn of(reserved_words: u64) -> Layout {
        let wanted = (reserved_words / SPANS_WANTED).max(1);
        let span_words: u64 = (1 << wanted.ilog2()).clamp(SPAN_WORDS_MIN, SPAN_WORDS_MAX);
        let span_shift = span_words.ilog2();
        let spans = reserved_words >> span_shift;
        let first_span = (FIRST_WORD + spans).div_ceil(span_words);
        Layout { span_words, span_shift, first_span, spans, strides: strides(span_words) }
    }

    /// Returns the first word after the account.
    pub(crate) fn first_word(&self) -> u64 {
        self.first_span * self.span_words
    }

    /// Returns the word of a span's table entry.
    #[inline(always)]
    pub(crate) fn table_word(&self, span: u64) -> u64 {
        FIRST_WORD + span
    }

    /// Returns the number of sizes.
    pub(crate) fn sizes(&self) -> usize {
        self.strides.len()
    }

    /// Returns the smallest size that holds this many bytes; `None` if only whole spans do.
    #[inline]
    pub(crate) fn size_for(&self, len: u64) -> Option<usize> {
        let stride = len.div_ceil(WORD_LEN) + 1;
        if stride <= SMALL_STRIDE_MAX {
            return Some((stride.div_ceil(2) - 1) as usize); // most blocks are small: no search
        }
        let size = self.strides.partition_point(|&has| has < stride);
        (size < self.strides.len()).then_some(size)
    }

    pub(crate) fn stride(&self, size: usize) -> u64 {
        self.strides[size]
    }

    /// Returns the size with exactly this stride.
    pub(crate) fn size_of_stride(&self, stride: u64) -> Option<usize> {
        self.strides.binary_search(&stride).ok()
    }

    /// Returns the number of blocks of a stride in a span.
    #[inline(always)]
    pub(crate) fn blocks_in_span(&self, stride: u64) -> u64 {
        (self.span_words - 1) / stride
    }

    /// Returns the word of the header of a block in a span.
    #[inline(always)]
    pub(crate) fn header_word(&self, span: u64, stride: u64, index: u64) -> u64 {
        span * self.span_words + 1 + index * stride
    }

    /// Returns the number of spans that a block of this length fills, alone.
    pub(crate) fn spans_for(&self, len: u64) -> u64 {
        (len.div_ceil(WORD_LEN) + 2).div_ceil(self.span_words)
    }

    /// Returns the number of words of a block that fills this many spans.
    pub(crate) fn run_words(&self, spans: u64) -> u64 {
        spans * self.span_words - 2
    }

    /// Returns the size of a block of this many words, or the number of spans that it fills alone.
    pub(crate) fn size_of_words(&self, words: u64) -> Result<usize, u64> {
        self.size_for(words * WORD_LEN).ok_or((words + 2) / self.span_words)
    }

    #[inline(always)]
    pub(crate) fn span_of(&self, word: u64) -> u64 {
        word >> self.span_shift
    }

    /// Returns the block that begins at a word, given the table entry of its span.
    #[inline]
    pub(crate) fn locate(&self, table_word: u64, first: u64) -> Option<Place> {
        let span = self.span_of(first);
        let within = (first & (self.span_words - 1)).checked_sub(2)?;
        match Span::of_word(table_word)? {
            Span::Free => None,
            Span::Run { spans } => {
                let is = within == 0 && spans <= self.spans - span;
                is.then(|| Place { header: first - 1, words: self.run_words(spans), span })
            }
            Span::Sized { stride, carved } => {
                // Both fit into 32 bits, and a division of 32 bits takes half the time.
                let (index, rest) = (within as u32 / stride as u32, within as u32 % stride as u32);
                let ends_within = within + stride < self.span_words; // as the blocks that fit into a span do
                let is = rest == 0 && u64::from(index) < carved && ends_within;
                is.then_some(Place { header: first - 1, words: stride - 1, span })
            }
        }
    }
}

/// Returns every 16 bytes up to 128, then four strides per doubling; the largest is such that no more blocks would fit.
fn strides(span_words: u64) -> Vec<u64> {
    let mut strides: Vec<u64> = (2..=SMALL_STRIDE_MAX).step_by(2).collect();
    let mut base = SMALL_STRIDE_MAX;
    loop {
        for quarter in 1..=4 {
            let stride = base + base / 4 * quarter;
            let count = (span_words - 1) / stride;
            if count < 2 {
                return strides;
            }
            let stride = if count < 16 { ((span_words - 1) / count) & !1 } else { stride };
            if strides.last() != Some(&stride) {
                strides.push(stride);
            }
        }
        base *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_fits_block_with_little_waste() {
        for reserved in [1 << 10, 1 << 13, 1 << 17, 1 << 20, 1 << 27, 1 << 32] {
            let layout = Layout::of(reserved);
            assert!(layout.strides.is_sorted() && layout.strides.iter().all(|stride| stride % 2 == 0));
            assert!(layout.first_word() >= FIRST_WORD + reserved / layout.span_words);
            for len in (0..layout.span_words * 8).step_by(7) {
                let Some(size) = layout.size_for(len) else { continue };
                let stride = layout.stride(size);
                let (least, has) = (len + 8, stride * 8);
                assert!(has >= least, "{len} bytes in a stride of {has}");
                assert!(has <= least + 16 || has <= least * 3 / 2, "{len} bytes in a stride of {has}");
                assert_eq!(layout.size_of_words(stride - 1), Ok(size));
                let last = layout.header_word(3, stride, layout.blocks_in_span(stride) - 1);
                assert!(last + stride <= 4 * layout.span_words, "the last block of a span ends in it");
                let table = Span::Sized { stride, carved: layout.blocks_in_span(stride) }.to_word();
                assert_eq!(layout.locate(table, last + 1).map(|place| place.words), Some(stride - 1));
                assert_eq!(layout.locate(table, last + 2), None);
            }
            for spans in 1..5.min(layout.spans) {
                let words = layout.run_words(spans);
                assert_eq!(layout.spans_for(words * 8), spans);
                assert_eq!(layout.size_of_words(words), Err(spans));
            }
        }
    }

    #[test]
    fn table_entries_read_back_as_written() {
        for span in [Span::Free, Span::Sized { stride: 4, carved: 77 }, Span::Run { spans: 1 << 40 }] {
            assert_eq!(Span::of_word(span.to_word()), Some(span));
        }
        for garbage in [3, 0x100, 1, 1 | 3 << 8, 2, u64::MAX] {
            assert_eq!(Span::of_word(garbage), None, "{garbage:x}");
        }
        assert_eq!(allocated_len(header(12345)), Some(12345));
        assert_eq!(allocated_len(0), None);
    }
}
