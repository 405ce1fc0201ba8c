//! Accounts with balances in pages, in heaps and in objects at once, and transfers between them that are prepared, left in
//! doubt, and ended.
#![cfg(not(cedrat_shuttle))]

use std::collections::{BTreeSet, HashMap};

use cedrat_check::{Outcome, Rng, Run, Scenario};
use cedrat_heap::{Heap, HeapOptions, Interrupt, MemoryOptions, Tx};
use cedrat_objects::{ObjectDelta, ObjectId, Objects, UndoPolicy, register_delta};
use cedrat_pages::{LayoutKind, PageId};
use cedrat_sync::{Arc, Mutex};
use cedrat_txn::locks::{LockManager, LockMode, Resource};
use cedrat_txn::{
    Commit, Deadlock, Error, Fault, FormatFresh, Options, Prepared, RecordId, Refused, Registry, SetRange, Store, Txn,
    Vote,
};
use cedrat_wal::TxnId;
use serde::{Deserialize, Serialize};

const ACCOUNTS: u8 = 6;
const BEGIN_WITH: i64 = 100;
const NAME: &str = "accounts";

/// Adds to the number at the beginning of an object. It is not idempotent.
#[derive(Debug, Serialize, Deserialize)]
struct AddTo(i64);

impl ObjectDelta for AddTo {
    const NAME: &'static str = "test.add_to";

    fn apply(&self, object: &mut [u8]) -> Result<(), Refused> {
        let number = object.first_chunk_mut().ok_or(Refused::new("an account begins with its number"))?;
        *number = (i64::from_le_bytes(*number) + self.0).to_le_bytes();
        Ok(())
    }
}

/// Parameters of the workload.
#[derive(Clone, Debug)]
pub(crate) struct Branches {
    pub(crate) steps: u64,
    pub(crate) undo: UndoPolicy,
    pub(crate) fault: Option<Fault>,
    /// Whether each checkpoint carries branches forward.
    pub(crate) carries: bool,
}

impl Default for Branches {
    fn default() -> Branches {
        Branches { steps: 50, undo: UndoPolicy::CommittedOnly, fault: None, carries: false }
    }
}

/// A lock manager that refuses conflicting requests at once, in the call that makes them.
#[derive(Debug, Default)]
struct Refusing(Mutex<HashMap<Resource, Vec<(TxnId, LockMode)>>>);

impl LockManager for Refusing {
    fn lock(&self, txn: TxnId, resource: Resource, mode: LockMode) -> Result<(), Deadlock> {
        let disagrees = |(holder, held): &(TxnId, LockMode)| *holder != txn && !held.agrees_with(mode);
        if self.0.lock().get(&resource).is_some_and(|holders| holders.iter().any(disagrees)) {
            return Err(Deadlock::new(txn, resource));
        }
        self.restore(txn, resource, mode);
        Ok(())
    }

    fn ended(&self, txn: TxnId) {
        self.0.lock().values_mut().for_each(|holders| holders.retain(|(holder, _)| *holder != txn));
    }

    fn held(&self, txn: TxnId) -> Vec<(Resource, LockMode)> {
        let locks = self.0.lock();
        let mode =
            |holders: &Vec<(TxnId, LockMode)>| holders.iter().find(|(holder, _)| *holder == txn).map(|held| held.1);
        let mut held: Vec<_> =
            locks.iter().filter_map(|(resource, holders)| Some((*resource, mode(holders)?))).collect();
        held.sort_unstable(); // deterministic, so that the same workload writes the same log
        held
    }

    fn restore(&self, txn: TxnId, resource: Resource, mode: LockMode) {
        let mut locks = self.0.lock();
        let holders = locks.entry(resource).or_default();
        match holders.iter_mut().find(|(holder, _)| *holder == txn) {
            Some((_, held)) => *held = held.join(mode),
            None => holders.push((txn, mode)),
        }
    }
}

/// A transfer. Its identifier contains all of it, so that it can be decoded from a branch in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Transfer {
    number: u64,
    from: u8,
    to: u8,
    amount: i64,
    from_before: i64,
    to_before: i64,
}

impl Transfer {
    fn id(&self) -> Vec<u8> {
        let mut id = Vec::new();
        id.extend(self.number.to_le_bytes());
        id.extend([self.from, self.to]);
        [self.amount, self.from_before, self.to_before].iter().for_each(|number| id.extend(number.to_le_bytes()));
        id
    }

