//! The metrics of a store, for the `metrics` crate.
//!
//! [`Store::publish_metrics`] copies counters that exist anyway, and those of [`Counts`](crate::counts::Counts), to the recorder
//! that the program has installed. A counter grows by its events since the last call, so the counts of several openings add up.

use std::collections::HashMap;
use std::time::Duration;

use cedrat_sync::Mutex;
use cedrat_wal::{Log, PartitionId, StopReason};
use metrics::{Label, counter, gauge};

use crate::pins::{Pin, PinHolder};
use crate::store::Store;
use crate::transaction::Commit;

/// A metric of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// The kind: `counter` or `gauge`.
    pub kind: &'static str,
    /// The labels besides `store`, separated by commas.
    pub labels: &'static str,
    /// The description, with the unit.
    pub what: &'static str,
}

const fn counts(name: &'static str, labels: &'static str, what: &'static str) -> Metric {
    Metric { name, kind: "counter", labels, what }
}

const fn shows(name: &'static str, labels: &'static str, what: &'static str) -> Metric {
    Metric { name, kind: "gauge", labels, what }
}

/// The metrics of a store.
pub const METRICS: &[Metric] = &[
    counts("cedrat_commits_total", "mode", "commits by requested mode, also of transactions that only read"),
    counts("cedrat_rollbacks_total", "", "rollbacks of transactions that had a record in the log"),
    counts("cedrat_deadlocks_total", "", "requests for locks that were refused because the wait would not end"),
    counts("cedrat_log_appended_bytes_total", "", "bytes appended to the log, with headers and padding of blocks"),
    counts("cedrat_log_durable_bytes_total", "", "bytes of log that became durable"),
    counts("cedrat_log_forces_total", "", "writes of log blocks that became durable"),
    counts("cedrat_log_failed_writes_total", "", "failed writes and syncs of the log; the first one stops the store"),
    counts("cedrat_pages_read_total", "", "pages read from the page file: pool misses"),
    counts("cedrat_pages_written_total", "", "pages written to the page file"),
    counts("cedrat_pages_evicted_total", "", "pages evicted from the pool"),
    counts("cedrat_pages_rebuilt_total", "", "damaged pages rebuilt from the archive"),
    counts("cedrat_checkpoints_total", "", "completed checkpoints"),
    counts("cedrat_checkpoint_milliseconds_total", "", "time of completed checkpoints, in milliseconds"),
    counts("cedrat_backup_bytes_total", "", "bytes of pages and heaps that backups have read"),
    counts("cedrat_heap_commits_total", "", "commits that have written heap words, also together with pages"),
    counts("cedrat_heap_conflicts_total", "", "heap transactions restarted after a write conflict"),
    counts("cedrat_heap_checkpoints_total", "", "completed checkpoints of the heaps"),
    shows(
        "cedrat_transactions_running",
        "",
        "transactions with a record in the log that have not ended, prepared ones included",
    ),
    shows("cedrat_transactions_in_doubt", "", "prepared transactions"),
    shows("cedrat_log_limit_bytes", "", "maximum size of the log on disk, in bytes"),
    shows("cedrat_log_reserved_bytes", "", "log space reserved and not used yet, in bytes"),
    shows("cedrat_log_free_bytes", "", "log space that another reservation can get from existing segments, in bytes"),
    shows("cedrat_log_used_bytes", "", "log from the scan point of the last checkpoint on, in bytes"),
    shows("cedrat_log_pinned_bytes", "holder", "log that the oldest holder of this kind keeps, in bytes"),
    shows("cedrat_pages_resident", "", "pages in memory"),
    shows("cedrat_pages_dirty", "", "pages in memory that differ from the page file"),
    shows("cedrat_backups_running", "", "running backups"),
    shows("cedrat_archive_lag_bytes", "", "log that the archive lacks, in bytes"),
    shows("cedrat_stopped", "", "1 if the store has stopped, else 0"),
    shows("cedrat_recovery_seconds", "", "time of the opening, in seconds"),
    shows("cedrat_recovery_log_bytes", "", "log that the opening has read, in bytes"),
    shows("cedrat_recovery_redone_records", "", "records that the opening has redone, or redo on demand since"),
    shows("cedrat_recovery_pending_pages", "", "pages that are redone on demand, and were not yet"),
    shows("cedrat_recovery_pending_log_bytes", "", "log that redo on demand has still to read, in bytes"),
    shows("cedrat_recovery_absent_heap_bytes", "", "bytes of heaps that are loaded on demand, and were not yet"),
    shows("cedrat_recovery_undone_records", "", "records that the opening has undone"),
];

