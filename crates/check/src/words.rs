//! Descriptions of failures: the difference of two models, and the last log records before the crash.

use std::collections::VecDeque;
use std::fmt::{Debug, Write as _};

use cedrat_media::{Image, Media, SimDisk};
use cedrat_sync::Arc;
use cedrat_txn::{Explained, Explainer, Registry};
use cedrat_wal::{Kind, Log, RecordRef};

use crate::scenario::Error;

/// Largest number of printed lines of a difference.
const LINES_MAX: usize = 24;

/// Largest number of printed records.
const RECORDS_MAX: usize = 12;

/// Largest product of the line counts of two values for which a difference is searched.
const TABLE_MAX: usize = 1 << 20;

/// Returns the lines in which the pretty forms of two values differ: `-` for `found`, `+` for `expected`.
pub(crate) fn difference(found: &impl Debug, expected: &impl Debug) -> String {
    difference_of_lines(&format!("{found:#?}"), &format!("{expected:#?}"))
}

/// Returns the lines in which two texts differ: `-` for `found`, `+` for `expected`.
pub(crate) fn difference_of_lines(found: &str, expected: &str) -> String {
    let (found, expected): (Vec<&str>, Vec<&str>) = (found.lines().collect(), expected.lines().collect());
    let same = found.iter().zip(&expected).take_while(|(one, other)| one == other).count();
    let (found, expected) = (&found[same..], &expected[same..]);
    let tail = found.iter().rev().zip(expected.iter().rev()).take_while(|(one, other)| one == other).count();
    let (found, expected) = (&found[..found.len() - tail], &expected[..expected.len() - tail]);
    let changed = changes(found, expected);
    let mut words = String::new();
    for (sign, line, text) in changed.iter().take(LINES_MAX) {
        let _ = write!(words, "\n  {sign} line {:>4} {text}", line + same + 1); // a string takes everything
    }
    if changed.len() > LINES_MAX {
        let _ = write!(words, "\n  and {} lines more", changed.len() - LINES_MAX);
    }
    words
}

/// Returns each line that only one of the two has: its source, its number there, its text.
fn changes<'a>(found: &[&'a str], expected: &[&'a str]) -> Vec<(char, usize, &'a str)> {
    let width = expected.len() + 1;
    let far_apart = (found.len() + 1) * width > TABLE_MAX;
    // The length of the longest common rest from each pair of lines on.
    let mut common = vec![0_u32; if far_apart { 0 } else { (found.len() + 1) * width }];
    if !far_apart {
        for (i, one) in found.iter().enumerate().rev() {
            for (j, other) in expected.iter().enumerate().rev() {
                common[i * width + j] = match one == other {
                    true => common[(i + 1) * width + j + 1] + 1,
                    false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
                };
            }
        }
    }
    let (mut i, mut j, mut changed) = (0, 0, Vec::new());
    while i < found.len() || j < expected.len() {
        if !far_apart && i < found.len() && j < expected.len() && found[i] == expected[j] {
            (i, j) = (i + 1, j + 1);
            continue;
        }
        let drop_found = j == expected.len()
            || i < found.len() && (far_apart || common[(i + 1) * width + j] >= common[i * width + j + 1]);
        if drop_found {
            changed.push(('-', i, found[i]));
            i += 1;
        } else {
            changed.push(('+', j, expected[j]));
            j += 1;
        }
    }
    changed
}

/// Returns the last records of the log on `image`, a line each.
pub(crate) fn last_records(image: &Image, registry: &Registry) -> Vec<String> {
    read_last(image, registry).unwrap_or_else(|error| vec![format!("the log cannot be read: {error}")])
}

fn read_last(image: &Image, registry: &Registry) -> Result<Vec<String>, Error> {
    let media: Arc<dyn Media> = Arc::new(SimDisk::from_image(image.clone()));
    let found = Log::look(&media)?;
    let explainer = Explainer::new(registry, &found.control().names);
    let mut scan = found.scan(found.control().checkpoint.scan_lsn)?;
    let mut last = VecDeque::new();
    while let Some(scanned) = scan.next()? {
        if last.len() == RECORDS_MAX {
            last.pop_front();
        }
        last.push_back(in_words(&scanned.record, &explainer.explain(&scanned.record)?));
    }
    Ok(last.into())
}

fn in_words(record: &RecordRef<'_>, explained: &Explained) -> String {
    let mut words = format!("{:>6} transaction {:<3} {}", record.lsn, record.head.txn.0, kind(record.head.kind));
    let parts = [&explained.name, &explained.arguments];
    parts.into_iter().flatten().for_each(|part| words = format!("{words} {part}"));
    if let Some(at) = explained.at {
        let _ = write!(words, " on {at}");
    }
    if let Some(undo) = &explained.undo {
        let _ = write!(words, ", undo: {undo}");
    }
    words
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::UPDATE => "update",
        Kind::COMPENSATION => "compensation",
        Kind::COMMIT => "commit",
        Kind::ROLLBACK_END => "end of rollback",
        Kind::NESTED_END => "end of nested action",
        Kind::VOID => "void",
        Kind::UNDO_ONLY => "begin of ordered sequence",
        Kind::PREPARE => "prepare",
        _ => "record",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_names_lines_of_both() {
        let words = difference(&vec![1, 2, 3, 4], &vec![1, 3, 4, 5]);
        assert_eq!(words, "\n  - line    3     2,\n  + line    5     5,");
        assert_eq!(difference(&7, &7), "");
    }

    #[test]
    fn difference_of_large_models_is_short() {
        let (one, other): (Vec<u32>, Vec<u32>) = ((0..5_000).collect(), (7..5_007).rev().collect());
        assert!(difference(&one, &other).lines().count() < LINES_MAX + 3);
    }
}
