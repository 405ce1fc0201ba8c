//! What bad bytes mean: the end of the log, or damage (E20).
//!
//! With several writes in flight a crash may leave a hole before a whole block. So bytes that are no block say nothing
//! by themselves; what counts is whether a promise covers them. A promise is a durable position that was itself
//! written down: in a later block of any partition, or in the control file.

/// What lies where a block should begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Head {
    /// A header of this very place, in the epoch that owns it.
    Whole,
    /// Zeros: nothing was ever written here.
    Zero,
    /// A whole header, but of an earlier life of the segment or of an epoch that does not own the place.
    Stale,
    /// No file holds the place.
    Missing,
    /// Neither zeros nor a whole header.
    Bad,
    /// A whole header of this place, of an epoch newer than the control file knows.
    UnknownEpoch,
}

/// What the records of the block are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Body {
    /// All of them verify.
    Whole,
    /// One of them does not.
    Bad,
    /// There is no header that would lead to them.
    None,
}

/// What is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Verdict {
    /// The block belongs to the log.
    Keep,
    /// The partition ends here: the rest was lost in a crash before anybody was told that it was durable.
    EndOfLog,
    /// Something durable was changed or lost since: the store does not open.
    Refuse,
}

/// Head, body, promised (`None`: either), verdict, what to say when refusing.
type Row = (Head, Body, Option<bool>, Verdict, &'static str);

const TABLE: [Row; 12] = {
    use Verdict::*;
    const YES: Option<bool> = Some(true);
    const NO: Option<bool> = Some(false);
    [
        (Head::Whole, Body::Whole, None, Keep, ""),
        (Head::Whole, Body::Bad, NO, EndOfLog, ""), //   torn by the crash
        (Head::Whole, Body::Bad, YES, Refuse, "a record that was durable is damaged"),
        (Head::Zero, Body::None, NO, EndOfLog, ""), //   never written, or lost with the crash
        (Head::Zero, Body::None, YES, Refuse, "a block that was durable is gone, there are zeros"),
        (Head::Stale, Body::None, NO, EndOfLog, ""), //  the bytes of an earlier use
        (Head::Stale, Body::None, YES, Refuse, "a block that was durable is gone, there is an older one"),
        (Head::Missing, Body::None, NO, EndOfLog, ""), // the segment's header was lost with the crash
        (Head::Missing, Body::None, YES, Refuse, "a segment that was durable is gone"),
        (Head::Bad, Body::None, NO, EndOfLog, ""), //    torn by the crash
        (Head::Bad, Body::None, YES, Refuse, "the header of a block that was durable is damaged"),
        (
            Head::UnknownEpoch,
            Body::None,
            None,
            Refuse,
            "a block of an epoch that the control file does not know: the control file is older than the log",
        ),
    ]
};

/// The one row for what was found: its verdict, and what to say about it.
///
/// A body is looked at only behind a whole head.
pub(crate) fn verdict(head: Head, body: Body, promised: bool) -> (Verdict, &'static str) {
    let body = if head == Head::Whole { body } else { Body::None };
    TABLE
        .iter()
        .find(|row| row.0 == head && row.1 == body && row.2.is_none_or(|row| row == promised))
        .map(|row| (row.3, row.4))
        .expect("the table has a row for everything that can be found")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADS: [Head; 6] = [Head::Whole, Head::Zero, Head::Stale, Head::Missing, Head::Bad, Head::UnknownEpoch];

    #[test]
    fn everything_that_can_be_found_has_exactly_one_row() {
        let mut hit = [0; TABLE.len()];
        for head in HEADS {
            let bodies: &[Body] = if head == Head::Whole { &[Body::Whole, Body::Bad] } else { &[Body::None] };
            for &body in bodies {
                for promised in [false, true] {
                    let rows: Vec<_> = (0..TABLE.len())
                        .filter(|&at| {
                            let row = &TABLE[at];
                            row.0 == head && row.1 == body && row.2.is_none_or(|row| row == promised)
                        })
                        .collect();
                    assert_eq!(rows.len(), 1, "{head:?} {body:?} {promised}");
                    hit[rows[0]] += 1;
                    // The table, said once more as a rule.
                    let expected = match (head, body, promised) {
                        (Head::Whole, Body::Whole, _) => Verdict::Keep,
                        (Head::UnknownEpoch, ..) => Verdict::Refuse, // E1.6
                        (_, _, true) => Verdict::Refuse,             // E20.2
                        (_, _, false) => Verdict::EndOfLog,          // E20.3
                    };
                    let (found, why) = verdict(head, body, promised);
                    assert_eq!(found, expected, "{head:?} {body:?} {promised}");
                    assert_eq!(why.is_empty(), found != Verdict::Refuse, "a refusal says why");
                }
            }
        }
        assert!(hit.iter().all(|&times| times > 0), "no row is idle");
    }
}
