//! From bytes to words, for any bytes.

use std::io::{self, Read};

/// Longer words are counted in parts of at most this many bytes, cut between characters.
pub(crate) const WORD_LEN_MAX: usize = 128;

/// Number of bytes that are read at once.
const READ_LEN: usize = 64 * 1024;

/// Calls `each` with every word of `text`, in lower case.
///
/// A word is a run of letters and digits of any script. Bytes that are not UTF-8 lie between words.
/// However long the text and its words are, only a few blocks of it are in memory.
pub(crate) fn each_word(mut text: impl Read, mut each: impl FnMut(&str)) -> io::Result<()> {
    let mut splitter = Splitter::default();
    let mut buffer = vec![0; READ_LEN];
    let mut kept = 0; // bytes of a character whose rest was not read yet
    loop {
        let read = match text.read(&mut buffer[kept..]) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let filled = kept + read;
        let whole = if read == 0 { filled } else { whole_characters(&buffer[..filled]) };
        for chunk in buffer[..whole].utf8_chunks() {
            splitter.push(chunk.valid(), &mut each);
            if !chunk.invalid().is_empty() {
                splitter.end(&mut each);
            }
        }
        if read == 0 {
            splitter.end(&mut each);
            return Ok(());
        }
        buffer.copy_within(whole..filled, 0);
        kept = filled - whole;
    }
}

/// Returns the number of `bytes` before a character that is cut off at their end.
fn whole_characters(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let needed = match bytes[at] {
            0b1100_0000..=0b1101_1111 => 2,
            0b1110_0000..=0b1110_1111 => 3,
            0b1111_0000..=0b1111_0111 => 4,
            0b1000_0000..=0b1011_1111 => continue, // the middle of a character
            _ => 1,
        };
        return if needed > back { at } else { bytes.len() };
    }
    bytes.len()
}

/// The word that is being read.
#[derive(Default)]
struct Splitter {
    word: String,
}

impl Splitter {
    fn push(&mut self, text: &str, each: &mut impl FnMut(&str)) {
        for c in text.chars() {
            if !c.is_alphanumeric() {
                self.end(each);
                continue;
            }
            for lower in c.to_lowercase() {
                if self.word.len() + lower.len_utf8() > WORD_LEN_MAX {
                    self.end(each);
                }
                self.word.push(lower);
            }
        }
    }

    fn end(&mut self, each: &mut impl FnMut(&str)) {
        if !self.word.is_empty() {
            each(&self.word);
            self.word.clear();
        }
    }
}

/// Where to cut `text`, which begins inside a file, so that a word stays whole: behind the first byte
/// that certainly ends one. Without such a byte the answer is 0: the word is cut.
pub(crate) fn cut_after(text: &[u8]) -> usize {
    text.iter().position(|byte| byte.is_ascii() && !byte.is_ascii_alphanumeric()).map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(bytes: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        each_word(bytes, |word| found.push(word.to_string())).expect("reading memory");
        found
    }

    /// Gives one byte at a time, so that every character is cut.
    struct Drop<'a>(&'a [u8]);

    impl Read for Drop<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.0.len().min(buffer.len()).min(1);
            buffer[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    #[test]
    fn words_are_lower_case_letters_and_digits() {
        assert_eq!(words(b"The cat, the 2 CATS!\n"), ["the", "cat", "the", "2", "cats"]);
        assert_eq!(words("Straße, ΩMEGA".as_bytes()), ["straße", "ωmega"]);
        assert_eq!(words(b""), Vec::<String>::new());
        assert_eq!(words(b" \n\t--"), Vec::<String>::new());
    }

    #[test]
    fn other_bytes_separate_words() {
        assert_eq!(words(b"caf\xe9s and \xff\xfe1"), ["caf", "s", "and", "1"]);
        assert_eq!(words(b"cut \xe2\x82"), ["cut"]);
    }

    #[test]
    fn long_words_are_split_between_characters() {
        let long = "ä".repeat(WORD_LEN_MAX);
        let parts = words(long.as_bytes());
        assert_eq!(parts.concat(), long);
        assert!(parts.iter().all(|part| part.len() <= WORD_LEN_MAX));
        assert_eq!(parts.len(), 2);
    }

    #[test]
    fn words_do_not_depend_on_reads() {
        let text = format!("{} straße 日本語 \u{1F600}x \u{e9} ", "word ".repeat(30_000));
        let mut dropwise = Vec::new();
        each_word(Drop(text.as_bytes()), |word| dropwise.push(word.to_string())).expect("memory");
        assert_eq!(dropwise, words(text.as_bytes()));
        assert_eq!(dropwise.len(), 30_004);
    }

    #[test]
    fn cut_keeps_words_whole_if_possible() {
        assert_eq!(cut_after(b"ing and"), 4);
        assert_eq!(cut_after("größe und".as_bytes()), "größe ".len());
        assert_eq!(cut_after(b"endless"), 0);
    }
}
