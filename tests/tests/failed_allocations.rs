//! Allocations of memory that fail while a store opens, or while it is in use (`workload`): the process aborts, or a call returns an
//! error, and the next opening finds the same store. The store that opens here has losers, a half-done nested action, a prepared transaction, and heap words that no
//! checkpoint has.
//!
//! Each opening runs in a process of its own: this program, executed again.
#![cfg(not(cedrat_shuttle))] // processes

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use cedrat::heap::HeapOptions;
use cedrat_pages::{LayoutKind, PageId};
use cedrat_txn::{
    Commit, Error, FormatFresh, NoLocks, OpenError, Options, RecordId, Result, SetRange, Store, Txn, Undo, Vote,
};

#[path = "failed_allocations/workload.rs"]
mod workload;

/// The system's allocator, of which one allocation fails, or all from one on.
struct Failing;

/// Allocations of at least [`MIN`] bytes until one fails, that one included; 0: none fails.
static FAILS_IN: AtomicU64 = AtomicU64::new(0);

/// Whether all later ones fail, too.
static FAILS_FROM_THEN_ON: AtomicBool = AtomicBool::new(false);

/// Length of the shortest allocation that counts.
static MIN: AtomicU64 = AtomicU64::new(u64::MAX);

/// Number of allocations that counted.
static COUNTED: AtomicU64 = AtomicU64::new(0);

fn fails(len: usize) -> bool {
    if (len as u64) < MIN.load(Ordering::Relaxed) {
        return false;
    }
    let (number, first) = (COUNTED.fetch_add(1, Ordering::Relaxed) + 1, FAILS_IN.load(Ordering::Relaxed));
    number == first || first != 0 && number > first && FAILS_FROM_THEN_ON.load(Ordering::Relaxed)
}

// SAFETY: all memory is the system allocator's, called with the caller's arguments; a null pointer means that there is none.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise; the memory is the system allocator's.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Failing = Failing;

/// The variable with the directory, the length of the shortest allocation that counts, and the number of the one that fails.
const OPENING: &str = "CEDRAT_FAILED_ALLOCATION";

/// The variable with the size of the page pool of an opening, in bytes.
const POOL: &str = "CEDRAT_POOL_BYTES";

/// Time after which an opening is taken to hang.
const KILLED_AFTER: Duration = Duration::from_secs(300);

const BRANCH: &[u8] = b"branch";

/// Bytes of a page that a change writes.
const FILL: usize = 1_000;

/// Number of heap words that one commit writes.
const WORDS: u64 = 300;

/// Offset of the heap word of the prepared transaction, in a chunk of its own.
const BRANCH_WORD: u64 = 60_000;

/// Pages, each with the transaction that has changed it.
const COMMITTED: usize = 0;
const LOSER: usize = 1;
const NESTED: usize = 2;
const PREPARED: usize = 3;

fn open(directory: &Path) -> std::result::Result<Store, OpenError> {
    let pool_bytes = std::env::var(POOL).map_or(1 << 20, |bytes| bytes.parse().expect("a number"));
    let options = Options { pool_bytes, locks: Arc::new(NoLocks), redo_threads: 2, ..Options::simulated() };
    cedrat::open_with(directory, options, cedrat::registry())
}

fn put(txn: &mut Txn, page: PageId, number: u8) -> Result<()> {
    txn.update(RecordId::page(page), &SetRange { offset: 0, bytes: vec![number; FILL][..].into() })
}

/// A store as a kill has left it, and the pages that its transactions have changed.
struct Killed {
    folder: tempfile::TempDir,
    pages: Vec<PageId>,
}

impl Killed {
    fn new() -> Killed {
        let live = tempfile::tempdir().expect("a directory");
        let folder = tempfile::tempdir().expect("a directory");
        let store = open(live.path()).expect("it is created");
        let pages = set_up(&store).expect("the disk is whole");
        let copied = || copy(live.path(), folder.path());
        work(&store, &pages, copied).expect("the disk is whole");
        Killed { folder, pages }
    }