    fn of(id: &[u8]) -> Option<Transfer> {
        let number = |at: usize| Some(i64::from_le_bytes(id.get(at..at + 8)?.try_into().ok()?));
        let (from, to) = (*id.get(8)?, *id.get(9)?);
        let (amount, from_before, to_before) = (number(10)?, number(18)?, number(26)?);
        Some(Transfer { number: number(0)? as u64, from, to, amount, from_before, to_before })
    }
}

/// The balance of each account, unknown where a transfer is in doubt, and the transfers in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    numbers: Vec<Option<i64>>,
    in_doubt: BTreeSet<Transfer>,
}

impl State {
    fn set(&mut self, transfer: &Transfer, numbers: Option<(i64, i64)>) {
        self.numbers[usize::from(transfer.from)] = numbers.map(|numbers| numbers.0);
        self.numbers[usize::from(transfer.to)] = numbers.map(|numbers| numbers.1);
    }

    fn prepared(&mut self, transfer: &Transfer) {
        self.set(transfer, None);
        self.in_doubt.insert(*transfer);
    }

    fn committed(&mut self, transfer: &Transfer) {
        self.set(transfer, Some((transfer.from_before - transfer.amount, transfer.to_before + transfer.amount)));
        self.in_doubt.remove(transfer);
    }

    fn ended(&mut self, transfer: &Transfer, commits: bool) {
        if commits {
            return self.committed(transfer);
        }
        self.set(transfer, Some((transfer.from_before, transfer.to_before)));
        self.in_doubt.remove(transfer);
    }
}

/// Places of the accounts. A page has the account's balance, and the number of another page, which has the balance too and is
/// replaced by each transfer.
#[derive(Clone, Debug)]
pub(crate) struct Roots {
    pages: Vec<PageId>,
    objects: Vec<ObjectId>,
}

/// The heaps: words of accounts, so far apart that no two share a lock, and blocks.
struct Heaps {
    words: Heap,
    blocks: Heap,
}

impl Heaps {
    fn of(store: &Store) -> Result<Heaps, Error> {
        Ok(Heaps { words: store.memory().heap("words")?, blocks: store.memory().heap("blocks")? })
    }

    /// Writes an account's balance to its word, and to its block, which is a new one of length `new_block` if there is one.
    fn put(&self, tx: &mut Tx<'_>, account: u8, number: i64, new_block: Option<u64>) -> Result<(), Interrupt> {
        let at = u64::from(account) * 512;
        let before = tx.read(&self.words, at + 8)?;
        match new_block {
            None => tx.write(&self.blocks, before, number as u64)?,
            Some(len) => {
                if before != 0 {
                    tx.free(&self.blocks, before)?;
                }
                let block = if len.is_multiple_of(3) {
                    let block = tx.allocate_filled(&self.blocks, len)?;
                    tx.fill(&self.blocks, block, &number.to_le_bytes())?;
                    block
                } else {
                    let block = tx.allocate(&self.blocks, len)?;
                    tx.write(&self.blocks, block, number as u64)?;
                    block
                };
                tx.write(&self.words, at + 8, block)?;
            }
        }
        tx.update(&self.words, at, |_| number as u64).map(drop)
    }

    /// Returns the offset of an account's block, and the value of its word.
    fn word(&self, tx: &mut Tx<'_>, account: usize) -> Result<(u64, i64), Interrupt> {
        let at = account as u64 * 512;
        Ok((tx.read(&self.words, at + 8)?, tx.read(&self.words, at)? as i64))
    }

    fn block(&self, tx: &mut Tx<'_>, block: u64) -> Result<i64, Interrupt> {
        tx.block_len(&self.blocks, block)?;
        Ok(tx.read(&self.blocks, block)? as i64)
    }
}

struct Teller<'a> {
    run: &'a Run<Branches>,
    roots: &'a Roots,
    objects: Objects,
    heaps: Heaps,
    state: State,
    hands: Vec<Prepared>,
    chance: Rng,
}

/// Returns whether another transaction holds the requested lock.
fn is_refused(error: &Error) -> bool {
    matches!(error, Error::Deadlock(_) | Error::Heap(cedrat_heap::Error::InDoubt { .. }))
}

