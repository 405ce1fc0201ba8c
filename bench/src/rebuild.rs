//! Figure `rebuild`: the time of a read that finds its page damaged, and rebuilds it from the archive and a backup.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use cedrat::pages::{PAGE_FILE, PAGE_LEN};
use cedrat::structures::HashTable;
use cedrat::txn::{BackupOptions, Commit};
use cedrat::{Options, Store};

use crate::Settings;
use crate::backup::files;
use crate::disk::drop_cached;
use crate::job::Scratch;
use crate::random::Random;
use crate::report::{Goal, Point, Report, median, params};
use crate::systems::Result;

/// The number of pages that are damaged.
const PAGES: u64 = 40;

/// The bytes of log of one change, about.
const CHANGE_LEN: u64 = 600;

/// The number of changes in a transaction.
const CHANGES: u64 = 100;

fn opened(dir: &Path, has_backup: bool) -> Result<Store> {
    let options = cedrat::archived_in(dir.join("archive"), Options { pool_bytes: 64 << 20, ..Options::default() });
    let options = if has_backup { cedrat::rebuilt_from(dir.join("backup"), options) } else { options };
    Ok(cedrat::open_with(dir.join("store"), options, cedrat::registry())?)
}

/// Makes a store with a backup, and an archive of so many bytes of random changes since.
fn filled(settings: &Settings, dir: &Path, bytes: u64) -> Result<()> {
    let store = opened(dir, false)?;
    let table = store.transact(|txn| HashTable::<u64, String>::create(txn, "table"))?;
    let entries = (bytes / CHANGE_LEN / 5).max(1_000);
    let mut random = Random::new(1);
    let change = |key: u64, txn: &mut _| table.insert(txn, &key, &format!("{key:0200}")).map(drop);
    settings.tell("rebuild: filling a store");
    for first in (0..entries).step_by(CHANGES as usize) {
        let mut txn = store.begin();
        (first..first + CHANGES).try_for_each(|key| change(key, &mut txn))?;
        txn.commit(Commit::Async)?;
    }
    store.checkpoint()?;
    cedrat::backup(&store, dir.join("backup"), BackupOptions::default())?;
    settings.tell("rebuild: changing it");
    for _ in 0..bytes / CHANGE_LEN / CHANGES {
        let mut txn = store.begin();
        (0..CHANGES).try_for_each(|_| change(random.below(entries), &mut txn))?;
        txn.commit(Commit::Async)?;
    }
    Ok(store.close()?)
}

/// Measures reads of damaged pages. Nothing that they need is in the cache of the system.
pub(crate) fn figure(settings: &Settings, scratch: &mut Scratch) -> Result<Report> {
    let bytes = settings.bytes.unwrap_or(if settings.quick { 32 << 20 } else { 10 << 30 });
    let dir = scratch.fresh()?;
    filled(settings, &dir, bytes)?;
    let store = opened(&dir, true)?;
    let page_file = OpenOptions::new().write(true).open(dir.join("store").join(PAGE_FILE))?;
    let pages = store.pages_in_use()?;
    let mut random = Random::new(2);
    let mut times = Vec::new();
    while times.len() < PAGES as usize {
        let page = pages[random.below(pages.len() as u64) as usize];
        if store.pool().is_resident(page) {
            continue;
        }
        page_file.write_all_at(&[0x55; 100], page.get() * PAGE_LEN as u64 + 1_000)?;
        files(&dir)?.iter().try_for_each(|file| drop_cached(file))?;
        let before = store.pool().stats().pages_rebuilt;
        let began = Instant::now();
        drop(store.read(page)?);
        times.push(began.elapsed().as_secs_f64() * 1e3);
        if store.pool().stats().pages_rebuilt == before {
            return Err(format!("page {} was not rebuilt", page.get()).into());
        }
    }
    times.sort_by(f64::total_cmp);
    let mut report = Report::default();
    let (slowest, median) = (times.last().copied(), median(times));
    let mut add = |metric, time: Option<f64>| {
        let params = params! {"bytes": bytes};
        report.points.extend(time.map(|time| Point::new("rebuild", "cedrat", params, metric, time, "ms")));
    };
    add("rebuild_ms", median);
    add("rebuild_max_ms", slowest);
    report.goals = vec![Goal::at_most("milliseconds to rebuild a page, median", median, 50.0)];
    Ok(report)
}
