//! The metrics of a store, as a recorder of the program gets them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cedrat::heap::HeapOptions;
use cedrat::media::{Call, Fault, Media, SimDisk};
use cedrat::txn::{BackupOptions, METRICS, RecordId};
use cedrat::{Commit, Options, Registry, Store};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

mod common;

use common::{bytes, new_page, open};

/// A recorder that keeps each value by the name of its metric and the labels.
#[derive(Debug, Default)]
struct Recorded {
    values: Mutex<BTreeMap<String, (&'static str, Arc<AtomicU64>)>>,
}

impl Recorded {
    fn value(&self, key: &Key, kind: &'static str) -> Arc<AtomicU64> {
        let mut name = key.name().to_owned();
        key.labels().for_each(|label| name += &format!(" {}={}", label.key(), label.value()));
        Arc::clone(&self.values.lock().expect("no panic").entry(name).or_insert_with(|| (kind, Arc::default())).1)
    }

    /// Returns the value of a counter, with its labels after the name.
    fn counter(&self, name: &str) -> u64 {
        let values = self.values.lock().expect("no panic");
        values.get(name).unwrap_or_else(|| panic!("{name}: {:?}", values.keys())).1.load(Ordering::Relaxed)
    }

    fn gauge(&self, name: &str) -> f64 {
        f64::from_bits(self.counter(name))
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.value(key, "counter"))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.value(key, "gauge"))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

fn published(recorded: &Recorded, store: &Store, name: &str) {
    metrics::with_local_recorder(recorded, || store.publish_metrics(name));
}

fn opened(disk: &Arc<dyn Media>) -> Store {
    open(disk).expect("it opens")
}

/// Commits one transaction in each mode of pages, after creating a page, and rolls one back.
fn work(store: &Store) {
    let page = new_page(store);
    for (mode, value) in [(Commit::Sync, 1), (Commit::Async, 2), (Commit::Async, 3), (Commit::NoFlush, 4)] {
        let mut txn = store.begin();
        txn.update(RecordId::page(page), &bytes(value)).expect("it is there");
        txn.commit(mode).expect("it commits");
    }
    let mut txn = store.begin();
    txn.update(RecordId::page(page), &bytes(9)).expect("it is there");
    txn.rollback().expect("it rolls back");
}

#[test]
fn scripted_workload_gives_its_numbers() {
    let disk: Arc<dyn Media> = Arc::new(SimDisk::new());
    let (store, recorded) = (opened(&disk), Recorded::default());
    published(&recorded, &store, "one");
    let appended = recorded.counter("cedrat_log_appended_bytes_total store=one");
    work(&store);
    let heap = store.memory().create_heap("words", &HeapOptions::raw(1 << 20)).expect("there is room");
    for value in 1..=3 {
        store
            .memory()
            .session()
            .expect("a session")
            .run(Commit::Sync, |tx| tx.write(&heap, 0, value))
            .expect("it commits");
    }
    store.checkpoint().expect("it works");
    let backup: Arc<dyn Media> = Arc::new(SimDisk::new());
    let copied = store.backup(&backup, BackupOptions::default()).expect("it works");
    // Twice: the second call adds nothing to a counter.
    published(&recorded, &store, "one");
    published(&recorded, &store, "one");
    let counter = |name: &str| recorded.counter(&format!("{name} store=one"));
    let gauge = |name: &str| recorded.gauge(&format!("{name} store=one"));
    assert_eq!(recorded.counter("cedrat_commits_total store=one mode=sync"), 2);
    assert_eq!(recorded.counter("cedrat_commits_total store=one mode=async"), 2);
    assert_eq!(recorded.counter("cedrat_commits_total store=one mode=no_flush"), 1);
    assert_eq!(counter("cedrat_rollbacks_total"), 1);
    assert_eq!(counter("cedrat_heap_commits_total"), 3);
    // The backup takes one, too.
    assert_eq!(counter("cedrat_checkpoints_total"), 2);
    assert_eq!(counter("cedrat_backup_bytes_total"), copied.bytes);
    assert!(counter("cedrat_log_appended_bytes_total") > appended);
    assert!(counter("cedrat_log_forces_total") >= 4, "four commits were synchronous");
    assert_eq!(counter("cedrat_pages_written_total"), store.pool().stats().pages_written);
    assert_eq!(gauge("cedrat_log_limit_bytes"), store.log().space().limit.0 as f64);
    assert_eq!((gauge("cedrat_stopped"), gauge("cedrat_pages_dirty")), (0.0, 0.0));
}

#[test]
fn published_metrics_are_in_table() {
    let disk: Arc<dyn Media> = Arc::new(SimDisk::new());
    let options = Options { archive: Some(Arc::new(SimDisk::new())), ..Options::simulated() };
    let store = Store::open(disk, options, Registry::new()).expect("it opens");
    let recorded = Recorded::default();
    published(&recorded, &store, "one");
    let values = recorded.values.lock().expect("no panic");
    let mut found: Vec<_> =
        values.iter().map(|(key, (kind, _))| (key.split(' ').next().expect("a name"), *kind)).collect();
    found.dedup();
    let mut listed: Vec<_> = METRICS.iter().map(|metric| (metric.name, metric.kind)).collect();
    listed.sort_unstable();
    assert_eq!(found, listed);
}

#[test]
fn documentation_lists_all_metrics() {
    let page = include_str!("../../../docs/use/monitoring.md");
    let is_row = |line: &&str| line.starts_with("| `cedrat_") && METRICS.iter().any(|known| line.contains(known.kind));
    let rows: Vec<&str> = page.lines().filter(is_row).collect();
    let row = |metric: &cedrat::txn::Metric| {
        let labels = if metric.labels.is_empty() { String::new() } else { format!("`{}`", metric.labels) };
        format!("| `{}` | {} | {labels} | {} |", metric.name, metric.kind, metric.what).replace("|  |", "| |")
    };
    assert_eq!(rows, METRICS.iter().map(row).collect::<Vec<_>>());
}

#[test]
fn two_stores_differ_by_label() {
    let disks: [Arc<dyn Media>; 2] = [Arc::new(SimDisk::new()), Arc::new(SimDisk::new())];
    let recorded = Recorded::default();
    let stores = disks.each_ref().map(opened);
    work(&stores[0]);
    published(&recorded, &stores[0], "busy");
    published(&recorded, &stores[1], "idle");
    assert_eq!(recorded.counter("cedrat_rollbacks_total store=busy"), 1);
    assert_eq!(recorded.counter("cedrat_rollbacks_total store=idle"), 0);
}

#[test]
fn counters_of_openings_add_up() {
    let disk: Arc<dyn Media> = Arc::new(SimDisk::new());
    let recorded = Recorded::default();
    let mut appended = 0;
    for opening in 1..=2 {
        let store = opened(&disk);
        published(&recorded, &store, "one");
        // The log of the first opening is not counted again.
        let by_opening = recorded.counter("cedrat_log_appended_bytes_total store=one") - appended;
        assert!(opening == 1 || by_opening < appended / 2, "{by_opening} bytes; {appended} before");
        work(&store);
        published(&recorded, &store, "one");
        assert_eq!(recorded.counter("cedrat_rollbacks_total store=one"), opening);
        appended = recorded.counter("cedrat_log_appended_bytes_total store=one");
        store.close().expect("it closes");
    }
}

#[test]
fn failed_write_of_log_is_counted() {
    let sim = Arc::new(SimDisk::new());
    let disk: Arc<dyn Media> = Arc::<SimDisk>::clone(&sim);
    let (store, recorded) = (opened(&disk), Recorded::default());
    sim.inject(Fault::error(Call::Any, std::io::ErrorKind::Other).of("log/"));
    store.transact(|txn| txn.allocate()).expect_err("the disk fails");
    published(&recorded, &store, "one");
    assert_eq!(recorded.counter("cedrat_log_failed_writes_total store=one"), 1);
    assert_eq!(recorded.gauge("cedrat_stopped store=one"), 1.0);
}
