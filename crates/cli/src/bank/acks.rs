//! Lines `ack ID`: what a run of the bank has promised.

use std::io::BufRead;

use crate::output::{Failure, fail};

/// Calls `each` with every acknowledged number in `lines`.
///
/// A last line without its end was cut off by a kill: it promises nothing. Any other line that is not an
/// acknowledgement is an error, because a list that was mixed up proves nothing.
pub(crate) fn each_ack(
    mut lines: impl BufRead,
    mut each: impl FnMut(u64) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let mut line = Vec::new();
    let mut count = 0;
    loop {
        line.clear();
        lines.read_until(b'\n', &mut line)?;
        let Some(whole) = line.strip_suffix(b"\n") else {
            return Ok(count);
        };
        let text = String::from_utf8_lossy(whole);
        let Some(number) = text.strip_prefix("ack ").and_then(|id| id.parse().ok()) else {
            return fail(format!("line {} of the acknowledgements is not `ack ID`: {text}", count + 1));
        };
        each(number)?;
        count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acks(lines: &str) -> Result<Vec<u64>, Failure> {
        let mut found = Vec::new();
        let count = each_ack(lines.as_bytes(), |id| {
            found.push(id);
            Ok(())
        })?;
        assert_eq!(count, found.len() as u64);
        Ok(found)
    }

    #[test]
    fn incomplete_last_line_is_ignored() {
        assert_eq!(acks("").expect("no line"), [0; 0]);
        assert_eq!(acks("ack 7\nack 12\n").expect("two lines"), [7, 12]);
        assert_eq!(acks("ack 7\nack 1").expect("one line"), [7]);
        assert_eq!(acks("ack 7\na").expect("one line"), [7]);
    }

    #[test]
    fn other_lines_are_refused() {
        for lines in ["ack\n", "ack x\n", "nack 1\n", "ack 1 2\n", "\n", "ack -1\nack 2\n"] {
            assert!(acks(&format!("ack 1\n{lines}")).is_err(), "{lines:?}");
        }
        assert!(each_ack(&b"ack 1\n\xff\n"[..], |_| Ok(())).is_err());
    }
}
