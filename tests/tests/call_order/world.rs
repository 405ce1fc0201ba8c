//! Calls of the public API, over handles of any opening of two stores.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use cedrat::check::Rng;
use cedrat::graph::{Collection, Mode, Stage};
use cedrat::heap::{Commit, Held, Interrupt, Memory, Session};
use cedrat::media::Loss;
use cedrat::structures::HashTable;
use cedrat::txn::{Error, Prepared, Savepoint, Store, Txn, TxnOptions, Vote};
use cedrat_wal::{Log, Lsn, Scan, Ticket};

use crate::judge::{Verdict, judge};
use crate::place::{CELLS, Cell, Effects, Handles, Place};

/// A call, with numbers that select handles and values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) what: u8,
    pub(crate) which: u8,
    pub(crate) other: u8,
    pub(crate) value: u16,
    /// Whether another thread makes the call.
    pub(crate) elsewhere: bool,
}

impl Call {
    pub(crate) fn random(rng: &mut Rng) -> Call {
        let number = rng.next_u64();
        Call {
            what: (number % KINDS) as u8,
            which: (number >> 8) as u8,
            other: (number >> 16) as u8,
            value: (number >> 24) as u16,
            elsewhere: number >> 40 & 3 == 0,
        }
    }

    fn cell(&self) -> Cell {
        let number = self.other % CELLS;
        match self.other / CELLS % 4 {
            0 => Cell::Key(number),
            1 => Cell::Element(number),
            2 => Cell::Word(number),
            _ => Cell::Object(number),
        }
    }

    fn mode(&self) -> Commit {
        [Commit::Sync, Commit::Async, Commit::NoFlush, Commit::Sync][usize::from(self.other % 4)]
    }

    fn id(&self) -> Vec<u8> {
        vec![b'a' + self.other % 3]
    }
}

const KINDS: u64 = 46;

/// A handle, and the number of its opening.
struct Of<T> {
    opening: usize,
    it: T,
}

struct Running {
    /// Its number among all transactions.
    number: usize,
    txn: Txn,
    effects: Effects,
}

struct Mark {
    /// The number of its transaction.
    of: usize,
    savepoint: Savepoint,
    /// Number of changes before it.
    effects: usize,
}

pub(crate) struct World {
    places: Vec<Place>,
    /// Index in `places` by opening.
    openings: Vec<usize>,
    transactions: usize,
    stores: Vec<Of<Store>>,
    handles: Vec<Of<Handles>>,
    running: Vec<Of<Running>>,
    marks: Vec<Of<Mark>>,
    prepared: Vec<Of<Prepared>>,
    memories: Vec<Of<Memory>>,
    sessions: Vec<Of<Session>>,
    held: Vec<Of<(Held, Effects)>>,
    collections: Vec<Of<Collection>>,
    tickets: Vec<Of<(Ticket, usize)>>,
    logs: Vec<Of<Log>>,
    scans: Vec<Of<Scan>>,
}

/// Returns a handle by number, if there is any.
fn of<T>(all: &mut [Of<T>], which: u8) -> Option<&mut Of<T>> {
    let len = all.len().max(1);
    all.get_mut(usize::from(which) % len)
}

fn take<T>(all: &mut Vec<Of<T>>, which: u8) -> Option<Of<T>> {
    if all.is_empty() { None } else { Some(all.swap_remove(usize::from(which) % all.len())) }
}

impl World {
    pub(crate) fn new(directory: Option<&Path>) -> World {
        let mut world = World {
            places: Vec::new(),
            openings: Vec::new(),
            transactions: 0,
            stores: Vec::new(),
            handles: Vec::new(),
            running: Vec::new(),
            marks: Vec::new(),
            prepared: Vec::new(),
            memories: Vec::new(),
            sessions: Vec::new(),
            held: Vec::new(),
            collections: Vec::new(),
            tickets: Vec::new(),
            logs: Vec::new(),
            scans: Vec::new(),
        };
        for number in 0..2 {
            let (mut place, store, handles) = Place::new(directory.map(|path| path.join(number.to_string())));
            place.opening = number;
            world.places.push(place);
            world.opened(number, Some((store, handles)));
        }
        world
    }

