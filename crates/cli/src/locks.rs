//! `cedrat locks`: the locks that prepared transactions hold, also without a process.

use std::collections::BTreeMap;

use cedrat::structures::Catalogue;
use cedrat::txn::{LockMode, Resource};
use serde::Serialize;

use crate::arguments::Locks;
use crate::disks::Disks;
use crate::info::digits;
use crate::look::Looked;
use crate::output::{self, Failure, Outcome, grouped, plain};
use crate::verify::{recovered, recovered_in_doubt};

/// The prepared transactions of a store, with their locks.
#[derive(Debug, Default, Serialize)]
struct About {
    transactions: Vec<Holder>,
}

#[derive(Debug, Serialize)]
struct Holder {
    /// The identifier under which it prepared, in hexadecimal digits.
    id: String,
    transaction: u64,
    locks: Vec<Held>,
}

#[derive(Debug, Serialize)]
struct Held {
    /// `page`, `key`, `record` or `structure`.
    resource: &'static str,
    /// The page, or the root of the structure.
    page: u64,
    /// The hash of a key, in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<u16>,
    /// The name of the structure, if the catalogue has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    structure: Option<String>,
    mode: &'static str,
    #[serde(skip)]
    text: String,
}

/// Prints the locks of prepared transactions.
pub(crate) fn locks(arguments: &Locks, disks: &Disks) -> Outcome {
    let is_any = !Looked::at(&arguments.directory, disks)?.in_doubt()?.is_empty();
    let mut about = About::default();
    if is_any {
        let names = names(arguments, disks)?;
        let recovered = recovered_in_doubt(&arguments.directory, disks)?;
        let store = &recovered.store;
        let states = store.locks().locks();
        for branch in store.in_doubt()? {
            let of_branch = states.iter().flat_map(|state| {
                let own = state.holders.iter().filter(|(txn, _)| *txn == branch.txn);
                own.map(|&(_, mode)| Held::of(state.resource, mode, &names))
            });
            let (id, transaction, locks) = (digits(&branch.id), branch.txn.0, of_branch.collect());
            about.transactions.push(Holder { id, transaction, locks });
        }
    }
    if arguments.json {
        return output::json(&about);
    }
    print(&about)
}

/// Returns the names of structures by their roots. Prepared transactions are rolled back for that: the catalogue may be locked.
fn names(arguments: &Locks, disks: &Disks) -> Result<BTreeMap<u64, String>, Failure> {
    let recovered = recovered(&arguments.directory, disks)?;
    let catalogue = Catalogue::open(&recovered.store)?;
    let mut txn = recovered.store.begin();
    let names = catalogue.list(&mut txn)?.into_iter().map(|named| (named.root.get(), named.name)).collect();
    txn.rollback()?;
    Ok(names)
}

impl Held {
    fn of(resource: Resource, mode: LockMode, names: &BTreeMap<u64, String>) -> Held {
        let mode = match mode {
            LockMode::IntentionShared => "intention shared",
            LockMode::IntentionExclusive => "intention exclusive",
            LockMode::Shared => "shared",
            LockMode::SharedIntentionExclusive => "shared, intention exclusive",
            LockMode::Exclusive => "exclusive",
        };
        let (kind, page, hash, slot) = match resource {
            Resource::Page(page) => ("page", page, None, None),
            Resource::Key { structure, hash } => ("key", structure, Some(format!("{hash:016x}")), None),
            Resource::Record(at) => ("record", at.page, None, Some(at.slot.0)),
            Resource::Structure(root) => ("structure", root, None, None),
        };
        let structure = names.get(&page.get()).filter(|_| matches!(kind, "key" | "structure")).cloned();
        let of = structure.as_ref().map_or_else(String::new, |name| format!(" ({})", plain(name)));
        let text = format!("{resource}{of}: {mode}");
        Held { resource: kind, page: page.get(), hash, slot, structure, mode, text }
    }
}

fn print(about: &About) -> Outcome {
    let mut rows = vec![("prepared", format!("{} transactions", grouped(about.transactions.len() as u64)))];
    for holder in &about.transactions {
        rows.push(("", format!("{}: transaction {}, {} locks", holder.id, holder.transaction, holder.locks.len())));
        rows.extend(holder.locks.iter().map(|held| ("", format!("  {}", held.text))));
    }
    output::rows(&rows)
}
