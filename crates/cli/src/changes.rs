//! `cedrat changes`: the transactions that have committed, as text or JSON.

use std::io;

use cedrat::structures::StructureNames;
use cedrat::txn::{Change, ChangeStream, Error};
use cedrat_pages::PageId;
use cedrat_txn::{ChangeSet, consumers_of};
use cedrat_wal::{Lsn, TxnId};
use serde::Serialize;

use crate::arguments::Changes;
use crate::disks::Disks;
use crate::look::Looked;
use crate::output::{self, Failure, Outcome};
use crate::verify;

/// One change, as it is printed.
#[derive(Debug, Default, Serialize)]
struct Line {
    /// The LSN of the commit record.
    lsn: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction: Option<u64>,
    change: &'static str,
    /// The name of a structure, a heap, an operation or a kind of record.
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<u16>,
    /// In hexadecimal digits; of a heap, the first word.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// In hexadecimal digits; of a heap, the words; the sum, or the arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
}

impl Line {
    fn new(set: &ChangeSet<'_>, change: Change, names: &StructureNames) -> Line {
        let transaction = (set.txn() != TxnId::NONE).then_some(set.txn().0);
        let line = Line { lsn: set.lsn().get(), transaction, ..Line::default() };
        let of = |root: PageId| Some(names.name(root).map_or_else(|| format!("page {root}"), str::to_owned));
        match change {
            Change::Put { structure, key, value } => {
                let (key, value) = (Some(digits(&key)), Some(digits(&value)));
                Line { change: "put", of: of(structure), key, value, ..line }
            }
            Change::Remove { structure, key } => {
                Line { change: "remove", of: of(structure), key: Some(digits(&key)), ..line }
            }
            Change::Drop { structure } => Line { change: "drop", of: of(structure), ..line },
            Change::Add { at, amount } => {
                let (page, slot) = (Some(at.page.get()), Some(at.slot.0));
                Line { change: "add", page, slot, value: Some(amount.to_string()), ..line }
            }
            Change::Words { heap, first, values } => {
                let values = values.iter().map(|value| format!("{value:x}")).collect::<Vec<_>>().join(" ");
                let (key, value) = (Some(first.to_string()), Some(values));
                Line { change: "words", of: Some(format!("heap {heap}")), key, value, ..line }
            }
            Change::Record { kind, bytes } => {
                Line { change: "record", of: Some(kind), value: Some(digits(&bytes)), ..line }
            }
            Change::Raw { operation, at, arguments } => {
                let (page, slot) = (Some(at.page.get()), Some(at.slot.0));
                Line { change: "raw", of: Some(operation), page, slot, value: Some(digits(&arguments)), ..line }
            }
            _ => Line { change: "unknown", ..line },
        }
    }

    fn text(&self) -> String {
        let transaction = self.transaction.map_or_else(|| "-".into(), |number| format!("t{number}"));
        let mut text = format!("{:>10} {transaction:>8}  {:<7}", self.lsn, self.change);
        if let (Some(page), Some(slot)) = (self.page, self.slot) {
            text += &format!("  page {page} slot {slot}");
        }
        for part in [&self.of, &self.key, &self.value].into_iter().flatten() {
            text += "  ";
            text += part;
        }
        text
    }
}

/// Returns the bytes in hexadecimal digits.
fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Prints the transactions that are asked for.
pub(crate) fn changes(arguments: &Changes, disks: &Disks) -> Outcome {
    // Before the log, which locks the store as this does.
    let mut names = verify::recovered(&arguments.directory, disks)?.store.transact(StructureNames::of)?;
    let looked = Looked::at(&arguments.directory, disks)?;
    let media = disks.open(&arguments.directory)?;
    let (_, kept_from) = consumers_of(&media, looked.found.control())?;
    let from = arguments.from.map_or(kept_from, Lsn::new);
    if from < kept_from {
        return Err(Error::ChangesLost { consumer: None, from, kept_from }.into());
    }
    let (found, _alone) = looked.into_log();
    let mut stream = ChangeStream::of_files(found, &crate::registry(), kept_from, from);
    let mut printed = 0_u64;
    loop {
        let Some(mut set) = stream.next()? else { break };
        let lsn = set.lsn();
        match print(&mut set, &mut names, arguments.json) {
            Ok(lines) => printed += lines,
            Err(Printing::Closed) => return Ok(()),
            Err(Printing::Failed(error @ Error::ChangesLost { .. })) if arguments.from.is_none() => {
                output::note(format_args!("the transaction of LSN {lsn} began before the log: {error}"));
                stream.skip_to(lsn);
            }
            Err(Printing::Failed(error)) => return Err(error.into()),
            Err(Printing::Other(failure)) => return Err(failure),
        }
    }
    if printed == 0 {
        output::note(format_args!("no change since LSN {from}, from which on the log is kept"));
    }
    Ok(())
}

/// The reason why printing has ended.
enum Printing {
    /// `cedrat changes DIR | head`: the reader has seen enough.
    Closed,
    Failed(Error),
    Other(Failure),
}

/// Prints the changes of a transaction, and returns their number.
fn print(set: &mut ChangeSet<'_>, names: &mut StructureNames, json: bool) -> Result<u64, Printing> {
    let mut printed = 0;
    while let Some(change) = set.next().map_err(Printing::Failed)? {
        names.note(&change);
        let line = Line::new(set, change, names);
        let text = match json {
            true => serde_json::to_string(&line).map_err(|error| Printing::Other(error.into()))?,
            false => output::plain(line.text()),
        };
        match output::line(text) {
            Ok(()) => printed += 1,
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(Printing::Closed),
            Err(error) => return Err(Printing::Other(error.into())),
        }
    }
    Ok(printed)
}