fn put(txn: &mut Txn, page: PageId, offset: u16, number: i64) -> Result<(), Error> {
    let bytes = number.to_le_bytes()[..].into();
    txn.update(RecordId::page(page), &SetRange { offset, bytes })
}

fn number_at(txn: &Txn, page: PageId, offset: usize) -> Result<i64, Error> {
    Ok(txn.read(page)?.u64_at(offset)? as i64)
}

/// Returns the result; `None` if a branch in doubt blocked the call.
fn unless_refused<T>(done: Result<T, Error>) -> Result<Option<T>, Error> {
    match done {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_refused(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes an account's balance to its page, and to a new page that replaces the previous one.
fn put_in_pages(txn: &mut Txn, page: PageId, number: i64) -> Result<(), Error> {
    let before = number_at(txn, page, 8)?;
    if before != 0 {
        txn.free(PageId::new(before as u64))?;
    }
    let other = txn.allocate()?;
    txn.update(RecordId::page(other), &FormatFresh::new(LayoutKind::RAW))?;
    put(txn, other, 0, number)?;
    put(txn, page, 8, other.get() as i64)?;
    put(txn, page, 0, number)
}

impl Teller<'_> {
    fn store(&self) -> &Store {
        self.run.store()
    }

    /// Chooses a transfer between accounts that are not in doubt.
    fn any_transfer(&mut self) -> Option<Transfer> {
        let free: Vec<(u8, i64)> =
            (0..).zip(&self.state.numbers).filter_map(|(account, number)| Some((account, (*number)?))).collect();
        if free.len() < 2 {
            return None;
        }
        let at = self.chance.index(free.len());
        let (from, from_before) = free[at];
        let (to, to_before) = free[(at + 1 + self.chance.index(free.len() - 1)) % free.len()];
        let amount = 1 + self.chance.below(50) as i64;
        Some(Transfer { number: self.chance.next_u64(), from, to, amount, from_before, to_before })
    }

    fn change(&mut self, txn: &mut Txn, account: u8, by: i64, now: i64) -> Result<(), Error> {
        let at = usize::from(account);
        let chance = &mut self.chance;
        let new_block = chance.one_in(2).then(|| if chance.one_in(8) { 9_000 } else { 16 + chance.below(400) });
        txn.heap(|tx| self.heaps.put(tx, account, now, new_block))?;
        put_in_pages(txn, self.roots.pages[at], now)?;
        let object = self.roots.objects[at];
        if self.chance.one_in(3) {
            // Of another length: now and then the object moves.
            let len = 8 + self.chance.index(60);
            let mut bytes = vec![account; len];
            bytes[..8].copy_from_slice(&now.to_le_bytes());
            self.objects.put(txn, object, &bytes)
        } else {
            self.objects.update(txn, object, AddTo(by))
        }
    }

    fn transfer(&mut self, txn: &mut Txn, transfer: &Transfer) -> Result<(), Error> {
        let Transfer { from, to, amount, from_before, to_before, .. } = *transfer;
        self.change(txn, from, -amount, from_before - amount)?;
        if self.chance.one_in(3) {
            let savepoint = txn.savepoint();
            self.change(txn, to, 1000, to_before + 1000)?;
            if self.chance.one_in(2) {
                self.store().checkpoint()?;
            }
            txn.rollback_to(savepoint)?;
        }
        let given_up = txn.nested_transaction(|txn| {
            put(txn, self.roots.pages[usize::from(from)], 16, 7)?;
            Err::<(), _>(Error::user("not today"))
        });
        assert!(given_up.is_err());
        self.change(txn, to, amount, to_before + amount)?;
        txn.nested_transaction(|txn| put(txn, self.roots.pages[usize::from(from)], 24, amount))
    }

    /// Makes a transfer, and commits it, rolls it back, or prepares it.
    fn begin_one(&mut self) -> Outcome {
        let Some(transfer) = self.any_transfer() else { return Ok(()) };
        let mut txn = self.store().begin();
        match self.transfer(&mut txn, &transfer) {
            // Its blocks are neighbours of a branch's blocks.
            Err(error) if is_refused(&error) => return Ok(txn.rollback()?),
            other => other?,
        }
        match self.chance.below(6) {
            0 => txn.rollback()?,
            1 => {
                let Some(ticket) = unless_refused(txn.commit(Commit::Async))? else { return Ok(()) };
                self.run.enter(ticket.lsn(), move |state: &mut State| state.committed(&transfer));
                if self.chance.one_in(2) {
                    self.run.acknowledge(&ticket)?;
                }
                self.state.committed(&transfer);
            }
            _ => {
                let vote = unless_refused(txn.prepare(&transfer.id()))?;
                let Some(Vote::Prepared(prepared)) = vote else { return Ok(()) };
                self.run.enter(prepared.since(), move |state: &mut State| state.prepared(&transfer));
                self.run.mark_acknowledged(prepared.since());
                self.state.prepared(&transfer);
                if self.chance.one_in(2) {
                    self.hands.push(prepared);
                }
            }
        }
        Ok(())
    }

    /// Ends a branch in doubt.
    fn end_one(&mut self) -> Outcome {
        let in_doubt: Vec<Transfer> = self.state.in_doubt.iter().copied().collect();
        if in_doubt.is_empty() {
            return Ok(());
        }
        let transfer = *self.chance.pick(&in_doubt);
        let id = transfer.id();
        let prepared = match self.hands.iter().position(|prepared| prepared.id() == id) {
            Some(at) => self.hands.swap_remove(at),
            None => self.store().prepared(&id)?,
        };
        let mode = (!self.chance.one_in(3)).then(|| *self.chance.pick(&[Commit::Sync, Commit::Async]));
        let commits = mode.is_some();
        self.run.end_prepared(prepared, mode, move |state: &mut State| state.ended(&transfer, commits))?;
        self.state.ended(&transfer, commits);
        Ok(())
    }

    /// Asserts that an account in doubt is locked.
    fn meet_one(&mut self) -> Outcome {
        let held: Vec<u8> =
            (0..).zip(&self.state.numbers).filter(|(_, number)| number.is_none()).map(|(account, _)| account).collect();
        if held.is_empty() {
            return Ok(());
        }
        let account = *self.chance.pick(&held);
        let mut txn = self.store().begin();
        match self.change(&mut txn, account, 1, 1) {
            Err(error) if is_refused(&error) => Ok(txn.rollback()?),
            Err(other) => Err(other.into()),
            Ok(()) => Err("an object that is in doubt was changed".into()),
        }
    }

    fn step(&mut self) -> Outcome {
        match self.chance.below(12) {
            0..=4 => self.begin_one(),
            5..=8 => self.end_one(),
            9 => self.meet_one(),
            10 => {
                let txn = self.store().begin();
                txn.read(self.roots.pages[0])
                    .map(drop)
                    .or_else(|error| if is_refused(&error) { Ok(()) } else { Err(error) })?;
                match txn.prepare(b"reader")? {
                    Vote::ReadOnly => Ok(()),
                    Vote::Prepared(_) => Err("it has only read".into()),
                }
            }
            _ => Ok(self.store().checkpoint()?),
        }
    }
}

/// Whether the branch in doubt that holds the word of an account is of other accounts: one of its long blocks may share a lock with
/// the word.
fn is_held_for_another(store: &Store, word: &Result<(u64, i64), Error>, account: usize) -> Result<bool, Error> {
    let Err(Error::Heap(cedrat_heap::Error::InDoubt { txn })) = word else { return Ok(false) };
    let in_doubt = store.in_doubt()?;
    let transfer = in_doubt.iter().find(|branch| branch.txn == *txn).and_then(|branch| Transfer::of(&branch.id));
    Ok(transfer.is_some_and(|transfer| [transfer.from, transfer.to].iter().all(|&one| usize::from(one) != account)))
}

/// Reads an account in all its places: all of them have the same balance, or all are in doubt.
fn read_account(store: &Store, roots: &Roots, objects: &Objects, account: usize) -> Outcome<Option<i64>> {
    let mut txn = store.begin();
    let page = roots.pages[account];
    let in_page = unless_refused(number_at(&txn, page, 0))?;
    let other = match in_page {
        Some(_) => {
            unless_refused(number_at(&txn, page, 8).and_then(|other| number_at(&txn, PageId::new(other as u64), 0)))?
        }
        None => None,
    };
    let first = |bytes: &[u8]| i64::from_le_bytes(*bytes.first_chunk().expect("an account has a number"));
    let heaps = Heaps::of(store)?;
    let word = txn.heap(|tx| heaps.word(tx, account));
    let is_compared = !is_held_for_another(store, &word, account)?;
    let word = unless_refused(word)?;
    let in_word = if is_compared { word.map(|(_, number)| number) } else { in_page };
    // A block that is a neighbour of a branch's block may be locked; it is not compared then.
    let in_block = match word {
        Some((block, number)) => unless_refused(txn.heap(|tx| heaps.block(tx, block)))?.or(Some(number)),
        None if is_compared => None,
        None => in_page,
    };
    let in_object = unless_refused(objects.read(&mut txn, roots.objects[account], first))?;
    txn.rollback()?;
    let all = [in_page, other, in_word, in_block, in_object];
    if all.iter().any(|number| *number != in_page) {
        return Err(format!("account {account}: {all:?} in its pages, its word, its block, its object").into());
    }
    Ok(in_page)
}

impl Branches {
    fn objects(&self, store: &Store) -> Outcome<Objects> {
        let options = cedrat_objects::Options { cache_bytes: 1 << 20, undo: self.undo };
        Ok(Objects::open_or_create(store, NAME, options)?)
    }
}

impl Scenario for Branches {
    type State = State;
    type Roots = Roots;

    fn options(&self) -> Options {
        let memory = MemoryOptions { stripes_log2: 16, ..MemoryOptions::small() };
        let locks = Arc::new(Refusing::default());
        let carry_forward_bytes = self.carries.then_some(0);
        Options { locks, partitions: 2, memory, fault: self.fault, carry_forward_bytes, ..Options::simulated() }
    }

    /// Changes stay in the cache until it flushes them.
    fn reads_while_running(&self) -> bool {
        false
    }

    fn registry(&self) -> Registry {
        let registry = Registry::new().with(cedrat_structures::register).with(cedrat_objects::register);
        register_delta::<AddTo>(registry)
    }

    fn set_up(&self, store: &Store) -> Outcome<Roots> {
        let objects = self.objects(store)?;
        let options = HeapOptions { chunk_len: 4096, ..HeapOptions::raw(u64::from(ACCOUNTS) * 512) };
        store.memory().create_heap("words", &options)?;
        store.memory().create_heap("blocks", &HeapOptions { chunk_len: 4096, ..HeapOptions::new(1 << 20) })?;
        let heaps = Heaps::of(store)?;
        Ok(store.transact(|txn| {
            let mut roots = Roots { pages: Vec::new(), objects: Vec::new() };
            for account in 0..ACCOUNTS {
                txn.heap(|tx| heaps.put(tx, account, BEGIN_WITH, Some(50)))?;
                let page = txn.allocate()?;
                txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::RAW))?;
                put_in_pages(txn, page, BEGIN_WITH)?;
                roots.pages.push(page);
                roots.objects.push(objects.insert(txn, &BEGIN_WITH.to_le_bytes())?);
            }
            Ok(roots)
        })?)
    }

    fn run(&self, run: &Run<Branches>, roots: &Roots) -> Outcome {
        let (objects, state) = (self.objects(run.store())?, self.read(run.store(), roots)?);
        let heaps = Heaps::of(run.store())?;
        let mut teller = Teller { run, roots, objects, heaps, state, hands: Vec::new(), chance: run.rng(0) };
        (0..self.steps).try_for_each(|_| teller.step())
    }

    fn read(&self, store: &Store, roots: &Roots) -> Outcome<State> {
        let objects = self.objects(store)?;
        let numbers: Outcome<Vec<Option<i64>>> =
            (0..usize::from(ACCOUNTS)).map(|account| read_account(store, roots, &objects, account)).collect();
        let in_doubt = store.in_doubt().unwrap();
        let in_doubt: Option<BTreeSet<Transfer>> = in_doubt.iter().map(|branch| Transfer::of(&branch.id)).collect();
        Ok(State { numbers: numbers?, in_doubt: in_doubt.ok_or("an unknown branch is in doubt")? })
    }

    fn check(&self, store: &Store, _: &Roots) -> Outcome {
        store.check()?;
        let blocks = Heaps::of(store)?.blocks;
        if store.in_doubt().unwrap().is_empty() && blocks.verify()?.blocks != u64::from(ACCOUNTS) {
            return Err("blocks of the heap are lost, or in two hands".into());
        }
        match store.running() == store.in_doubt().unwrap().len() {
            true => Ok(()),
            false => Err(format!("{} run, {} are in doubt", store.running(), store.in_doubt().unwrap().len()).into()),
        }
    }
}
