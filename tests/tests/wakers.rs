//! Task wakers whose clone, wake and drop run code of their own, and use the log that they wait for (E16.8j).
#![cfg(not(cedrat_shuttle))] // threads of the system

use std::mem::ManuallyDrop;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::{io, ptr};

use cedrat_media::{Media, SimDisk};
use cedrat_wal::{
    ByteLen, Kind, Local, Log, LogOptions, Lsn, PartitionId, Piece, RecordHead, SegmentSink, Sink, Ticket, TxnId,
};

/// A call of a waker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Clone,
    Wake,
    Drop,
}

/// A task that counts its wakers and runs code in their calls.
struct Task {
    wakers: AtomicUsize,
    woken: AtomicUsize,
    run: Box<dyn Fn(Call) + Send + Sync>,
}

impl Task {
    fn new(run: impl Fn(Call) + Send + Sync + 'static) -> Arc<Task> {
        Arc::new(Task { wakers: AtomicUsize::new(0), woken: AtomicUsize::new(0), run: Box::new(run) })
    }

    /// Returns a waker in `place`, whose clones lie elsewhere.
    fn waker_in(place: &mut Arc<Task>) -> ManuallyDrop<Waker> {
        // SAFETY: the table reads an `Arc<Task>` at this address, and the result does not outlive the borrow in these tests. It
        // is never dropped, so the table does not free the place.
        ManuallyDrop::new(unsafe { Waker::new(ptr::from_mut(place).cast(), &TABLE) })
    }
}

static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

/// Returns the task of a waker.
fn task(of: *const ()) -> Arc<Task> {
    // SAFETY: each waker of this table points to an `Arc<Task>` that lives as long as the waker.
    Arc::clone(unsafe { &*of.cast::<Arc<Task>>() })
}

fn clone(of: *const ()) -> RawWaker {
    let task = task(of);
    (task.run)(Call::Clone);
    task.wakers.fetch_add(1, Ordering::SeqCst);
    RawWaker::new(Box::into_raw(Box::new(task)).cast_const().cast(), &TABLE)
}

fn wake(of: *const ()) {
    wake_by_ref(of);
    drop_waker(of);
}

fn wake_by_ref(of: *const ()) {
    let task = task(of);
    task.woken.fetch_add(1, Ordering::SeqCst);
    (task.run)(Call::Wake);
}

fn drop_waker(of: *const ()) {
    // SAFETY: only clones are dropped, once each, and `clone` has boxed them.
    let task = *unsafe { Box::from_raw(of.cast_mut().cast::<Arc<Task>>()) };
    (task.run)(Call::Drop);
    task.wakers.fetch_sub(1, Ordering::SeqCst);
}

/// A sink that writes no record until it is opened. A reservation waits for headers of segment files.
#[derive(Debug, Default)]
struct Gate {
    is_open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

impl Sink for Gate {
    fn stabilise(&self, piece: Piece<'_>, local: &dyn Local) -> io::Result<()> {
        if piece.first_lsn > Lsn::ZERO {
            drop(self.changed.wait_while(self.is_open.lock().unwrap(), |is_open| !*is_open).unwrap());
        }
        SegmentSink.stabilise(piece, local)
    }
}

struct Place {
    log: Log,
    gate: Arc<Gate>,
}

fn place() -> Place {
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let gate = Arc::new(Gate::default());
    let options = LogOptions { sink: Arc::<Gate>::clone(&gate) as _, ..LogOptions::small() };
    Place { log: Log::create(&media, &options, &[]).unwrap(), gate }
}

fn append(log: &Log) -> Lsn {
    let mut room = log.reserve(ByteLen(100), ByteLen(0)).unwrap();
    log.append(PartitionId(0), RecordHead::new(Kind::COMMIT, TxnId(1), None), &[b"x"], &mut room).lsn
}

fn poll(ticket: Ticket, waker: &Waker) -> bool {
    matches!(pin!(ticket).poll(&mut Context::from_waker(waker)), Poll::Ready(_))
}

fn await_count(count: &AtomicUsize, wanted: usize) {
    while count.load(Ordering::SeqCst) != wanted {
        std::thread::yield_now();
    }
}

/// In each of its calls, the waker polls a ticket of the log, whose waker does the same.
#[test]
fn waker_may_use_tickets_of_log() {
    let Place { log, gate } = place();
    let _writer = log.start_writer();
    let lsn = append(&log);
    let ran = Arc::new(Mutex::new(Vec::new()));
    let outer = {
        let (log, ran, within) = (log.clone(), Arc::clone(&ran), AtomicBool::new(false));
        Task::new(move |call| {
            if !within.swap(true, Ordering::SeqCst) {
                let mut inner = Task::new(|_| {});
                poll(log.ticket(lsn), &Task::waker_in(&mut inner));
                poll(log.ticket(lsn.next()), &Task::waker_in(&mut inner));
                within.store(false, Ordering::SeqCst);
            }
            ran.lock().unwrap().push(call);
        })
    };
    let mut at = Arc::clone(&outer);
    assert!(!poll(log.ticket(lsn), &Task::waker_in(&mut at)));
    gate.open();
    await_count(&outer.woken, 1);
    await_count(&outer.wakers, 0);
    assert_eq!(*ran.lock().unwrap(), [Call::Clone, Call::Wake, Call::Drop]);
}

/// The addresses of a waker are those of another one when it has been dropped; its clone lies elsewhere.
#[test]
fn tasks_at_one_address_are_both_woken() {
    let Place { log, gate } = place();
    let _writer = log.start_writer();
    let lsn = append(&log);
    let tasks = [(); 2].map(|()| Task::new(|_| {}));
    let mut at = Arc::clone(&tasks[0]);
    for task in &tasks {
        at.clone_from(task);
        assert!(!poll(log.ticket(lsn), &Task::waker_in(&mut at)));
    }
    let registered = [0, 1].map(|number| tasks[number].wakers.load(Ordering::SeqCst));
    gate.open();
    assert_eq!(registered, [1, 1], "E16.8j: one of them is not registered");
    tasks.iter().for_each(|task| await_count(&task.woken, 1));
}

/// The ticket becomes ready while its waker is registered. The thread that wakes tasks may have ended before, so that nothing
/// would remove the waker.
#[test]
fn late_waker_is_not_kept() {
    let Place { log, gate } = place();
    let _writer = log.start_writer();
    let lsn = append(&log);
    gate.open();
    let late = {
        let log = log.clone();
        Task::new(move |call| {
            if call == Call::Clone {
                log.force(lsn).unwrap();
            }
        })
    };
    // Not stable yet, or the poll is ready at once: then there is nothing to register.
    let mut at = Arc::clone(&late);
    let is_ready = poll(log.ticket(lsn), &Task::waker_in(&mut at));
    assert_eq!(late.woken.load(Ordering::SeqCst), usize::from(!is_ready));
    assert_eq!(late.wakers.load(Ordering::SeqCst), 0, "E16.8k: the log keeps a waker that nothing wakes");
}
