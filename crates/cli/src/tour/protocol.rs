//! Messages of the working process of a tour to the supervisor: one JSON object a line.

use serde::{Deserialize, Serialize};

/// The name of the working process's subcommand.
pub(crate) const WORKER: &str = "tour-worker";

/// One line from the working process.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Event {
    /// The store is open; opening was recovering.
    Opened(Opened),
    /// A piece is halfway counted: its transaction has changed pages, is in the durable log, and waits
    /// to be killed.
    Halfway {
        /// The piece's place in the list of pieces.
        piece: u64,
    },
    /// A piece is counted, and this is stable.
    Counted {
        /// The piece's place in the list of pieces.
        piece: u64,
    },
    /// All pieces are counted.
    Finished,
}

/// State of the store when a working process opened it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Opened {
    /// The pieces that are counted already.
    pub(crate) done: Vec<u64>,
    /// Committed transactions whose records were read again by recovery.
    pub(crate) redone: u64,
    /// Unfinished transactions that recovery undid.
    pub(crate) undone: u64,
    /// Duration of opening.
    pub(crate) micros: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_the_pipe() {
        let opened = Opened { done: vec![1, 2], redone: 3, undone: 4, micros: 5 };
        for event in [Event::Opened(opened), Event::Halfway { piece: 6 }, Event::Counted { piece: 7 }, Event::Finished]
        {
            let line = serde_json::to_string(&event).expect("plain data");
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Event>(&line).expect("ours"), event);
        }
    }
}
