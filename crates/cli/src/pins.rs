//! `cedrat pins`: what keeps the log of a store from being released.

use std::path::Path;

use cedrat::txn::{Pin, PinHolder};
use cedrat_wal::{FoundArchive, Log, Lsn};
use serde::Serialize;

use crate::arguments::Pins;
use crate::disks::Disks;
use crate::info::digits;
use crate::look::{self, Looked};
use crate::output::{self, Context, Outcome, bytes, grouped};
use crate::verify::recovered_in_doubt;

/// The holders of a store's log.
#[derive(Debug, Serialize)]
struct About {
    /// Log before this LSN is released.
    scan_lsn: u64,
    /// Redo begins here.
    redo_lsn: u64,
    /// The LSN of the newest record.
    newest_lsn: u64,
    /// Bytes of log since the scan LSN.
    bytes: u64,
    /// Transactions that had not ended when the store was closed or killed. The next opening rolls them back.
    unfinished_transactions: u64,
    /// Holders after recovery, oldest first.
    holders: Vec<Holder>,
}

#[derive(Debug, Serialize)]
struct Holder {
    holder: &'static str,
    /// The first LSN that it needs.
    lsn: u64,
    /// Bytes of log since then.
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction: Option<u64>,
    /// The identifier of a prepared transaction, in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    heap: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumer: Option<String>,
    #[serde(skip)]
    text: String,
}

impl Holder {
    fn new(lsn: u64, bytes: u64) -> Holder {
        let (transaction, id, page, heap, consumer) = (None, None, None, None, None);
        Holder { holder: "other", lsn, bytes, transaction, id, page, heap, consumer, text: String::new() }
    }

    fn of(pin: &Pin) -> Holder {
        let mut holder = Holder::new(pin.lsn.get(), pin.bytes);
        let text = match &pin.holder {
            PinHolder::Transaction { txn, .. } => {
                (holder.holder, holder.transaction) = ("transaction", Some(txn.0));
                format!("transaction {}, until it ends", txn.0)
            }
            PinHolder::Prepared { txn, id } => {
                let id = digits(id);
                let text = format!("prepared transaction {}, until its outcome (cedrat resolve DIR {id} …)", txn.0);
                (holder.holder, holder.transaction, holder.id) = ("prepared transaction", Some(txn.0), Some(id));
                text
            }
            PinHolder::Page(page) => {
                (holder.holder, holder.page) = ("page", Some(page.get()));
                format!("page {page}, which is not written yet, until the next checkpoint")
            }
            PinHolder::Redo => {
                holder.holder = "redo";
                "a record that the opening has not redone yet, until redo has reached it".into()
            }
            PinHolder::DeferredChange => {
                holder.holder = "deferred change";
                "a change that a cache has not written yet, until the next checkpoint".into()
            }
            PinHolder::HeuristicOutcome => {
                holder.holder = "heuristic outcome";
                "the outcome of a resolved transaction, until the next checkpoint, or cedrat resolve … forget".into()
            }
            PinHolder::Heap(heap) => {
                (holder.holder, holder.heap) = ("heap", Some(heap.clone()));
                format!("heap {heap}, whose checkpoint is old, until the next checkpoint")
            }
            PinHolder::Consumer(name) => {
                (holder.holder, holder.consumer) = ("consumer", Some(name.clone()));
                format!("consumer {name} of the change stream, until it confirms, or is released")
            }
            PinHolder::Backup => "a backup, until it ends".into(),
            PinHolder::Archive { .. } => "the archive, until it is extended".into(),
            _ => "another holder".into(),
        };
        holder.text = text;
        holder
    }
}

/// Prints what keeps the log of a store.
pub(crate) fn pins(arguments: &Pins, disks: &Disks) -> Outcome {
    let end = Looked::at(&arguments.directory, disks)?.found.end_lsn();
    let recovered = recovered_in_doubt(&arguments.directory, disks)?;
    let pins = recovered.store.pins()?;
    let mut about = About {
        scan_lsn: pins.scan_lsn.get(),
        redo_lsn: pins.redo_lsn.get(),
        newest_lsn: pins.newest_lsn.get(),
        bytes: pins.bytes,
        unfinished_transactions: recovered.store.recovery().losers,
        holders: pins.pins.iter().map(Holder::of).collect(),
    };
    if let Some(archive) = &arguments.archive {
        add_archive(&mut about, (archive, disks), end, recovered.store.log())?;
    }
    if arguments.json {
        return output::json(&about);
    }
    print(&about)
}

/// Adds the archive if it lacks records.
fn add_archive(about: &mut About, (archive, disks): (&Path, &Disks), end: Lsn, log: &Log) -> Outcome {
    look::is_directory(archive)?;
    let media = disks.open(archive)?;
    let (_, last) = FoundArchive::look(&media).while_doing(archive.display())?.lsns();
    if last.next() < end {
        let text = "the archive, until an opening extends it".into();
        let (lsn, bytes) = (last.next().get(), log.bytes_since(last.next()).0);
        about.holders.push(Holder { holder: "archive", text, ..Holder::new(lsn, bytes) });
        about.holders.sort_by_key(|holder| holder.lsn);
    }
    Ok(())
}

fn print(about: &About) -> Outcome {
    let mut rows = vec![
        ("released", format!("log before LSN {}", grouped(about.scan_lsn))),
        ("redo from", format!("LSN {}", grouped(about.redo_lsn))),
        ("newest", format!("LSN {}", grouped(about.newest_lsn))),
        ("held", bytes(about.bytes)),
    ];
    if about.unfinished_transactions > 0 {
        let unfinished = grouped(about.unfinished_transactions);
        rows.push(("unfinished", format!("{unfinished} transactions, which the next opening rolls back")));
    }
    if about.holders.is_empty() {
        rows.push(("holders", "none: the next checkpoint releases all of it".into()));
    }
    for (index, holder) in about.holders.iter().enumerate() {
        let text = format!("LSN {}, {}: {}", grouped(holder.lsn), bytes(holder.bytes), holder.text);
        rows.push((if index == 0 { "holders" } else { "" }, text));
    }
    output::rows(&rows)
}