/// The values of counters at their last publication, by name and by the value of their label.
#[derive(Debug, Default)]
pub(crate) struct Published(Mutex<HashMap<(&'static str, &'static str), u64>>);

impl Published {
    /// Returns the values for a log that was just opened, whose offsets count all bytes since it was created.
    pub(crate) fn since(log: &Log) -> Published {
        let (appended, durable) = log_bytes(log);
        let values = [("cedrat_log_appended_bytes_total", appended), ("cedrat_log_durable_bytes_total", durable)];
        Published(Mutex::new(values.into_iter().map(|(name, value)| ((name, ""), value)).collect()))
    }
}

/// Returns the number of bytes appended since the log was created, and the number of durable ones.
fn log_bytes(log: &Log) -> (u64, u64) {
    let partitions = (0..log.partitions()).map(PartitionId);
    partitions.fold((0, 0), |(appended, durable), partition| {
        (appended + log.appended(partition).get(), durable + log.flushed(partition).get())
    })
}

/// One publication.
struct Publication<'a> {
    store: &'a str,
    published: &'a mut HashMap<(&'static str, &'static str), u64>,
}

impl Publication<'_> {
    fn labels(&self, name: &'static str, value: &'static str) -> Vec<Label> {
        let metric = METRICS.iter().find(|metric| metric.name == name).expect("it is in the table");
        let mut labels = vec![Label::new("store", self.store.to_owned())];
        if !value.is_empty() {
            labels.push(Label::from_static_parts(metric.labels, value));
        }
        labels
    }

    /// Adds the events since the last publication.
    fn count(&mut self, name: &'static str, label: &'static str, now: u64) {
        let before = self.published.insert((name, label), now).unwrap_or(0);
        counter!(name, self.labels(name, label)).increment(now.saturating_sub(before));
    }

    fn show(&self, name: &'static str, label: &'static str, now: f64) {
        gauge!(name, self.labels(name, label)).set(now);
    }
}

impl Store {
    /// Publishes the [metrics](METRICS) of this store to the recorder of the `metrics` crate, with the label `store`. Call it
    /// before each scrape, or periodically: nothing is published in between. Without a recorder it has no effect.
    ///
    /// The counters of several openings with the same label add up. A store that has stopped still publishes its counters.
    pub fn publish_metrics(&self, store: &str) {
        let inner = &self.inner;
        // Held to the end: of two concurrent calls, the later one adds only the events that the earlier one has not added.
        let mut published = inner.counts.published.0.lock();
        let mut to = Publication { store, published: &mut published };
        self.publish_transactions(&mut to);
        self.publish_log(&mut to);
        self.publish_pages(&mut to);
        self.publish_heaps(&mut to);
        self.publish_recovery(&to);
    }

    fn publish_transactions(&self, to: &mut Publication<'_>) {
        let inner = &self.inner;
        let modes = [(Commit::Sync, "sync"), (Commit::Async, "async"), (Commit::NoFlush, "no_flush")];
        for (mode, label) in modes {
            to.count("cedrat_commits_total", label, inner.counts.commits(mode));
        }
        to.count("cedrat_rollbacks_total", "", inner.counts.rollbacks());
        to.count("cedrat_deadlocks_total", "", read(&inner.counts.deadlocks));
        to.show("cedrat_transactions_running", "", self.running() as f64);
        let prepared = inner.table.all(|entry| entry.is_prepared()).len();
        to.show("cedrat_transactions_in_doubt", "", prepared as f64);
    }

