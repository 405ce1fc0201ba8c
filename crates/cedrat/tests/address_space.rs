//! A store in a process with a limit on its address space.
#![forbid(unsafe_code)]
#![cfg(unix)]

use std::process::Command;

use cedrat::heap::{Commit, HeapOptions};

/// Environment variable with the directory of the limited process.
const DIRECTORY: &str = "CEDRAT_LIMITED_DIRECTORY";

/// Limits of the address space, in KiB.
const LIMIT: u64 = 2 << 20;
const SMALL_LIMIT: u64 = 512 << 10;

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

/// Runs in the limited process, as above: neither a larger heap nor a larger page file fits.
#[test]
fn limited_process_names_option_to_set() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let open = || cedrat::open_with(&directory, cedrat::Options::default(), cedrat::registry());
    let store = open().expect("it opens");
    let error = store.memory().create_heap("large", &HeapOptions::new(3 << 30)).expect_err("no 3 GiB fit").to_string();
    assert!(
        error.contains("3221225472 bytes of address space for heap large") && error.contains("size_max"),
        "{error}"
    );
    store.close().expect("it closes");
    let pages = std::fs::File::options().write(true).open(std::path::Path::new(&directory).join("pages"));
    pages.and_then(|pages| pages.set_len(3 << 30)).expect("a sparse file");
    let error = open().expect_err("no 3 GiB fit").to_string();
    assert!(error.contains("bytes of address space") && error.contains("PoolOptions::pages_max"), "{error}");
}

/// Returns the bytes of address space that the small limit still allows this process.
fn free_address_space() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the system is Linux");
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("a process has a size");
    let size: u64 = size.trim().trim_end_matches(" kB").parse().expect("a number");
    (SMALL_LIMIT - size) << 10
}

/// Runs in a process with a small limit, as above. The first heap may grow to all that there is, and does not get it beside the
/// pages of a new store. When the store is opened again, the second heap and the pages still need theirs.
#[test]
fn limited_process_opens_store_again() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let open = |name| {
        let options = cedrat::Options { background: false, redo_threads: 0, ..cedrat::Options::default() };
        cedrat::open_with(std::path::Path::new(&directory).join(name), options, cedrat::registry())
    };
    for name in ["heaps", "pages"] {
        let greedy = HeapOptions { size_max: free_address_space() - (64 << 20), ..HeapOptions::raw(1 << 20) };
        let store = open(name).expect("it opens");
        let memory = store.memory();
        let first = memory.create_heap("first", &greedy).expect("its size fits");
        assert!(first.size_max() < greedy.size_max, "the pages take a part");
        if name == "heaps" {
            memory.create_heap("second", &HeapOptions::raw(100 << 20)).expect("it fits");
        }
        drop((first, memory));
        store.close().expect("it closes");
        if name == "pages" {
            let pages = std::path::Path::new(&directory).join(name).join("pages");
            let pages = std::fs::File::options().write(true).open(pages);
            pages.and_then(|pages| pages.set_len(100 << 20)).expect("a sparse file");
        }
        let store = open(name).unwrap_or_else(|error| panic!("E12.6: {error}"));
        let first = store.memory().heap("first").expect("it was created");
        first.grow(2 << 20).expect("there is room to grow");
    }
}

fn passes_under_ulimit(test: &str, limit: u64) {
    let folder = tempfile::tempdir().expect("a directory");
    let mut limited = Command::new("sh");
    limited.arg("-c").arg(format!("ulimit -v {limit} && exec \"$0\" \"$@\""));
    limited.arg(std::env::current_exe().expect("this program"));
    limited.args(["--exact", test, "--nocapture"]);
    let output = limited.env(DIRECTORY, folder.path().join("store")).output().expect("sh");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
}

#[test]
fn store_opens_under_ulimit() {
    passes_under_ulimit("limited_process_opens_store_and_heap", LIMIT);
}

#[test]
fn refused_reservation_names_option_to_set() {
    passes_under_ulimit("limited_process_names_option_to_set", LIMIT);
}

#[test]
fn growth_leaves_room_for_others() {
    passes_under_ulimit("limited_process_opens_store_again", SMALL_LIMIT);
}