    /// Returns a copy.
    fn copy(&self) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a directory");
        copy(self.folder.path(), folder.path());
        folder
    }

    /// Opens a copy without a fault, and asserts that it has what was acknowledged.
    #[track_caller]
    fn assert_whole(&self, directory: &Path, commits: bool) {
        let store = open(directory).expect("it opens");
        store.check().expect("it is sound");
        let memory = store.memory();
        let numbers = |pages: &[PageId]| -> Vec<u8> { pages.iter().map(|&page| number(&store, page)).collect() };
        assert_eq!(numbers(&self.pages), [7, 0, 0, 5], "pages");
        let heap = memory.heap("words").expect("it was created");
        let words = heap.atomically(|tx| (0..WORDS).map(|word| tx.read(&heap, word * 8)).collect());
        let words: Vec<u64> = words.expect("no other transaction runs");
        assert!(words.iter().zip(100..).all(|(word, expected)| *word == expected), "{words:?}");
        let prepared = store.prepared(BRANCH).expect("it is in doubt");
        assert!(matches!(heap.atomically(|tx| tx.read(&heap, BRANCH_WORD)), Err(cedrat::heap::Error::InDoubt { .. })));
        if commits {
            prepared.commit(Commit::Sync).expect("the disk is whole");
        } else {
            prepared.rollback().expect("the disk is whole");
        }
        let word = heap.atomically(|tx| tx.read(&heap, BRANCH_WORD)).expect("no other transaction runs");
        let outcome = if commits { 5 } else { 0 };
        assert_eq!((number(&store, self.pages[PREPARED]), word), (outcome, outcome.into()));
        drop((heap, memory));
        store.close().expect("it closes");
    }
}

fn number(store: &Store, page: PageId) -> u8 {
    let page = store.read(page).expect("it was read before");
    let bytes = &page.body()[..FILL];
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a change is whole or absent");
    bytes[0]
}

fn set_up(store: &Store) -> Result<Vec<PageId>> {
    let options = HeapOptions { chunk_len: 4_096, ..HeapOptions::raw(64 << 10) };
    store.memory().create_heap("words", &options)?;
    let page = |_| {
        store.transact(|txn| {
            let page = txn.allocate()?;
            txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::RAW))?;
            Ok(page)
        })
    };
    let pages = (0..4).map(page).collect::<Result<_>>()?;
    store.checkpoint()?;
    Ok(pages)
}

/// Leaves everything behind the checkpoint, and calls `kill` within a nested action.
fn work(store: &Store, pages: &[PageId], kill: impl FnOnce()) -> Result<()> {
    let heap = store.memory().heap("words")?;
    store.memory().run(Commit::Sync, |tx| (0..WORDS).try_for_each(|word| tx.write(&heap, word * 8, 100 + word)))?;
    store.transact(|txn| put(txn, pages[COMMITTED], 7))?;
    let mut branch = store.begin();
    put(&mut branch, pages[PREPARED], 5)?;
    branch.heap(|tx| tx.write(&heap, BRANCH_WORD, 5))?;
    let Vote::Prepared(prepared) = branch.prepare(BRANCH)? else { unreachable!("it has changed a page") };
    let mut loser = store.begin();
    put(&mut loser, pages[LOSER], 9)?;
    let mut half = store.begin();
    let nested = half.nested((), |txn| {
        put(txn, pages[NESTED], 8)?;
        put(txn, pages[NESTED], 9)?;
        store.log().force(store.log().current_lsn())?;
        kill();
        Err::<((), Undo), _>(Error::user("the process was killed here"))
    });
    assert!(nested.is_err());
    half.rollback()?;
    loser.rollback()?;
    prepared.rollback()
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a directory") {
        let (path, to) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).expect("an entry");
        if path.is_dir() {
            fs::create_dir(&to).expect("a new directory");
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).expect("a file");
        }
    }
}

/// Runs in a process of its own, and does nothing in any other.
#[test]
fn process_opens_store() {
    let Ok(opening) = std::env::var(OPENING) else { return };
    let [directory, min, fails_in] = opening.split('|').collect::<Vec<_>>()[..] else { panic!("{opening}") };
    FAILS_IN.store(fails_in.parse().expect("a number"), Ordering::Relaxed);
    MIN.store(min.parse().expect("a number"), Ordering::Relaxed);
    let opened = open(Path::new(directory));
    MIN.store(u64::MAX, Ordering::Relaxed);
    let counted = COUNTED.load(Ordering::Relaxed);
    match opened {
        Ok(_) => println!("\nopened {counted}"),
        Err(error) => println!("\nrefused {error}"),
    }
}

/// How an opening in a process of its own has ended.
#[derive(Debug)]
enum Ended {
    /// The store was open, after so many allocations that counted.
    Opened(u64),
    /// The opening has returned this error.
    Refused(String),
    /// The process has ended before.
    Died(ExitStatus, String),
}

/// The end of a process, and what it has written.
#[derive(Debug)]
struct Output {
    status: ExitStatus,
    out: String,
    err: String,
}

