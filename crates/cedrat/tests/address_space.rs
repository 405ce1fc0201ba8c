//! A store in a process with a limit on its address space.
#![forbid(unsafe_code)]
#![cfg(unix)]

use std::process::Command;

use cedrat::heap::{Commit, HeapOptions};

/// Environment variable with the directory of the limited process.
const DIRECTORY: &str = "CEDRAT_LIMITED_DIRECTORY";

/// Runs in the limited process, and does nothing in any other.
#[test]
fn limited_process_opens_store_and_heap() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    for run in 0..2u64 {
        let store = cedrat::open_with(&directory, cedrat::Options::default(), cedrat::registry()).expect("it opens");
        assert!(store.pool().pages_max() < 1 << 19, "no 2 GiB of pages fit");
        let memory = store.memory();
        let heap =
            if run == 0 { memory.create_heap("heap", &HeapOptions::new(512 << 20)) } else { memory.heap("heap") };
        let heap = heap.expect("it fits, without room to grow to eight times as much");
        assert!(heap.size_max() >= 512 << 20 && heap.size_max() < 4 << 30);
        let at = heap.first_offset();
        let counted = memory.run(Commit::Sync, |tx| {
            let value = tx.read(&heap, at)?;
            tx.write(&heap, at, value + 1)?;
            Ok(value)
        });
        assert_eq!(counted.expect("room").value, run);
        drop((heap, memory));
        store.close().expect("it closes");
    }
}

#[test]
fn store_opens_under_ulimit() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -v 2097152 && exec \"$0\" \"$@\""]).arg(std::env::current_exe().expect("this program"));
    limited.args(["--exact", "limited_process_opens_store_and_heap", "--nocapture"]);
    let output = limited.env(DIRECTORY, folder.path().join("store")).output().expect("sh");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
}
