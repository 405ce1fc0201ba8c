//! The gate between the commits of a graph and its garbage collection (E21.5c).

use std::time::Duration;

use cedrat_sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, planted, thread_number};
use cedrat_txn::{Error, Result, Store};

/// Time after which a collection that waits at the gate lets commits pass.
const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 10 } else { 10_000 });

const SHARDS: usize = 16;

/// A lock that is held shared or exclusively, and the threads that hold it shared.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    lock: RwLock<()>,
    /// By the number of the thread.
    inside: [Mutex<Vec<usize>>; SHARDS],
    behind: Mutex<Behind>,
    /// No commit waits behind the gate any more.
    passed: Condvar,
}

/// Threads behind a gate that is closed, or is about to be.
#[derive(Debug, Default)]
struct Behind {
    /// Commits that wait.
    commits: usize,
    /// Threads that wait until these commits have passed, and then close the gate.
    yielding: usize,
}

/// The right to be inside a gate, until it is dropped.
pub(crate) struct Entered<'g> {
    gate: &'g Gate,
    thread: usize,
    _open: RwLockReadGuard<'g, ()>,
}

impl Gate {
    /// Returns the list of this thread, among others. Numbers of threads are addresses, of which the low bits are often equal.
    fn inside(&self, thread: usize) -> &Mutex<Vec<usize>> {
        &self.inside[((thread as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % SHARDS]
    }

    /// Opens the gate for a commit, which holds it to its end.
    #[inline]
    pub(crate) fn enter(&self) -> Entered<'_> {
        let open = self.lock.try_read().unwrap_or_else(|| self.wait());
        let thread = thread_number();
        self.inside(thread).lock().push(thread);
        Entered { gate: self, thread, _open: open }
    }

    #[cold]
    fn wait(&self) -> RwLockReadGuard<'_, ()> {
        self.behind.lock().commits += 1;
        let open = self.lock.read();
        let mut behind = self.behind.lock();
        behind.commits -= 1;
        if behind.commits == 0 {
            self.passed.notify_all();
        }
        open
    }

    /// Waits until no commit waits behind the gate. The end of a request to close the gate only wakes these commits up. Without
    /// this wait, the next request could always come first, because its thread is already running.
    fn let_pass(&self, behind: &mut MutexGuard<'_, Behind>) {
        behind.yielding += 1;
        self.passed.wait_while(behind, |behind| behind.commits > 0);
        behind.yielding -= 1;
    }

    fn all_inside(&self) -> Vec<usize> {
        self.inside.iter().flat_map(|some| some.lock().clone()).collect()
    }

