//! `cedrat stats`: what the log of a store consists of.

use std::collections::{BTreeMap, HashMap};

use cedrat_txn::Explainer;
use cedrat_wal::Kind;
use serde::Serialize;

use crate::arguments::Stats;
use crate::disks::Disks;
use crate::log::kind_name;
use crate::look::Looked;
use crate::output::{self, Outcome, bytes, fail, grouped};

/// Number of pages that are listed.
const BUSY_PAGES: usize = 10;

/// The content of a log, from the LSN on where an opening begins to read.
#[derive(Debug, Serialize)]
struct About {
    first_lsn: u64,
    /// The first LSN that is not in the log.
    end_lsn: u64,
    committed: u64,
    rolled_back: u64,
    records: u64,
    /// Bytes of the bodies of all records.
    bytes: u64,
    /// By kind, the largest first.
    kinds: Vec<Share>,
    /// Changes of pages by operation, the largest first.
    operations: Vec<Share>,
    pages_changed: u64,
    /// The pages with most changes.
    busy_pages: Vec<BusyPage>,
}

#[derive(Debug, Serialize)]
struct Share {
    name: String,
    count: u64,
    /// Bytes of bodies of records, or of the arguments of changes.
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct BusyPage {
    page: u64,
    changes: u64,
}

/// Counts and bytes by name.
#[derive(Default)]
struct Shares(BTreeMap<String, (u64, u64)>);

impl Shares {
    fn add(&mut self, name: &str, bytes: usize) {
        let share = match self.0.get_mut(name) {
            Some(share) => share,
            None => self.0.entry(name.to_owned()).or_default(),
        };
        *share = (share.0 + 1, share.1 + bytes as u64);
    }

    fn into_list(self) -> Vec<Share> {
        let mut list: Vec<_> = self.0.into_iter().map(|(name, (count, bytes))| Share { name, count, bytes }).collect();
        list.sort_by_key(|share| std::cmp::Reverse((share.bytes, share.count)));
        list
    }
}

/// Prints what the log of a store consists of.
pub(crate) fn stats(arguments: &Stats, disks: &Disks) -> Outcome {
    let looked = Looked::at_any(&arguments.directory, disks)?;
    let about = count(&looked)?;
    if arguments.json { output::json(&about) } else { print(&about) }
}

fn count(looked: &Looked) -> Result<About, output::Failure> {
    let found = &looked.found;
    let explainer = Explainer::new(&crate::registry(), &found.control().names);
    let first = found.control().checkpoint.scan_lsn;
    let (mut kinds, mut operations) = (Shares::default(), Shares::default());
    let mut pages = HashMap::<u64, u64>::new();
    let (mut committed, mut rolled_back, mut records, mut bytes) = (0, 0, 0, 0);
    let mut scan = found.scan(first)?;
    while let Some(scanned) = scan.next()? {
        let record = &scanned.record;
        records += 1;
        bytes += record.body.len() as u64;
        committed += u64::from(record.head.kind == Kind::COMMIT);
        rolled_back += u64::from(record.head.kind == Kind::ROLLBACK_END);
        kinds.add(kind_name(record.head.kind), record.body.len());
        let each = explainer.each_change(record, &mut |name, page, len| {
            operations.add(name, len);
            *pages.entry(page.get()).or_default() += 1;
        });
        if let Err(why) = each {
            let (file, offset) = found.place(record.position);
            return fail(format!("{file}, byte {offset}: record {} is corrupt: {why}", record.lsn));
        }
    }
    let pages_changed = pages.len() as u64;
    let mut busy_pages: Vec<_> = pages.into_iter().map(|(page, changes)| BusyPage { page, changes }).collect();
    busy_pages.sort_by_key(|busy| (std::cmp::Reverse(busy.changes), busy.page));
    busy_pages.truncate(BUSY_PAGES);
    Ok(About {
        first_lsn: first.get(),
        end_lsn: found.end_lsn().get(),
        committed,
        rolled_back,
        records,
        bytes,
        kinds: kinds.into_list(),
        operations: operations.into_list(),
        pages_changed,
        busy_pages,
    })
}

fn print(about: &About) -> Outcome {
    let lsns = format!("LSN {} to before {}", grouped(about.first_lsn), grouped(about.end_lsn));
    let ended = format!("{} committed, {} rolled back", grouped(about.committed), grouped(about.rolled_back));
    let mut rows = vec![
        ("log", lsns),
        ("transactions", ended),
        ("records", format!("{}, {}", grouped(about.records), bytes(about.bytes))),
    ];
    for (title, shares) in [("kinds", &about.kinds), ("operations", &about.operations)] {
        for (index, share) in shares.iter().enumerate() {
            let text =
                format!("{}: {}, {}", output::plain(share.name.clone()), grouped(share.count), bytes(share.bytes));
            rows.push((if index == 0 { title } else { "" }, text));
        }
    }
    rows.push(("pages", format!("{} changed", grouped(about.pages_changed))));
    for busy in &about.busy_pages {
        rows.push(("", format!("page {}: {} changes", busy.page, grouped(busy.changes))));
    }
    output::rows(&rows)
}
