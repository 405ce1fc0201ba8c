//! Measures the insertion of a million random keys into a hash table in one transaction, and of their lookup (Lemon's
//! Figure 3).
//!
//! `cargo run --release -p cedrat-structures --example load_probe [KEYS] [DIRECTORY]`. For quick checks of a change;
//! the official numbers are measured by `./x bench load`, beside its peers.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use cedrat_media::{Media, RealDisk};
use cedrat_structures::{RawHashTable, register};
use cedrat_sync::{Arc, thread};
use cedrat_txn::{Commit, NoLocks, Options, Registry, Result, Store};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let keys: u64 = arguments.next().map_or(1_000_000, |n| n.parse().expect("a number of keys"));
    let directory = arguments.next().map_or_else(|| std::env::temp_dir().join("cedrat-load-probe"), PathBuf::from);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).expect("the directory can be made");

    let media: Arc<dyn Media> = Arc::new(RealDisk::new(&directory));
    let options =
        Options { pool_bytes: 1 << 30, log_limit_bytes: 4 << 30, locks: Arc::new(NoLocks), ..Options::default() };
    let store = Store::open(media, options, Registry::new().with(register))?;

    let mut txn = store.begin();
    let table = RawHashTable::create(&mut txn)?;
    let logged = store.log().flushed(cedrat_wal::PartitionId(0)).get();
    let begun = Instant::now();
    let worked = cpu_ns();
    for n in 0..keys {
        let key = shuffled(n).to_le_bytes();
        table.put(&mut txn, &key, &n.to_le_bytes())?;
    }
    let inserted = begun.elapsed();
    println!("{:.0} ns of this thread's work an insert", (cpu_ns() - worked) / keys as f64);
    txn.commit(Commit::Sync)?;
    let committed = begun.elapsed();
    let logged = store.log().flushed(cedrat_wal::PartitionId(0)).get() - logged;
    println!("{:.2} M inserts/s, {:.2} M/s with the commit", rate(keys, inserted), rate(keys, committed));
    println!("{:.1} bytes of log an insert", logged as f64 / keys as f64);
    let txn = store.begin();
    let checked = table.check(&txn)?;
    println!("{} entries on {} pages", checked.elements, checked.pages.len());
    drop(txn);

    for threads in [1, 2, 1, 2] {
        let begun = Instant::now();
        let workers: Vec<_> = (0..threads).map(|worker| spawn_reader(&store, &table, keys, worker)).collect();
        for worker in workers {
            worker.join().expect("no reader panics")?;
        }
        println!("{:.2} M gets/s on {threads} threads", rate(keys * threads, begun.elapsed()));
    }
    println!("{:?}", store.pool().stats());
    drop(table);
    store.close()?;
    std::fs::remove_dir_all(&directory).expect("the directory can be removed");
    Ok(())
}

fn spawn_reader(store: &Store, table: &RawHashTable, keys: u64, worker: u64) -> thread::JoinHandle<Result<()>> {
    let (store, table) = (store.clone(), table.clone());
    thread::spawn(move || {
        let mut txn = store.begin();
        let worked = cpu_ns();
        for n in 0..keys {
            let n = shuffled(n ^ worker << 40) % keys;
            let found = table.get_with(&mut txn, &shuffled(n).to_le_bytes(), |value| value == n.to_le_bytes())?;
            assert_eq!(found, Some(true));
        }
        println!("{:.0} ns of this thread's work a get", (cpu_ns() - worked) / keys as f64);
        Ok(())
    })
}

/// A random-looking number, a different one for each `n`.
fn shuffled(n: u64) -> u64 {
    let n = (n ^ n >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let n = (n ^ n >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    n ^ n >> 31
}

/// Processor time of this thread, in nanoseconds, which excludes waiting on a busy machine.
fn cpu_ns() -> f64 {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    line.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(f64::NAN)
}

fn rate(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64() / 1e6
}
