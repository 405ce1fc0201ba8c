//! Verdicts on invalid bytes: the end of the log, or damage (E20).
//!
//! With several writes in flight a crash may leave a gap before a valid block. So bytes that are no block prove
//! nothing by themselves; the decision depends on whether a promise covers them. A promise is a durable position that
//! was itself written to disk: in a later block of any partition, or in the control file.

use cedrat_sync::planted;

/// The state of an offset where a block should begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Head {
    /// A header of this very offset, in the epoch that owns it.
    Whole,
    /// Zeros: the offset was never written.
    Zero,
    /// A valid header, but of an earlier life of the segment or of an epoch that does not own the offset.
    Stale,
    /// No file holds the offset.
    Missing,
    /// Neither zeros nor a valid header.
    Bad,
    /// A valid header of this offset, of an epoch newer than those in the control file.
    UnknownEpoch,
}

/// The state of the records of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Body {
    /// All records verify.
    Whole,
    /// A record does not verify.
    Bad,
    /// No header leads to records.
    None,
}

/// The decision on a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Verdict {
    /// The block belongs to the log.
    Keep,
    /// The partition ends here: the rest was lost in a crash before it was reported as durable.
    EndOfLog,
    /// A durable block was changed or lost since: the store does not open.
    Refuse,
}

/// Head, body, promised (`None`: either), verdict, message of a refusal.
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
        (Head::Stale, Body::None, NO, EndOfLog, ""), // the bytes of an earlier use
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

/// Returns the verdict on a state, and the message of a refusal.
///
/// The state of the body counts only after a valid head.
pub(crate) fn verdict(head: Head, body: Body, promised: bool) -> (Verdict, &'static str) {
    let promised = (promised || planted!("every_hole_refused")) && !planted!("promise_ignored");
    let head = if planted!("unknown_epoch_passed_over") && head == Head::UnknownEpoch { Head::Stale } else { head };
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
    fn every_finding_matches_exactly_one_row() {
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
                    // The table, restated as a rule.
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
