//! Loops without end in operations and workloads: a check ends its process, after it has printed the case.
//!
//! Each test executes itself again, and there runs a check that loops.
#![forbid(unsafe_code)]
#![cfg(not(cedrat_shuttle))] // the scheduler has limits of its own

use std::cell::Cell;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use cedrat_check::{self as check, Outcome, Rng, Run, Scenario};
use cedrat_pages::layout::Layout;
use cedrat_pages::{Damaged, LayoutKind, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{FormatFresh, Operation, RecordId, Refused, Registry, Store, Undo};
use serde::{Deserialize, Serialize};

const LOOPS_VARIABLE: &str = "CEDRAT_TEST_LOOPS";

/// Time after which a process that should have ended is killed.
const KILLED_AFTER: Duration = Duration::from_secs(120);

#[derive(Debug, Serialize, Deserialize)]
struct Set(u64);

/// The undo of `Set`, which may loop.
#[derive(Debug, Serialize, Deserialize)]
struct Reset(u64, bool);

impl Operation for Set {
    const NAME: &'static str = "loops.set";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        HAS_PREPARED.set(true);
        Ok(Undo::op(Reset(page.u64_at(usize::from(at.0) * 8)?, LOOP.load(Ordering::SeqCst) == UNDO)))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        let part = LOOP.load(Ordering::SeqCst);
        loop_if(part == REDO && self.0 == 7 || part == ELSEWHERE && !HAS_PREPARED.get());
        page.put_u64(usize::from(at.0) * 8, self.0)
    }
}

impl Operation for Reset {
    const NAME: &'static str = "loops.reset";

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Err(Refused::new("this is only for undo"))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        loop_if(self.1);
        page.put_u64(usize::from(at.0) * 8, self.0)
    }
}

/// The part that loops.
static LOOP: AtomicUsize = AtomicUsize::new(0);

const READ: usize = 1;
const UNDO: usize = 2;
const RUN: usize = 3;
const REDO: usize = 4;
const ELSEWHERE: usize = 5;
const LAYOUT: usize = 6;

thread_local! {
    /// Whether this thread has called `prepare`.
    static HAS_PREPARED: Cell<bool> = const { Cell::new(false) };
}

fn loop_if(condition: bool) {
    if condition {
        loop {
            std::hint::spin_loop();
        }
    }
}

struct Loops;

impl Scenario for Loops {
    type State = [u64; 2];
    type Roots = PageId;

    fn registry(&self) -> Registry {
        Registry::new().operation::<Set>().operation::<Reset>()
    }

    fn set_up(&self, store: &Store) -> Outcome<PageId> {
        Ok(store.transact(|txn| {
            let page = txn.allocate()?;
            txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::RAW))?;
            Ok(page)
        })?)
    }

    fn run(&self, run: &Run<Self>, page: &PageId) -> Outcome {
        for number in 1..6 {
            loop_if(number == 3 && LOOP.load(Ordering::SeqCst) == RUN);
            run.transact(|txn| {
                txn.update(RecordId::new(*page, Slot(0)), &Set(number))?;
                txn.update(RecordId::new(*page, Slot(1)), &Set(number))?;
                Ok(move |state: &mut [u64; 2]| *state = [number, number])
            })?;
        }
        Ok(())
    }

    fn read(&self, store: &Store, page: &PageId) -> Outcome<[u64; 2]> {
        let created = store.recovery().created;
        let page = store.read(*page)?;
        let state = [page.u64_at(0)?, page.u64_at(8)?];
        loop_if(LOOP.load(Ordering::SeqCst) == READ && state[0] == 2 && !created);
        Ok(state)
    }
}

/// Limit of a state, or of a case.
const LIMIT: Duration = Duration::from_secs(2);

/// Runs the crash check of a part that loops.
fn looping(test: &str, part: usize) -> Option<String> {
    let crashes = || format!("{:?}", check::crashes("loops", Loops).again(1, 0).shrink(0).time_limit(LIMIT).run());
    ends_process(test, part, crashes)
}