    fn opened(&mut self, place: usize, opened: Option<(Store, Handles)>) {
        let opening = self.openings.len();
        self.openings.push(place);
        if let Some((store, handles)) = opened {
            self.stores.push(Of { opening, it: store });
            self.handles.push(Of { opening, it: handles });
        }
    }

    /// Returns the place of an opening, if it is the newest there.
    fn place(&mut self, opening: usize) -> Option<&mut Place> {
        let place = &mut self.places[self.openings[opening]];
        (place.opening == opening).then_some(place)
    }

    /// Judges an error of a call in an opening.
    fn judge<T>(&mut self, opening: usize, result: Result<T, impl Into<Error>>) -> Result<Option<T>, String> {
        let error: Error = match result {
            Ok(value) => return Ok(Some(value)),
            Err(error) => error.into(),
        };
        let is_open = self.stores.iter().any(|store| store.opening == opening);
        match (judge(&error), self.place(opening)) {
            (Verdict::Allowed, _) | (_, None) => Ok(None),
            (Verdict::Closed, Some(_)) if !is_open => Ok(None),
            (Verdict::Stopped | Verdict::Closed, Some(place)) if place.history.stopped => Ok(None),
            (_, Some(_)) => Err(format!("{error} ({error:?})")),
        }
    }

    /// Makes a call; returns the fault if there is one.
    pub(crate) fn call(&mut self, call: Call) -> Result<(), String> {
        if !call.elsewhere {
            return self.call_here(call);
        }
        let called = std::thread::scope(|scope| scope.spawn(|| self.call_here(call)).join());
        called.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn call_here(&mut self, call: Call) -> Result<(), String> {
        match call.what {
            0..=2 => self.begin(call),
            3..=10 => self.write(call),
            11 | 12 => self.read(call),
            13..=16 => self.commit(call),
            17 => self.roll_back(call),
            18 | 19 => self.mark(call),
            20 | 21 => self.back_to(call),
            22 | 23 => self.prepare(call),
            24..=26 => self.resume(call),
            27 => self.nest(call),
            28 | 29 => self.open(call),
            30 => self.cut(call),
            31 => self.close(call),
            32 | 33 => self.drop_one(call),
            34 => self.clone_one(call),
            35 => self.beside(call),
            36 => self.in_memory(call),
            37 | 38 => self.hold(call),
            39 | 40 => self.graph(call),
            41 => self.collect(call),
            42 => self.of_log(call),
            43 => self.of_ticket(call),
            44 => self.cache(call),
            _ => self.rare(call),
        }
    }

    fn begin(&mut self, call: Call) -> Result<(), String> {
        let Some(store) = of(&mut self.stores, call.which) else { return Ok(()) };
        let opening = store.opening;
        let options = TxnOptions::default();
        let txn = match call.other % 8 {
            0 => store.it.begin_with(options.without_durability()),
            1 => store.it.begin_with(options.without_waiting_for_prepared()),
            _ => store.it.begin(),
        };
        self.transactions += 1;
        self.running.push(Of { opening, it: Running { number: self.transactions, txn, effects: Effects::new() } });
        Ok(())
    }

    fn write(&mut self, call: Call) -> Result<(), String> {
        let Some(handles) = of(&mut self.handles, call.which) else { return Ok(()) };
        let Some(running) = of(&mut self.running, (call.value >> 8) as u8) else { return Ok(()) };
        let (cell, value) = (call.cell(), u64::from(call.value % 200));
        let written = handles.it.write(&mut running.it.txn, cell, value);
        let (of_handle, opening) = (handles.opening, running.opening);
        if written.is_ok() {
            // An array's handle is only a place, which is the same in both stores.
            if of_handle != opening && !matches!(cell, Cell::Element(_)) {
                return Err(format!("{cell:?} was written by a handle of another opening"));
            }
            running.it.effects.push((cell, value));
        }
        self.judge(opening, written).map(drop)
    }

    fn read(&mut self, call: Call) -> Result<(), String> {
        let Some(handles) = of(&mut self.handles, call.which) else { return Ok(()) };
        let Some(running) = of(&mut self.running, (call.value >> 8) as u8) else { return Ok(()) };
        let cell = call.cell();
        let read = handles.it.read(&mut running.it.txn, cell);
        let (of_handle, opening) = (handles.opening, running.opening);
        let own = running.it.effects.iter().rev().find(|(written, _)| *written == cell).map(|(_, value)| *value);
        if read.is_ok() && of_handle != opening && !matches!(cell, Cell::Element(_)) {
            return Err(format!("{cell:?} was read by a handle of another opening"));
        }
        let Some(value) = self.judge(opening, read)? else { return Ok(()) };
        let Some(place) = self.place(opening) else { return Ok(()) };
        // Words are those of the transaction's snapshot.
        let is_of_snapshot = matches!(cell, Cell::Word(_));
        match own.or((!is_of_snapshot).then(|| place.history.now(cell))) {
            Some(expected) if expected != value => Err(format!("{cell:?} is {value}, not {expected}")),
            _ => Ok(()),
        }
    }

    /// Notes the end of a transaction. `None`: it was rolled back.
    fn ended(
        &mut self,
        opening: usize,
        effects: Effects,
        mode: Commit,
        done: Result<Option<Ticket>, Error>,
    ) -> Result<(), String> {
        let is_stopped = matches!(&done, Err(error) if matches!(judge(error), Verdict::Stopped | Verdict::Closed));
        let ticket = self.judge(opening, done)?;
        let Some(place) = self.place(opening) else { return Ok(()) };
        if is_stopped {
            place.history.commit(effects);
            return Ok(());
        }
        let Some(ticket) = ticket else { return Ok(()) };
        let commits = place.history.commit(effects);
        if mode == Commit::Sync {
            place.history.acknowledge_changes(commits);
        }
        let ticket = ticket.filter(|_| place.history.has_changed(commits));
        self.tickets.extend(ticket.map(|ticket| Of { opening, it: (ticket, commits) }));
        Ok(())
    }

    fn commit(&mut self, call: Call) -> Result<(), String> {
        let Some(Of { opening, it: running }) = take(&mut self.running, call.which) else { return Ok(()) };
        let mode = if running.txn.options().durability { call.mode() } else { Commit::Async };
        let done = match call.value % 16 {
            0 => running.txn.commit(Commit::Partition),
            _ => running.txn.commit(mode),
        };
        self.ended(opening, running.effects, mode, done.map(Some))
    }

    fn roll_back(&mut self, call: Call) -> Result<(), String> {
        let Some(Of { opening, it: running }) = take(&mut self.running, call.which) else { return Ok(()) };
        let done = running.txn.rollback();
        self.judge(opening, done).map(drop)
    }

    fn mark(&mut self, call: Call) -> Result<(), String> {
        if let Some(Of { opening, it: running }) = of(&mut self.running, call.which) {
            let (of, effects) = (running.number, running.effects.len());
            self.marks.push(Of { opening: *opening, it: Mark { of, savepoint: running.txn.savepoint(), effects } });
        }
        Ok(())
    }

    fn back_to(&mut self, call: Call) -> Result<(), String> {
        let Some(mark) = of(&mut self.marks, call.other) else { return Ok(()) };
        let Some(running) = of(&mut self.running, call.which) else { return Ok(()) };
        let done = running.it.txn.rollback_to(mark.it.savepoint);
        if done.is_ok() {
            if mark.it.of != running.it.number {
                return Err("a savepoint of another transaction was rolled back to".into());
            }
            running.it.effects.truncate(mark.it.effects);
        }
        let opening = running.opening;
        self.judge(opening, done).map(drop)
    }

    fn prepare(&mut self, call: Call) -> Result<(), String> {
        let Some(Of { opening, it: running }) = take(&mut self.running, call.which) else { return Ok(()) };
        if !running.txn.options().durability {
            return Ok(()); // no guarantee says when its outcome is durable
        }
        let id = call.id();
        let (done, effects) = (running.txn.prepare(&id), running.effects);
        self.has_prepared(opening, id, effects, done)
    }

    fn has_prepared(
        &mut self,
        opening: usize,
        id: Vec<u8>,
        effects: Effects,
        done: Result<Vote, Error>,
    ) -> Result<(), String> {
        let is_stopped = matches!(&done, Err(error) if matches!(judge(error), Verdict::Stopped | Verdict::Closed));
        let vote = self.judge(opening, done)?;
        if let (true, Some(place)) = (is_stopped, self.place(opening)) {
            place.history.uncertain.insert(id, (effects, usize::MAX));
            return Ok(());
        }
        match vote {
            Some(Vote::Prepared(prepared)) => {
                if let Some(place) = self.place(opening)
                    && place.history.branches.insert(id, effects).is_some()
                {
                    return Err("two branches are prepared under one identifier".into());
                }
                self.prepared.push(Of { opening, it: prepared });
                Ok(())
            }
            Some(Vote::ReadOnly) if !effects.is_empty() => Err(format!("a vote of no changes, after {effects:?}")),
            Some(Vote::ReadOnly) | None => Ok(()),
        }
    }

    fn resume(&mut self, call: Call) -> Result<(), String> {
        if call.value.is_multiple_of(4) {
            let Some(store) = of(&mut self.stores, call.which) else { return Ok(()) };
            let opening = store.opening;
            let resumed = store.it.prepared(&call.id());
            let found = self.judge(opening, resumed)?;
            self.prepared.extend(found.map(|it| Of { opening, it }));
            return Ok(());
        }
        let Some(Of { opening, it: prepared }) = take(&mut self.prepared, call.which) else { return Ok(()) };
        if call.value % 4 == 1 {
            return Ok(()); // dropped, it stays in doubt
        }
        let (id, mode) = (prepared.id().to_vec(), call.mode());
        let is_commit = call.value % 4 == 2;
        let done = match is_commit {
            true => prepared.commit(mode).map(Some),
            false => prepared.rollback().map(|()| None),
        };
        let is_stopped = matches!(&done, Err(error) if matches!(judge(error), Verdict::Stopped | Verdict::Closed));
        let ended = self.judge(opening, done)?;
        let Some(place) = self.place(opening) else { return Ok(()) };
        if ended.is_none() && !is_stopped {
            return Ok(());
        }
        let Some(effects) = place.history.branches.remove(&id) else {
            return if is_stopped { Ok(()) } else { Err(format!("branch {id:?} has ended twice")) };
        };
        if is_stopped || mode != Commit::Sync {
            let commits = if is_commit { place.history.commits.len() } else { usize::MAX };
            place.history.uncertain.insert(id, (effects.clone(), commits));
        }
        if is_commit {
            let commits = place.history.commit(effects);
            if !is_stopped && mode == Commit::Sync {
                place.history.acknowledge_changes(commits);
            }
            let ticket = ended.flatten().filter(|_| place.history.has_changed(commits));
            self.tickets.extend(ticket.map(|ticket| Of { opening, it: (ticket, commits) }));
        }
        Ok(())
    }

    /// Runs nested transactions that succeed, fail or panic.
    fn nest(&mut self, call: Call) -> Result<(), String> {
        let Some(handles) = of(&mut self.handles, call.which) else { return Ok(()) };
        let Some(running) = of(&mut self.running, (call.value >> 8) as u8) else { return Ok(()) };
        if handles.opening != running.opening {
            return Ok(());
        }
        let (cell, value) = (call.cell(), u64::from(call.value % 200));
        // Words cannot be written within.
        if matches!(cell, Cell::Word(_)) {
            return Ok(());
        }
        let opening = running.opening;
        let txn = &mut running.it.txn;
        let way = call.value % 3;
        let nested = catch_unwind(AssertUnwindSafe(|| {
            txn.nested_transaction(|txn| {
                handles.it.write(txn, cell, value)?;
                match way {
                    0 => Ok(()),
                    1 => Err(Error::Misuse("it is to fail")),
                    _ => panic!("it is to panic"),
                }
            })
        }));
        let Ok(done) = nested else { return Ok(()) };
        if done.is_ok() {
            running.it.effects.push((cell, value));
        }
        self.judge(opening, done).map(drop)
    }

    fn open(&mut self, call: Call) -> Result<(), String> {
        let place = usize::from(call.which) % self.places.len();
        let number = self.openings.len();
        if call.other.is_multiple_of(2) {
            self.places[place].renew_media();
        }
        if let Some(opened) = self.places[place].open(number)? {
            self.opened(place, Some(opened));
        }
        Ok(())
    }

    fn cut(&mut self, call: Call) -> Result<(), String> {
        let place = usize::from(call.which) % self.places.len();
        let loss = [Loss::Everything, Loss::Nothing, Loss::Random(call.value.into())][usize::from(call.other % 3)];
        let number = self.openings.len();
        if let Some(opened) = self.places[place].cut_power(loss, number)? {
            self.opened(place, Some(opened));
        }
        Ok(())
    }

    fn close(&mut self, call: Call) -> Result<(), String> {
        let Some(Of { opening, it: store }) = take(&mut self.stores, call.which) else { return Ok(()) };
        let closed = store.close();
        self.judge(opening, closed).map(drop)
    }

    fn drop_one(&mut self, call: Call) -> Result<(), String> {
        match call.other % 13 {
            0..=2 => drop(take(&mut self.stores, call.which)),
            3 => drop(take(&mut self.handles, call.which)),
            4 | 5 => drop(take(&mut self.running, call.which)),
            6 => drop(take(&mut self.prepared, call.which)),
            7 => drop(take(&mut self.memories, call.which)),
            8 => drop(take(&mut self.sessions, call.which)),
            9 => drop(take(&mut self.held, call.which)),
            10 => drop(take(&mut self.collections, call.which)),
            11 => drop(take(&mut self.tickets, call.which)),
            // Drops everything of one opening: then the store can be opened again.
            _ => {
                let opening = usize::from(call.which) % self.openings.len();
                self.let_go_of(opening);
            }
        }
        Ok(())
    }

    /// Drops the handles that keep an opening alive; its other handles stay.
    fn let_go_of(&mut self, opening: usize) {
        self.running.retain(|one| one.opening != opening);
        self.prepared.retain(|one| one.opening != opening);
        self.collections.retain(|one| one.opening != opening);
        self.memories.retain(|one| one.opening != opening);
        self.sessions.retain(|one| one.opening != opening);
        self.held.retain(|one| one.opening != opening);
        self.stores.retain(|one| one.opening != opening);
        // Heaps and graphs keep the store open; handles of other structures do not.
        self.handles.iter_mut().filter(|one| one.opening == opening).for_each(|one| one.it.let_go());
    }

    fn clone_one(&mut self, call: Call) -> Result<(), String> {
        let which = call.which;
        match call.other % 4 {
            0 => {
                let clone = of(&mut self.stores, which).map(|one| Of { opening: one.opening, it: one.it.clone() });
                self.stores.extend(clone);
            }
            1 => {
                let clone = of(&mut self.handles, which).map(|one| Of { opening: one.opening, it: one.it.clone() });
                self.handles.extend(clone);
            }
            2 => {
                let made = of(&mut self.stores, which).map(|one| Of { opening: one.opening, it: one.it.memory() });
                self.memories.extend(made);
            }
            _ => {
                let made = of(&mut self.stores, which).map(|one| Of { opening: one.opening, it: one.it.log().clone() });
                self.logs.extend(made);
            }
        }
        Ok(())
    }

    /// Runs an action of the store beside its transactions.
    fn beside(&mut self, call: Call) -> Result<(), String> {
        let Some(Of { opening, it: store }) = of(&mut self.stores, call.which) else { return Ok(()) };
        let opening = *opening;
        let done = match call.other % 6 {
            0 | 1 => store.checkpoint(),
            2 => store.check().map(drop),
            3 => store.enforce_limits().map(drop),
            4 => store.transact(|_| Err::<(), _>(Error::Misuse("it is to fail"))),
            _ => catch_unwind(AssertUnwindSafe(|| store.transact(|_| panic!("it is to panic")))).unwrap_or(Ok(())),
        };
        self.judge(opening, done).map(drop)
    }

    /// Runs transactions over words alone.
    fn in_memory(&mut self, call: Call) -> Result<(), String> {
        let Some(handles) = of(&mut self.handles, call.which) else { return Ok(()) };
        let Some(heap) = handles.it.heap.clone() else { return Ok(()) };
        let opening = handles.opening;
        if self.place(opening).is_none_or(|place| place.history.has_words_in_doubt() || place.history.stopped) {
            return Ok(()); // it would wait for the branch
        }
        let (number, value, mode) = (call.other % CELLS, u64::from(call.value % 200), call.mode());
        let work = |tx: &mut cedrat::heap::Tx<'_>| -> Result<(), Interrupt> {
            match call.value % 5 {
                0 => Err(Interrupt::abort("it is to fail")),
                _ => tx.write(&heap, Handles::offset(&heap, number), value),
            }
        };
        let (of_caller, done) = match call.other / CELLS % 3 {
            0 => (opening, heap.memory().run(mode, work)),
            1 => {
                let Some(session) = of(&mut self.sessions, call.value as u8) else { return Ok(()) };
                (session.opening, session.it.run(mode, work))
            }
            _ => {
                let Some(memory) = of(&mut self.memories, call.value as u8) else { return Ok(()) };
                if call.value.is_multiple_of(3) {
                    let (opening, session) = (memory.opening, memory.it.session());
                    let made = self.judge(opening, session)?;
                    self.sessions.extend(made.map(|it| Of { opening, it }));
                    return Ok(());
                }
                (memory.opening, memory.it.run(mode, work))
            }
        };
        if done.is_ok() && of_caller != opening {
            return Err("words of another opening were written".into());
        }
        let done = self.judge(of_caller, done)?;
        if let (Some(_), Some(place)) = (done, self.place(opening)) {
            let commits = place.history.commit(vec![(Cell::Word(number), value)]);
            if mode == Commit::Sync {
                place.history.acknowledge_changes(commits);
            }
        }
        Ok(())
    }

