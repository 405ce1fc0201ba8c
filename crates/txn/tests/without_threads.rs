//! A store in a process that gets no thread of the system.
#![cfg(not(cedrat_shuttle))] // the scheduler refuses no thread

#[path = "integration/common.rs"]
mod common;
#[path = "../../wal/tests/integration/random.rs"]
mod random;

use std::process::Command;

use cedrat_media::SimDisk;
use cedrat_sync::Arc;
use cedrat_txn::Options;
use common::*;

/// Environment variable of the process without threads.
const IS_LIMITED: &str = "CEDRAT_TEST_WITHOUT_THREADS";

/// Environment variable of the standard library with the size of stacks.
const STACK_LEN: &str = "RUST_MIN_STACK";

/// Runs in the limited process, and does nothing in any other.
#[test]
fn limited_process_uses_store() {
    if std::env::var_os(IS_LIMITED).is_none() {
        return;
    }
    std::thread::Builder::new().spawn(|| ()).expect_err("no stack fits the memory");
    let with_threads = || Options { background: true, redo_threads: 2, checkpoint_every_bytes: 1, ..options() };
    let disk = Arc::new(SimDisk::new());
    let store = open_with(&disk, with_threads()).unwrap_or_else(|error| panic!("R7: {error}"));
    let refused = store.recovery().refused_threads;
    for name in ["cleaner", "checkpointer", "cedrat-log-0", "cedrat-wakes", "cedrat-begins", "cedrat-segments"] {
        assert!(refused.iter().any(|error| error.contains(name)), "R7: {name} in {refused:?}");
    }
    let page = store.transact(page_with_zeros).unwrap();
    let begin = store.log().control().checkpoint.scan_lsn;
    // Until the log was full, and a transaction has taken a checkpoint itself.
    let mut sum = 0;
    while store.log().control().checkpoint.scan_lsn == begin {
        store.transact(|txn| txn.update(at(page, 0), &Add { amount: 1 })).unwrap();
        sum += 1;
    }
    let mut loser = store.begin();
    loser.update(at(page, 0), &Add { amount: 1 }).unwrap();
    store.log().force(store.log().current_lsn()).unwrap();
    let disk = Arc::new(disk.cut_power(cedrat_media::Loss::Everything));
    let store = open_with(&disk, with_threads()).unwrap();
    let recovered = store.recovery();
    assert!(!recovered.refused_threads.is_empty() && recovered.undone > 0);
    assert!(store.log().control().checkpoint.scan_lsn >= recovered.end, "R7: the opening takes the checkpoint itself");
    assert_eq!(read_number(&store, at(page, 0)).unwrap(), sum);
    store.close().unwrap();
}

/// R7: threads of any size are refused to the limited process.
#[test]
fn store_opens_without_threads() {
    let mut limited = Command::new(std::env::current_exe().unwrap());
    limited.args(["--exact", "limited_process_uses_store", "--nocapture"]);
    let output = limited.env(IS_LIMITED, "1").env(STACK_LEN, (1_u64 << 60).to_string()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
    let store = open_with(&Arc::new(SimDisk::new()), Options { background: true, ..options() }).unwrap();
    assert!(store.recovery().refused_threads.is_empty(), "here is enough for threads");
}
