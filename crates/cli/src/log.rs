//! `cedrat log`: the records of a store, as text or JSON.

use std::io;

use cedrat_heap::HEAP_PART;
use cedrat_txn::{CARRIED, Explained, Explainer, OUTCOME};
use cedrat_wal::{Found, Kind, Lsn, RecordRef, TxnId};
use serde::Serialize;

use crate::arguments;
use crate::disks::Disks;
use crate::look::Looked;
use crate::output::{self, Failure, Outcome, fail};

/// One record, as it is printed.
#[derive(Debug, Serialize)]
struct Line {
    lsn: u64,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction: Option<u64>,
    /// The page that it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<u16>,
    /// The name of the operation, or of the application's kind of record.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<String>,
    /// How it is undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    undo: Option<String>,
    /// Further information.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    /// Changes in the commit record itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<Change>,
    partition: u16,
    file: String,
    /// Offset of its frame in that file.
    file_offset: u64,
}

/// A change of a record, in a commit record.
#[derive(Debug, Serialize)]
struct Change {
    page: Option<u64>,
    slot: Option<u16>,
    name: Option<String>,
    arguments: Option<String>,
}

impl Change {
    fn new(explained: Explained) -> Change {
        let Explained { at, name, arguments, .. } = explained;
        Change { page: at.map(|at| at.page.get()), slot: at.map(|at| at.slot.0), name, arguments }
    }
}

/// A place and what is done to it, as it is printed.
fn place_and_change(page: Option<u64>, slot: Option<u16>, parts: [&Option<String>; 2]) -> String {
    let mut text = String::new();
    if let (Some(page), Some(slot)) = (page, slot) {
        text += &format!("  page {page} slot {slot}");
    }
    for part in parts.into_iter().flatten() {
        text += "  ";
        text += part;
    }
    text
}

impl Line {
    fn new(found: &Found, explainer: &Explainer, record: &RecordRef<'_>) -> Result<Line, Failure> {
        let (file, file_offset) = found.place(record.position);
        let explained = match explainer.explain(record) {
            Ok(explained) => explained,
            Err(why) => {
                return fail(format!("{file}, byte {file_offset}: record {} is corrupt: {why}", record.lsn));
            }
        };
        let transaction = record.head.txn;
        Ok(Line {
            lsn: record.lsn.get(),
            kind: kind_name(record.head.kind),
            transaction: (transaction != TxnId::NONE).then_some(transaction.0),
            page: explained.at.map(|at| at.page.get()),
            slot: explained.at.map(|at| at.slot.0),
            name: explained.name,
            arguments: explained.arguments,
            undo: explained.undo,
            note: explained.note,
            changes: explained.changes.into_iter().map(Change::new).collect(),
            partition: record.position.partition.0,
            file,
            file_offset,
        })
    }

    fn is_about(&self, page: u64) -> bool {
        [self.page].into_iter().chain(self.changes.iter().map(|change| change.page)).any(|other| other == Some(page))
    }

    fn text(&self) -> String {
        let mut text = format!("{:>10}", self.lsn);
        text +=
            &self.transaction.map_or_else(|| format!(" {:>8}", "-"), |number| format!(" {:>8}", format!("t{number}")));
        text += &format!("  {:<12}", self.kind);
        text += &place_and_change(self.page, self.slot, [&self.name, &self.arguments]);
        for Change { page, slot, name, arguments } in &self.changes {
            text += &place_and_change(*page, *slot, [name, arguments]);
        }
        if let Some(undo) = &self.undo {
            text += &format!("  (undo: {undo})");
        }
        if let Some(note) = &self.note {
            text += &format!("  ({note})");
        }
        text.trim_end().to_string()
    }
}

/// Returns the name of a kind of record, as it is printed.
pub(crate) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::UPDATE => "update",
        Kind::COMPENSATION => "compensation",
        Kind::COMMIT => "commit",
        Kind::ROLLBACK_END => "rollback-end",
        Kind::NESTED_END => "nested-end",
        Kind::VOID => "void",
        Kind::UNDO_ONLY => "undo-only",
        Kind::PREPARE => "prepare",
        Kind::USER => "user",
        HEAP_PART => "heap-part",
        CARRIED => "carried",
        OUTCOME => "outcome",
        _ => "unknown",
    }
}

/// Prints the records that are asked for.
pub(crate) fn log(arguments: &arguments::Log, disks: &Disks) -> Outcome {
    let Looked { found, .. } = &Looked::at(&arguments.directory, disks)?;
    let explainer = Explainer::new(&crate::registry(), &found.control().names);
    let from = Lsn::new(arguments.from.unwrap_or(0));
    let mut scan = found.scan(from)?;
    let mut printed = 0_u64;
    while let Some(scanned) = scan.next()? {
        let record = &scanned.record;
        if arguments.to.is_some_and(|to| record.lsn.get() > to) {
            break;
        }
        if arguments.transaction.is_some_and(|number| record.head.txn.0 != number) {
            continue;
        }
        let line = Line::new(found, &explainer, record)?;
        if arguments.page.is_some_and(|page| !line.is_about(page)) {
            continue;
        }
        let text = if arguments.json { serde_json::to_string(&line)? } else { output::plain(line.text()) };
        match output::line(text) {
            Ok(()) => printed += 1,
            // `cedrat log DIR | head`: the reader has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    if printed == 0 {
        let begin = found.control().checkpoint.scan_lsn;
        output::note(format_args!(
            "no such record: the log goes from LSN {begin} to before LSN {}, and what came earlier is in the pages",
            found.end_lsn()
        ));
    }
    Ok(())
}
