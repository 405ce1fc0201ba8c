//! Measures an opening after a crash, with a log that has all changes and a page file that has none: the time to the first answer, and
//! to the end of redo.
//!
//! `cargo run --release -p cedrat-structures --example opening_time [KEYS] [ON DEMAND FROM BYTES] [default]`. With `default`, the store
//! that crashes has the default options: checkpoints bound the log that is analysed. For quick checks of a change; the official
//! numbers are measured by `./x bench recovery` and `./x bench opening`.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use cedrat_media::{Media, RealDisk};
use cedrat_pages::PageId;
use cedrat_structures::{RawHashTable, register};
use cedrat_sync::Arc;
use cedrat_txn::{Commit, NoLocks, Options, Registry, Result, Store};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next();
    if first.as_deref() == Some("fill") {
        let mut argument = || arguments.next().expect("a directory, a file and a number");
        let (directory, root) = (argument(), argument());
        let keys = argument().parse().expect("a number of keys");
        let options = if argument() == "default" { by_default() } else { Options { background: false, ..options() } };
        return fill(directory.as_ref(), root.as_ref(), keys, options);
    }
    let keys: u64 = first.map_or(1_000_000, |n| n.parse().expect("a number of keys"));
    let redo_on_demand_bytes =
        arguments.next().map_or(Options::default().redo_on_demand_bytes, |n| n.parse().expect("a number of bytes"));
    let kind = arguments.next().unwrap_or_else(|| "whole".to_owned());
    let opening = if kind == "default" { by_default() } else { Options { background: true, ..options() } };
    let scratch = std::env::temp_dir().join(format!("cedrat-opening-time-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).expect("the directory can be made");
    let (directory, root) = (scratch.join("store"), scratch.join("root"));
    let mut child = Command::new(std::env::current_exe().expect("its own path"));
    child.arg("fill").args([&directory, &root]).args([keys.to_string(), kind]);
    assert!(child.status().expect("it starts").success());
    let root: u64 = std::fs::read_to_string(root).expect("the child has written it").parse().expect("a number");

    let begun = Instant::now();
    let store = open(&directory, Options { redo_on_demand_bytes, ..opening })?;
    let opened = begun.elapsed();
    let table = RawHashTable::open(&store, PageId::new(root))?;
    let mut txn = store.begin();
    assert!(table.get(&mut txn, &key(keys / 2))?.is_some());
    let answered = begun.elapsed();
    println!("opened after {opened:?}, first answer after {answered:?}: {:?}", store.recovery());
    let mut slowest = std::time::Duration::ZERO;
    for number in 0..1000 {
        let asked = Instant::now();
        assert!(table.get(&mut txn, &key(number * 7919 % keys))?.is_some());
        slowest = slowest.max(asked.elapsed());
    }
    println!("a thousand answers more after {:?}, the slowest in {slowest:?}", begun.elapsed());
    store.complete_recovery()?;
    println!("full speed after {:?}: {:?}", begun.elapsed(), store.recovery());
    println!("{} entries", table.check(&txn)?.elements);
    drop(txn);
    drop(table);
    drop(store);
    std::fs::remove_dir_all(&scratch).expect("the directory can be removed");
    Ok(())
}

/// No page is written back before the crash.
fn options() -> Options {
    Options {
        pool_bytes: 2 << 30,
        log_limit_bytes: 8 << 30,
        locks: Arc::new(NoLocks),
        checkpoint_every_bytes: u64::MAX,
        ..Options::default()
    }
}

fn by_default() -> Options {
    Options { locks: Arc::new(NoLocks), ..Options::default() }
}

fn open(directory: &Path, options: Options) -> Result<Store> {
    let media: Arc<dyn Media> = Arc::new(RealDisk::new(directory));
    Ok(Store::open(media, options, Registry::new().with(register))?)
}

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}

/// Fills a store, and ends without closing it.
fn fill(directory: &Path, root: &Path, keys: u64, options: Options) -> Result<()> {
    std::fs::create_dir_all(directory).expect("the directory can be made");
    let store = open(directory, options)?;
    let table = store.transact(RawHashTable::create)?;
    for first in (0..keys).step_by(1000) {
        let mut txn = store.begin();
        for number in first..keys.min(first + 1000) {
            table.put(&mut txn, &key(number), &number.to_le_bytes())?;
        }
        drop(txn.commit(Commit::Async)?);
    }
    store.log().force(store.log().current_lsn())?;
    println!("filled: {} MB of log", store.log().bytes_since(cedrat_wal::Lsn::new(1)).0 >> 20);
    std::fs::write(root, table.root().get().to_string()).expect("it can be written");
    std::process::exit(0)
}
