//! `cedrat scrub`: all pages are read, and damaged ones rebuilt.

use std::ops::ControlFlow;

use cedrat::txn::{Options, ScrubOptions};
use serde::Serialize;

use crate::arguments::Scrub;
use crate::disks::Disks;
use crate::look::{self, Looked};
use crate::output::{self, Context, Outcome, grouped, progress};

/// The result of a scrub.
#[derive(Debug, Serialize)]
struct Scrubbed {
    /// Whether all pages are sound now.
    ok: bool,
    /// The damage of each page that was not rebuilt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
    /// Pages in use.
    pages: u64,
    /// Records of the log.
    log_records: u64,
    /// Damaged pages that were rebuilt.
    rebuilt: Vec<Rebuilt>,
}

#[derive(Debug, Serialize)]
struct Rebuilt {
    page: u64,
    damage: String,
}

/// Reads all pages of a store.
pub(crate) fn scrub(arguments: &Scrub, disks: &Disks) -> Outcome {
    // A directory without a store is refused before anything is written.
    drop(Looked::at(&arguments.directory, disks)?);
    let options = disks.options(Options::default());
    let options = match &arguments.backup {
        Some(backup) => {
            look::is_directory(backup)?;
            cedrat::rebuilt_from(backup, options)
        }
        None => options,
    };
    let store = look::open_with(&arguments.directory, arguments.archive.as_deref(), options)?;
    let bar = progress(store.pool().len_pages(), "reading pages");
    let options = ScrubOptions { bytes_per_second_max: arguments.rate.unwrap_or(0) };
    let report = store.scrub(options, |progress| {
        bar.set_position(progress.up_to);
        ControlFlow::Continue(())
    });
    bar.finish_and_clear();
    let report = report.while_doing("reading the log")?;
    let rebuilt = store.pool().rebuilt_pages().into_iter();
    let rebuilt = rebuilt.map(|it| Rebuilt { page: it.page.get(), damage: it.damage }).collect();
    let problems: Vec<String> = report.damaged.iter().map(ToString::to_string).collect();
    let ok = problems.is_empty();
    // What was rebuilt is written home.
    store.close().while_doing("closing the store")?;
    print(&Scrubbed { ok, problems, pages: report.pages, log_records: report.log_records, rebuilt }, arguments.json)
}

fn print(scrubbed: &Scrubbed, as_json: bool) -> Outcome {
    let mut rows = vec![("pages", grouped(scrubbed.pages)), ("log records", grouped(scrubbed.log_records))];
    rows.extend(scrubbed.rebuilt.iter().map(|it| ("rebuilt", format!("page {}: {}", it.page, it.damage))));
    output::verdict(scrubbed, as_json, &scrubbed.problems, rows)
}