    /// Runs transactions over words that stay open from call to call.
    fn hold(&mut self, call: Call) -> Result<(), String> {
        let Some(Of { opening, it: (held, effects) }) = of(&mut self.held, call.which) else {
            let Some(memory) = of(&mut self.memories, call.which) else { return Ok(()) };
            let (opening, held) = (memory.opening, Held::new(&memory.it));
            let made = self.judge(opening, held)?;
            self.held.extend(made.map(|held| Of { opening, it: (held, Effects::new()) }));
            return Ok(());
        };
        let (opening, value) = (*opening, u64::from(call.value % 200));
        match call.value % 6 {
            0 => {
                let done = held.begin();
                if done.is_ok() {
                    effects.clear();
                }
                self.judge(opening, done).map(drop)
            }
            1 | 2 => {
                let Some(handles) = of(&mut self.handles, call.other) else { return Ok(()) };
                let Some(heap) = &handles.it.heap else { return Ok(()) };
                let number = call.other % CELLS;
                let done = held.run(|tx| tx.write(heap, Handles::offset(heap, number), value));
                match done {
                    Ok(()) if handles.opening != opening => return Err("words of another opening were written".into()),
                    Ok(()) => effects.push((Cell::Word(number), value)),
                    Err(_) if !held.is_running() => effects.clear(),
                    Err(_) => {}
                }
                self.judge(opening, done).map(drop)
            }
            3 => {
                let (done, effects) = (held.commit(call.mode()), std::mem::take(effects));
                self.ended(opening, effects, call.mode(), done.map(|_| None).map_err(Error::from))
            }
            4 => {
                let Some(running) = of(&mut self.running, call.other) else { return Ok(()) };
                let done = running.it.txn.take_over(held);
                if done.is_ok() {
                    if running.opening != opening {
                        return Err("a transaction over another store's words was taken over".into());
                    }
                    running.it.effects.append(effects);
                }
                let opening = running.opening; // the opening of the transaction explains the error
                self.judge(opening, done).map(drop)
            }
            _ => {
                held.abort();
                effects.clear();
                Ok(())
            }
        }
    }