/// Runs a process to its end.
fn run(mut command: Command) -> Output {
    command.env("RUST_BACKTRACE", "0");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a process");
    let mut streams = (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
    let (sender, receiver) = channel();
    let reader = std::thread::spawn(move || {
        let (mut out, mut err) = (String::new(), String::new());
        let read = streams.0.read_to_string(&mut out).and_then(|_| streams.1.read_to_string(&mut err));
        read.expect("a pipe can be read");
        let _ = sender.send(());
        (out, err)
    });
    let ended = receiver.recv_timeout(KILLED_AFTER);
    if ended.is_err() {
        child.kill().expect("a child can be killed");
    }
    let status = child.wait().expect("a child can be awaited");
    let (out, err) = reader.join().expect("no panic");
    ended.unwrap_or_else(|_| panic!("the process hangs: {out}\n{err}"));
    Output { status, out, err }
}

/// Opens a store in a process of its own, which `limit`, a line of the shell, begins.
fn opened(directory: &Path, min: usize, fails_in: u64, limit: &str) -> Ended {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{limit} exec \"$0\" \"$@\"")]);
    command.arg(std::env::current_exe().expect("this program"));
    command.args(["--exact", "process_opens_store", "--nocapture"]);
    command.env(OPENING, format!("{}|{min}|{fails_in}", directory.display()));
    let Output { status, out, err } = run(command);
    let line = |word: &str| out.lines().find_map(|line| line.strip_prefix(word).map(str::to_owned));
    match (line("opened "), line("refused ")) {
        (Some(counted), _) => Ended::Opened(counted.parse().expect("a number")),
        (_, Some(error)) => Ended::Refused(error),
        _ => Ended::Died(status, err),
    }
}

/// Lets allocations of at least `min` bytes fail, one in each opening, at most `openings` of them.
fn each_fails(min: usize, openings: u64) {
    let killed = Killed::new();
    let copy = killed.copy();
    let Ended::Opened(all) = opened(copy.path(), min, 0, "") else { panic!("an opening without a fault") };
    killed.assert_whole(copy.path(), true);
    let step = all.div_ceil(openings).max(1);
    let mut died = 0;
    for fails_in in (1..=all).step_by(step as usize) {
        let copy = killed.copy();
        let ended = opened(copy.path(), min, fails_in, "");
        println!("{fails_in} of {all}: {ended:?}");
        match ended {
            Ended::Died(_, words) if words.contains("memory allocation of") => died += 1,
            Ended::Died(status, words) => panic!("{fails_in} of {all}: {status} {words}"),
            Ended::Opened(_) | Ended::Refused(_) => {}
        }
        killed.assert_whole(copy.path(), fails_in.is_multiple_of(2));
    }
    assert!(died > 0, "none of {all} allocations was needed");
}

/// R5: an allocation of any length.
#[test]
fn failed_allocation_of_opening_loses_nothing() {
    each_fails(1, 40);
}

/// R5: buffers and tables.
#[test]
fn failed_buffer_of_opening_loses_nothing() {
    each_fails(4_096, 40);
}

/// R5: a table whose length the options give is refused, and the process goes on.
#[test]
fn pool_without_memory_refuses_opening() {
    let (killed, pool) = (Killed::new(), "export CEDRAT_POOL_BYTES=4294967296;");
    let copy = killed.copy();
    for number in 1..=2 {
        match opened(copy.path(), 1 << 20, number, pool) {
            Ended::Refused(words) => assert!(words.contains("memory"), "{words}"),
            other => panic!("allocation {number}: {other:?}"),
        }
    }
    killed.assert_whole(copy.path(), true);
}

/// R5: reservations of address space, for pages and for heaps.
#[test]
fn opening_in_small_address_space_loses_nothing() {
    let killed = Killed::new();
    let (mut refused, mut opened_at_last) = (0, false);
    for kilobytes in (4_000_u64..40_000).step_by(1_500) {
        let copy = killed.copy();
        let ended = opened(copy.path(), usize::MAX, 0, &format!("ulimit -v {kilobytes} &&"));
        println!("{kilobytes} KiB: {ended:?}");
        if let Ended::Refused(words) = &ended {
            assert!(words.contains("Cannot allocate memory"), "{words}");
            refused += 1;
        }
        opened_at_last = matches!(ended, Ended::Opened(_));
        killed.assert_whole(copy.path(), kilobytes.is_multiple_of(1_000));
    }
    assert!(refused > 0 && opened_at_last, "{refused} openings were refused");
}