    /// Waits for all commits, and closes the gate.
    ///
    /// Commits that arrive meanwhile wait behind the gate. One of them may hold a lock for which a commit inside waits, directly
    /// or through others. No search for cycles sees the gate, so these commits pass after a while (E21.5e).
    ///
    /// # Errors
    /// [`Error::Misuse`]: a commit waits, directly or through others, for a transaction of this thread.
    pub(crate) fn close(&self, store: &Store) -> Result<RwLockWriteGuard<'_, ()>> {
        let mut wait = None;
        let closed = self.close_unless(|inside| {
            wait.insert(store.waits_for(inside)).is_endless() && !planted!("gate_awaits_own_transaction")
        });
        closed.ok_or(Error::Misuse(
            "a commit of the graph waits for another transaction of this thread, and a garbage collection, or a reader of roots, \
             for the commit: end that transaction first",
        ))
    }

    /// Closes the gate, unless `is_endless` returns `true` for the threads inside. It is called each time the wait for them has
    /// lasted for `PATIENCE`.
    fn close_unless(&self, mut is_endless: impl FnMut(Vec<usize>) -> bool) -> Option<RwLockWriteGuard<'_, ()>> {
        if planted!("commits_kept_at_gate") {
            return Some(self.lock.write());
        }
        let mut behind = self.behind.lock();
        if behind.yielding > 0 {
            self.let_pass(&mut behind);
        }
        drop(behind);
        loop {
            if let Some(closed) = self.lock.try_write_for(PATIENCE) {
                return Some(closed);
            }
            if is_endless(self.all_inside()) {
                return None;
            }
            if !planted!("woken_commits_overtaken") {
                self.let_pass(&mut self.behind.lock());
            }
        }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut inside = self.gate.inside(self.thread).lock();
        let at = inside.iter().position(|&thread| thread == self.thread).expect("it has entered");
        inside.swap_remove(at);
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use std::sync::mpsc;

    use cedrat_sync::{Arc, thread};
    use cedrat_txn::locks::{LockMode, PageLocks, Resource};

    use super::*;
    use crate::graph::{Changes, Graph, Mode, Options, Stage};

    struct Tested {
        store: Store,
        graph: Graph,
        locks: Arc<PageLocks>,
    }

    fn tested() -> Tested {
        let locks = Arc::new(PageLocks::default());
        let manager = Arc::<PageLocks>::clone(&locks);
        let options = cedrat_txn::Options { locks: manager, ..cedrat_txn::Options::simulated() };
        let registry = cedrat_txn::Registry::new().with(cedrat_structures::register).with(crate::register);
        let store = Store::open(Arc::new(cedrat_media::SimDisk::new()), options, registry).unwrap();
        let graph = Graph::create(&store, "graph", Options::default()).unwrap();
        graph.define_class(b"").unwrap();
        Tested { store, graph, locks }
    }

    fn changes(make: impl FnOnce(&mut Changes)) -> Vec<u8> {
        let mut changes = Changes::new();
        make(&mut changes);
        changes.as_ref().to_vec()
    }

    impl Tested {
        fn in_thread(&self, work: impl FnOnce(Graph) -> Result<()> + Send + 'static) -> thread::JoinHandle<Result<()>> {
            let graph = self.graph.clone();
            thread::spawn(move || work(graph))
        }

        fn until_blocked(&self, count: u64) {
            while self.locks.counts().blocked < count {
                thread::yield_now();
            }
        }
    }

    /// E21.5e: the lock table sees no wait at the gate.
    #[test]
    fn awaited_commit_passes_waiting_collection() {
        let tested = tested();
        let Tested { store, graph, .. } = &tested;
        let bytes = changes(|changes| _ = changes.add(1, b"new", &[]));
        let mut txn = store.begin();
        cedrat_structures::Catalogue::open(store).unwrap().list(&mut txn).unwrap();
        let dropping = tested.in_thread(|graph| graph.drop("graph"));
        tested.until_blocked(1); // for the name, with the objects locked
        let of_commit = bytes.clone();
        let behind = tested.in_thread(move |graph| graph.commit(of_commit, Mode::Async).map(drop));
        tested.until_blocked(2); // for the objects, with the gate open
        let collecting = tested.in_thread(|graph| graph.collect([]).map(drop));
        while graph.shared.collecting.gate.lock.try_read().is_some() {
            thread::yield_now();
        }
        let (outcome, ended) = mpsc::channel();
        let at_gate = graph.clone();
        thread::spawn(move || outcome.send(at_gate.commit_with(txn, bytes, Mode::Async, u64::MAX).map(drop)));
        let refused = ended.recv_timeout(Duration::from_secs(40)).expect("E21.5e: no wait without end");
        assert!(matches!(refused, Err(Error::Deadlock(_))), "{refused:?}");
        dropping.join().unwrap().unwrap();
        assert!(behind.join().unwrap().is_err() && collecting.join().unwrap().is_err(), "it is gone");
    }

    /// E21.5e: the next request to close the gate starts at once, but a commit needs time to wake up.
    #[test]
    fn commits_pass_between_requests_to_close() {
        for _ in 0..100 {
            commits_wait_while_gate_is_closed();
        }
    }

    fn commits_wait_while_gate_is_closed() {
        const COMMITS: usize = 16;
        let (gate, end) = (Gate::default(), std::sync::Barrier::new(COMMITS + 1));
        let waiting = || gate.behind.lock().commits;
        thread::scope(|scope| {
            let before = gate.enter();
            let closing = scope.spawn(|| {
                let mut have_come = false;
                let closed = gate.close_unless(|inside| {
                    assert!(!have_come || waiting() == 0, "E21.5e: {} commits wait on", waiting());
                    have_come |= waiting() + inside.len() > COMMITS;
                    inside.len() > COMMITS
                });
                assert!(closed.is_none(), "commits are inside");
            });
            while gate.lock.try_read().is_some() {
                thread::yield_now();
            }
            for _ in 0..COMMITS {
                scope.spawn(|| {
                    let _inside = gate.enter();
                    end.wait()
                });
            }
            let closing = closing.join();
            end.wait();
            drop(before);
            closing.unwrap();
        });
    }

    /// E21.5f: a collection waits for the roots with the gate closed, where the owner of a lock of the graph may wait.
    #[test]
    fn dropped_graph_waits_without_roots() {
        let (outcome, ended) = mpsc::channel();
        thread::spawn(move || {
            let tested = tested();
            let Tested { store, graph, locks } = &tested;
            let txn = store.begin();
            drop(txn.read(graph.root_page()).unwrap());
            let dropping = tested.in_thread(|graph| graph.drop("graph"));
            tested.until_blocked(1); // for the root page
            let collecting = tested.in_thread(|graph| graph.collect([]).map(drop));
            while !collecting.is_finished() && locks.counts().blocked < 2 {
                thread::yield_now();
            }
            let new = changes(|changes| _ = changes.add(1, b"new", &[]));
            let refused = graph.commit_with(txn, new, Mode::Async, u64::MAX).map(drop);
            collecting.join().unwrap().unwrap();
            dropping.join().unwrap().unwrap();
            outcome.send(refused)
        });
        let refused = ended.recv_timeout(Duration::from_secs(40)).expect("E21.5f: no wait without end");
        assert!(matches!(refused, Err(Error::Deadlock(_))), "{refused:?}");
    }

    /// E15.7c: a commit waits for a lock of the thread that waits at the gate for the commit.
    #[test]
    fn gate_awaits_no_own_transaction() {
        let (outcome, ended) = mpsc::channel();
        thread::spawn(move || {
            let tested = tested();
            let Tested { store, graph, .. } = &tested;
            let new = changes(|changes| _ = changes.add(1, b"new", &[]));
            let object = graph.commit(new, Mode::Async).unwrap().identities[0];
            let root = changes(|changes| _ = changes.set_root("in doubt", object));
            drop(graph.prepare(root, b"branch").unwrap());
            let mut collection = graph.collect([object]).unwrap();
            while collection.step(10).unwrap() != Stage::Marked {}

            let mut own = store.begin();
            own.lock(Resource::Record(object.place()), LockMode::Exclusive).unwrap();
            let put = changes(|changes| _ = changes.put(object, 1, b"other", &[]));
            let waiting = tested.in_thread(move |graph| graph.commit(put, Mode::Async).map(drop));
            tested.until_blocked(1);
            let refused = [
                collection.seal([object]).map(drop),
                graph.roots().map(drop),
                graph.root("in doubt").map(drop),
                graph.collect([object]).map(drop),
            ];
            drop(collection);
            own.rollback().unwrap();
            waiting.join().unwrap().unwrap();
            let again = graph.collect([object]).map(|again| again.stage());
            outcome.send((refused, again)).expect("it is awaited");
        });
        let (refused, again) = ended.recv_timeout(Duration::from_secs(40)).expect("E15.7c: no wait without end");
        for refused in refused {
            let is_clear = matches!(refused, Err(Error::Misuse(what)) if what.contains("end that transaction first"));
            assert!(is_clear, "E15.7c: {refused:?}");
        }
        assert_eq!(again.unwrap(), Stage::Marking, "the dropped one is gone");
    }
}