    fn graph(&mut self, call: Call) -> Result<(), String> {
        let Some(Of { opening, it: handles }) = of(&mut self.handles, call.which) else { return Ok(()) };
        let Ok(graph) = handles.graph() else { return Ok(()) };
        let (opening, number, value) = (*opening, call.other % CELLS, u64::from(call.value % 200));
        let changes = handles.changes(number, value);
        let effects = vec![(Cell::Node(number), value)];
        let is_sync = call.value.is_multiple_of(2);
        let (mode, commit) = if is_sync { (Mode::Sync, Commit::Sync) } else { (Mode::Async, Commit::Async) };
        match call.other / CELLS % 3 {
            0 => {
                let done = graph.commit(&changes, mode);
                self.ended(opening, effects, commit, done.map(|changed| Some(changed.ticket().clone())))
            }
            1 => {
                let Some(running) = take(&mut self.running, call.value as u8) else { return Ok(()) };
                let done = graph.commit_with(running.it.txn, &changes, mode, 9);
                if running.opening != opening {
                    return done.map_or(Ok(()), |_| {
                        Err::<(), String>("a transaction over another store was committed".into())
                    });
                }
                let effects = [running.it.effects, effects].concat();
                self.ended(opening, effects, commit, done.map(|changed| Some(changed.ticket().clone())))
            }
            _ => {
                let id = call.id();
                let done = graph.prepare(&changes, &id);
                self.has_prepared(opening, id, effects, done.map(|branch| branch.vote))
            }
        }
    }