/// Runs a check of a part that loops, if this process was started for that; otherwise starts it for that, and returns its standard
/// error stream.
fn ends_process(test: &str, part: usize, check: impl FnOnce() -> String) -> Option<String> {
    if std::env::var_os(LOOPS_VARIABLE).is_some() {
        LOOP.store(part, Ordering::SeqCst);
        panic!("the check has ended: {}", check());
    }
    // Its output is captured, as by default: an abort loses that, so the check must write past it.
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.args(["--exact", test]).env(LOOPS_VARIABLE, "").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("this program can be executed again");
    let mut stream = child.stderr.take().expect("a pipe");
    let (sender, ended) = channel();
    let reader = std::thread::spawn(move || {
        let mut words = String::new();
        stream.read_to_string(&mut words).expect("a pipe can be read");
        let _ = sender.send(());
        words
    });
    let in_time = ended.recv_timeout(KILLED_AFTER);
    if in_time.is_err() {
        child.kill().expect("a child can be killed");
    }
    let status = child.wait().expect("a child can be awaited");
    let words = reader.join().expect("no panic");
    in_time.unwrap_or_else(|_| panic!("the check hangs: {words}"));
    assert!(!status.success(), "{words}");
    Some(words)
}

#[test]
fn looping_read_ends_process() {
    let Some(words) = looping("looping_read_ends_process", READ) else { return };
    assert!(words.contains("loops: Hang: reading the state takes longer than 2s"), "{words}");
    assert!(words.contains("repeat with: CEDRAT_CASE='loops seed=1 at="), "{words}");
}

#[test]
fn looping_undo_ends_process() {
    let Some(words) = looping("looping_undo_ends_process", UNDO) else { return };
    assert!(words.contains("loops: Hang: opening the store takes longer than 2s"), "{words}");
    assert!(words.contains("repeat with: CEDRAT_CASE='loops seed=1 at="), "{words}");
}

#[test]
fn looping_workload_ends_process() {
    let Some(words) = looping("looping_workload_ends_process", RUN) else { return };
    assert!(words.contains("loops: Hang: the workload takes longer than 20s"), "{words}");
    assert!(words.contains("repeat with: CEDRAT_CASE='loops seed=1'"), "{words}");
}

fn looping_operation(test: &str, part: usize) -> Option<String> {
    let set = |chance: &mut Rng, _: &PageRef<'_>| (Set(chance.below(20)), Slot(chance.below(4) as u16));
    let checks = check::operation(set).registry(Registry::new().operation::<Reset>());
    ends_process(test, part, || format!("{:?}", checks.cases(1_000).time_limit(LIMIT).run()))
}

#[test]
fn looping_operation_ends_process() {
    let Some(words) = looping_operation("looping_operation_ends_process", REDO) else { return };
    assert!(words.contains("operation loops.set: Ends: the case takes longer than 2s"), "{words}");
    assert!(words.contains("repeat with: .seed(1).only("), "{words}");
}

/// It loops only where it is redone without `prepare` before it.
#[test]
fn looping_repetition_ends_process() {
    let Some(words) = looping_operation("looping_repetition_ends_process", ELSEWHERE) else { return };
    assert!(words.contains("operation loops.set: Ends: the case takes longer than 2s"), "{words}");
}

/// A layout with a count, by which its check searches without end on some pages.
#[derive(Debug)]
struct Searched;

impl Layout for Searched {
    fn kind(&self) -> LayoutKind {
        LayoutKind(200)
    }

    fn name(&self) -> &str {
        "searched"
    }

    fn records(&self, _: &PageRef<'_>, _: &mut dyn FnMut(Slot, &[u8])) -> Result<(), Damaged> {
        Ok(())
    }

    fn check(&self, page: &PageRef<'_>) -> Result<(), Damaged> {
        if page.kind() != self.kind() {
            return Err(Damaged::wrong_kind(page.id()));
        }
        loop_if(LOOP.load(Ordering::SeqCst) == LAYOUT && page.u64_at(0)? > 100);
        Ok(())
    }
}

#[test]
fn looping_layout_ends_process() {
    let test = "looping_layout_ends_process";
    let checks = check::layout(Searched, |_, page| page.format(LayoutKind(200)));
    let Some(words) = ends_process(test, LAYOUT, || format!("{:?}", checks.time_limit(LIMIT).run())) else { return };
    assert!(words.contains("layout searched: the case takes longer than 2s"), "{words}");
    assert!(words.contains("(seed 1, case "), "{words}");
}
