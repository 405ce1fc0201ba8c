//! The judge of a tour: the same words counted without a store.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use super::files::Text;
use crate::output::{Failure, progress};

/// One pass over the text counts the words of one share, so that about this many bytes of text end up in
/// memory at a time, however long the text is.
const SHARE_LEN: u64 = 256 << 20;

/// How often each word occurs, for a share of all words.
pub(crate) type Counts = HashMap<Box<str>, u64>;

/// Counts the words of `text`, calls `each` with one share of them after the other, and returns how many
/// words there were, repeated ones included.
pub(crate) fn count(text: &Text, mut each: impl FnMut(Counts) -> Result<(), Failure>) -> Result<u64, Failure> {
    let shares = text.bytes / SHARE_LEN + 1;
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let bar = progress(shares * text.pieces.len() as u64, "counting plainly");
    let mut words = 0;
    for share in 0..shares {
        let mut counts = Counts::new();
        for piece in &text.pieces {
            piece.each_word(|word| {
                if hasher.hash_one(word) % shares == share {
                    words += 1;
                    add(&mut counts, word, 1);
                }
            })?;
            bar.inc(1);
        }
        each(counts)?;
    }
    bar.finish_and_clear();
    Ok(words)
}

/// Adds to a word's count; the word is copied only when it is new.
pub(crate) fn add(counts: &mut Counts, word: &str, amount: u64) {
    match counts.get_mut(word) {
        Some(count) => *count += amount,
        None => {
            counts.insert(word.into(), amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a"), "b a b").expect("a file");
        std::fs::write(folder.path().join("c"), "b").expect("a file");
        let text = Text::find(&[folder.path().to_path_buf()]).expect("readable");
        let mut found = Vec::new();
        let words = count(&text, |share| {
            found.extend(share);
            Ok(())
        });
        found.sort();
        assert_eq!(words.expect("counted"), 4);
        assert_eq!(found, [("a".into(), 1), ("b".into(), 3)]);
    }
}