    fn collect(&mut self, call: Call) -> Result<(), String> {
        if let Some(Of { opening, it: collection }) = of(&mut self.collections, call.which) {
            let opening = *opening;
            let done = match collection.stage() {
                Stage::Marked if call.value.is_multiple_of(2) => collection.seal([]),
                _ => collection.step(usize::from(call.value % 9)),
            };
            return self.judge(opening, done).map(drop);
        }
        let Some(handles) = of(&mut self.handles, call.which) else { return Ok(()) };
        let Ok(graph) = handles.it.graph() else { return Ok(()) };
        let (opening, begun) = (handles.opening, graph.collect([]));
        let begun = self.judge(opening, begun)?;
        self.collections.extend(begun.map(|it| Of { opening, it }));
        Ok(())
    }

    fn of_log(&mut self, call: Call) -> Result<(), String> {
        if call.other.is_multiple_of(9)
            && let Some(scan) = of(&mut self.scans, call.which)
        {
            let opening = scan.opening;
            let read = (0..call.value).try_for_each(|_| scan.it.next().map(drop));
            return self.judge(opening, read).map(drop);
        }
        let Some(Of { opening, it: log }) = of(&mut self.logs, call.which) else { return Ok(()) };
        let opening = *opening;
        match call.other % 9 {
            1..=3 => {
                let forced = log.force(Lsn::MAX);
                let forced = self.judge(opening, forced)?;
                if let (Some(_), Some(place)) = (forced, self.place(opening)) {
                    let all = place.history.commits.len();
                    place.history.acknowledge(all);
                }
            }
            4 | 5 => {
                let scan = log.scan(Lsn::ZERO);
                let scan = self.judge(opening, scan)?;
                self.scans.extend(scan.map(|it| Of { opening, it }));
            }
            6 if call.value.is_multiple_of(4) => {
                log.stop("a caller said so");
                self.stopped(opening);
            }
            7 if call.value.is_multiple_of(4) => {
                let closed = log.close();
                self.stopped(opening);
                self.judge(opening, closed)?;
            }
            _ => drop((log.current_lsn(), log.durable_lsn(), log.space())),
        }
        Ok(())
    }