    fn publish_log(&self, to: &mut Publication<'_>) {
        let log = &self.inner.log;
        let (appended, durable) = log_bytes(log);
        to.count("cedrat_log_appended_bytes_total", "", appended);
        to.count("cedrat_log_durable_bytes_total", "", durable);
        to.count("cedrat_log_forces_total", "", log.writes());
        let stopped = log.stopped();
        let has_failed = |stopped: &cedrat_wal::Stopped| matches!(*stopped.reason, StopReason::WriteFailed { .. });
        to.count("cedrat_log_failed_writes_total", "", u64::from(stopped.as_ref().is_some_and(has_failed)));
        to.show("cedrat_stopped", "", f64::from(u8::from(stopped.is_some())));
        let space = log.space();
        to.show("cedrat_log_limit_bytes", "", space.limit.0 as f64);
        to.show("cedrat_log_reserved_bytes", "", space.reserved.0 as f64);
        to.show("cedrat_log_free_bytes", "", space.free.0 as f64);
        if let Ok(pins) = self.pins() {
            to.show("cedrat_log_used_bytes", "", pins.bytes as f64);
            for holder in HOLDERS {
                let of_kind = |pin: &&Pin| kind_of(&pin.holder) == *holder;
                let bytes = pins.pins.iter().filter(of_kind).map(|pin| pin.bytes).max();
                to.show("cedrat_log_pinned_bytes", holder, bytes.unwrap_or(0) as f64);
            }
        }
        if let Some(archive) = &self.inner.archive {
            let lag = log.bytes_since(archive.status().up_to.next()).0;
            to.show("cedrat_archive_lag_bytes", "", lag as f64);
        }
    }

    fn publish_pages(&self, to: &mut Publication<'_>) {
        let (pool, counts) = (self.inner.pool.stats(), &self.inner.counts);
        to.count("cedrat_pages_read_total", "", pool.pages_read);
        to.count("cedrat_pages_written_total", "", pool.pages_written);
        to.count("cedrat_pages_evicted_total", "", pool.pages_evicted);
        to.count("cedrat_pages_rebuilt_total", "", pool.pages_rebuilt);
        to.show("cedrat_pages_resident", "", pool.resident_pages as f64);
        to.show("cedrat_pages_dirty", "", pool.dirty_pages as f64);
        to.count("cedrat_checkpoints_total", "", read(&counts.checkpoints));
        let took = Duration::from_nanos(read(&counts.checkpoint_nanos));
        to.count("cedrat_checkpoint_milliseconds_total", "", took.as_millis() as u64);
        to.count("cedrat_backup_bytes_total", "", read(&counts.backup_bytes));
        to.show("cedrat_backups_running", "", self.inner.backups.scan_lsns().len() as f64);
    }

    fn publish_heaps(&self, to: &mut Publication<'_>) {
        let counted = self.inner.memory.counted();
        to.count("cedrat_heap_commits_total", "", self.inner.memory.commits());
        to.count("cedrat_heap_conflicts_total", "", counted.conflicts);
        to.count("cedrat_heap_checkpoints_total", "", counted.checkpoints);
    }

    fn publish_recovery(&self, to: &Publication<'_>) {
        let report = self.recovery();
        to.show("cedrat_recovery_seconds", "", report.total.as_secs_f64());
        to.show("cedrat_recovery_log_bytes", "", report.log_bytes as f64);
        to.show("cedrat_recovery_redone_records", "", report.redone as f64);
        to.show("cedrat_recovery_pending_pages", "", report.pending_pages as f64);
        to.show("cedrat_recovery_pending_log_bytes", "", report.pending_log_bytes as f64);
        to.show("cedrat_recovery_absent_heap_bytes", "", report.absent_heap_bytes as f64);
        to.show("cedrat_recovery_undone_records", "", report.undone as f64);
    }
}

fn read(counter: &cedrat_sync::atomic::AtomicU64) -> u64 {
    counter.load(cedrat_sync::atomic::Ordering::Relaxed)
}

/// The values of the label `holder`.
const HOLDERS: &[&str] = &[
    "transaction",
    "prepared",
    "page",
    "redo",
    "deferred_change",
    "heuristic_outcome",
    "heap",
    "backup",
    "consumer",
    "archive",
];

fn kind_of(holder: &PinHolder) -> &'static str {
    match holder {
        PinHolder::Transaction { .. } => "transaction",
        PinHolder::Prepared { .. } => "prepared",
        PinHolder::Page(_) => "page",
        PinHolder::Redo => "redo",
        PinHolder::DeferredChange => "deferred_change",
        PinHolder::HeuristicOutcome => "heuristic_outcome",
        PinHolder::Heap(_) => "heap",
        PinHolder::Backup => "backup",
        PinHolder::Consumer(_) => "consumer",
        PinHolder::Archive { .. } => "archive",
    }
}