    fn stopped(&mut self, opening: usize) {
        if let Some(place) = self.place(opening) {
            place.history.stopped = true;
        }
    }

    fn of_ticket(&mut self, call: Call) -> Result<(), String> {
        let Some(Of { opening, it: (ticket, commits) }) = take(&mut self.tickets, call.which) else { return Ok(()) };
        if call.other.is_multiple_of(3) && !ticket.is_stable() {
            return Ok(());
        }
        let done = ticket.wait();
        let done = self.judge(opening, done)?;
        if let (Some(_), Some(place)) = (done, self.place(opening)) {
            place.history.acknowledge(commits);
        }
        Ok(())
    }

    /// Runs actions of the object cache.
    fn cache(&mut self, call: Call) -> Result<(), String> {
        let Some(Of { opening, it: handles }) = of(&mut self.handles, call.which) else { return Ok(()) };
        let Some(store) = of(&mut self.stores, call.value as u8) else { return Ok(()) };
        let (of_handle, opening) = (*opening, store.opening);
        let (objects, id) = (&handles.objects, handles.ids[usize::from(call.other % CELLS)]);
        let done = match call.value % 4 {
            0 => objects.flush(&store.it, id),
            1 => objects.flush_all(&store.it),
            2 => objects.evict(&store.it, id),
            _ => objects.pages(&store.it).map(drop),
        };
        if done.is_ok() && of_handle != opening {
            return Err("objects of another opening were flushed".into());
        }
        self.judge(opening, done).map(drop)
    }

    /// Creates and drops structures.
    fn rare(&mut self, call: Call) -> Result<(), String> {
        let Some(Of { opening, it: store }) = of(&mut self.stores, call.which) else { return Ok(()) };
        let opening = *opening;
        let name = format!("other {}", call.other % 3);
        let done = match call.value % 4 {
            0 => store
                .memory()
                .create_heap(&name, &cedrat::heap::HeapOptions::raw(1 << 14))
                .map(drop)
                .map_err(Error::from),
            1 => store.memory().drop_heap(&name).map_err(Error::from),
            2 => store.memory().grow_heap(&name, 1 << 15).map_err(Error::from),
            _ => store.transact(|txn| HashTable::<u64, u64>::create(txn, &name).map(drop)),
        };
        self.judge(opening, done).map(drop)
    }

    /// Drops all handles, opens both stores again, and verifies their content.
    pub(crate) fn end(mut self) -> Result<(), String> {
        for opening in 0..self.openings.len() {
            self.let_go_of(opening);
        }
        for place in 0..self.places.len() {
            let number = self.openings.len();
            let opened = self.places[place].open(number)?;
            let (store, handles) = opened.ok_or("it is in use, although every handle was dropped")?;
            self.opened(place, None);
            for branch in store.in_doubt().unwrap() {
                let effects = self.places[place].history.branches.remove(&branch.id).unwrap_or_default();
                let resumed = store.prepared(&branch.id).and_then(|prepared| prepared.commit(Commit::Sync));
                resumed.map_err(|error| format!("a branch cannot be committed: {error}"))?;
                self.places[place].history.commit(effects);
            }
            handles.graph().and_then(|graph| graph.check()).map_err(|error| error.to_string())?;
            drop(handles);
            store.close().map_err(|error| format!("it cannot be closed: {error}"))?;
            self.opened(place, None);
            let number = self.openings.len();
            self.places[place].open(number)?.ok_or("it is in use, although it was closed")?;
        }
        Ok(())
    }
}
