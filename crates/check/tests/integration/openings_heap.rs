//! Faults during the openings of stores with heaps: words that no checkpoint has, prepared transactions over heaps and pages,
//! also carried forward, and losers.
#![cfg(not(cedrat_shuttle))]

use std::collections::BTreeMap;

use cedrat_check::{self as check, Outcome, Run, Scenario};
use cedrat_heap::{Heap, HeapOptions, Interrupt, MemoryOptions, Tx};
use cedrat_pages::{LayoutKind, PageId};
use cedrat_txn::{Commit, FormatFresh, LogicalUndo, Options, RecordId, Registry, SetRange, Store, Txn, Undo, Vote};
use serde::{Deserialize, Serialize};

use crate::heap_bank::HeapBank;

/// Accounts with a balance in a heap word and on a page, and a block of the heap that each change replaces. Transfers of one
/// account are prepared, left in doubt, carried forward by checkpoints, and ended; between them other accounts change.
struct Ledger;

/// Number of accounts that only prepared transactions change.
const BRANCHES: usize = 3;

/// Number of accounts that other transactions change.
const PLAIN: usize = 3;

/// Length of a chunk, the smallest possible. Each account has a chunk of its own.
const CHUNK: u64 = 4_096;

#[derive(Clone)]
struct Roots {
    /// The page of each account.
    pages: Vec<PageId>,
    /// A page that only losers change.
    spare: PageId,
}

/// Balance of each account in its word (none while a transaction is in doubt) and on its page.
#[derive(Clone, Debug, PartialEq)]
struct State {
    words: Vec<Option<u64>>,
    pages: Vec<u64>,
    spare: u64,
    in_doubt: BTreeMap<usize, u64>,
}

/// A prepared addition: the account, and its balance before.
#[derive(Clone, Copy)]
struct Branch {
    account: usize,
    before: u64,
}

impl Branch {
    const AMOUNT: u64 = 10;

    fn id(self) -> Vec<u8> {
        [self.account as u64, self.before].iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn of(id: &[u8]) -> Outcome<Branch> {
        let ([account, before], []) = id.as_chunks::<8>() else { return Err("an identifier has two numbers".into()) };
        Ok(Branch { account: u64::from_le_bytes(*account) as usize, before: u64::from_le_bytes(*before) })
    }

    fn prepared(self, state: &mut State) {
        state.words[self.account] = None;
        state.pages[self.account] = self.before + Branch::AMOUNT;
        state.in_doubt.insert(self.account, self.before);
    }

    fn ended(self, state: &mut State, balance: u64) {
        state.words[self.account] = Some(balance);
        state.pages[self.account] = balance;
        state.in_doubt.remove(&self.account);
    }
}

/// Undoes an addition to the spare page.
#[derive(Debug, Serialize, Deserialize)]
struct TakeFrom {
    page: u64,
    amount: u64,
}

impl LogicalUndo for TakeFrom {
    const NAME: &'static str = "test.take_from";
    const LOG_BYTES_MAX: u32 = 1024;

    fn undo(&self, txn: &mut Txn) -> cedrat_txn::Result<()> {
        add(txn, PageId::new(self.page), self.amount.wrapping_neg())
    }
}

fn add(txn: &mut Txn, page: PageId, amount: u64) -> cedrat_txn::Result<()> {
    let balance = txn.read_latched(page)?.u64_at(0)?.wrapping_add(amount);
    txn.update(RecordId::page(page), &SetRange { offset: 0, bytes: balance.to_le_bytes()[..].into() })
}

/// Makes everything durable, so that a crash may come between any two steps.
fn force(store: &Store) -> cedrat_txn::Result<()> {
    let log = store.log();
    log.force(log.current_lsn())?;
    Ok(())
}

/// The heap of words, and a heap of blocks for each account that may be in doubt, and one for all others: transactions in doubt
/// lock what lies beside their blocks.
struct Heaps {
    words: Heap,
    blocks: Vec<Heap>,
}

impl Heaps {
    fn of(store: &Store) -> Outcome<Heaps> {
        let memory = store.memory();
        let blocks = (0..=BRANCHES).map(|number| memory.heap(&format!("blocks-{number}"))).collect::<Result<_, _>>()?;
        Ok(Heaps { words: memory.heap("words")?, blocks })
    }

    fn blocks(&self, account: usize) -> &Heap {
        &self.blocks[account.min(BRANCHES)]
    }

    /// Writes a balance to its word and to a new block, which replaces the previous one.
    fn put(&self, tx: &mut Tx<'_>, account: usize, balance: u64) -> Result<(), Interrupt> {
        let (at, blocks) = (account as u64 * CHUNK, self.blocks(account));
        let before = tx.read(&self.words, at + 8)?;
        if before != 0 {
            tx.free(blocks, before)?;
        }
        let block = tx.allocate_filled(blocks, 40 + balance % 7 * 60)?;
        tx.fill(blocks, block, &balance.to_le_bytes())?;
        tx.write(&self.words, at + 8, block)?;
        tx.write(&self.words, at, balance)
    }

    /// Reads the balance of a word and of its block.
    fn get(&self, tx: &mut Tx<'_>, account: usize) -> Result<(u64, u64), Interrupt> {
        let (at, blocks) = (account as u64 * CHUNK, self.blocks(account));
        let (balance, block) = (tx.read(&self.words, at)?, tx.read(&self.words, at + 8)?);
        tx.block_len(blocks, block)?;
        Ok((balance, tx.read(blocks, block)?))
    }
}

/// A running workload.
struct Work<'a> {
    run: &'a Run<Ledger>,
    roots: &'a Roots,
    heaps: Heaps,
}

impl Work<'_> {
    fn balance(&self, account: usize) -> Outcome<u64> {
        Ok(self.run.store().read(self.roots.pages[account])?.u64_at(0)?)
    }

    /// Prepares an addition to word and page, and leaves it in doubt.
    fn prepare(&self, account: usize) -> Outcome {
        let branch = Branch { account, before: self.balance(account)? };
        let mut txn = self.run.store().begin();
        txn.heap(|tx| self.heaps.put(tx, account, branch.before + Branch::AMOUNT))?;
        add(&mut txn, self.roots.pages[account], Branch::AMOUNT)?;
        let Vote::Prepared(prepared) = txn.prepare(&branch.id())? else { unreachable!("it has changed a page") };
        self.run.enter(prepared.since(), move |state: &mut State| branch.prepared(state));
        self.run.mark_acknowledged(prepared.since());
        Ok(())
    }

    fn end(&self, id: &[u8], commits: bool) -> Outcome {
        let branch = Branch::of(id)?;
        let balance = if commits { branch.before + Branch::AMOUNT } else { branch.before };
        let prepared = self.run.store().prepared(id)?;
        let mode = commits.then_some(Commit::Sync);
        self.run.end_prepared(prepared, mode, move |state: &mut State| branch.ended(state, balance))
    }

    fn end_all(&self) -> Outcome {
        for (at, branch) in self.run.store().in_doubt().unwrap().into_iter().enumerate() {
            self.end(&branch.id, at.is_multiple_of(2))?;
        }
        Ok(())
    }

    /// Adds to the word and the page of an account, in a transaction of both.
    fn over_both(&self, account: usize, amount: u64) -> Outcome {
        let balance = self.balance(account)? + amount;
        self.run.transact(|txn| {
            txn.heap(|tx| self.heaps.put(tx, account, balance))?;
            add(txn, self.roots.pages[account], amount)?;
            Ok(move |state: &mut State| {
                state.words[account] = Some(balance);
                state.pages[account] = balance;
            })
        })?;
        Ok(())
    }

    /// Sets the words of all plain accounts, in a transaction over heaps alone.
    fn in_words(&self, balance: u64, mode: Commit) -> Outcome {
        let mut session = self.run.store().memory().session()?;
        let lsn = self.run.on_heaps(&mut session, mode, |tx| {
            (BRANCHES..BRANCHES + PLAIN).try_for_each(|account| self.heaps.put(tx, account, balance))?;
            Ok(move |state: &mut State| state.words[BRANCHES..].fill(Some(balance)))
        })?;
        if mode == Commit::Async {
            self.run.acknowledge_lsn(lsn)?;
        }
        Ok(())
    }

    /// Adds to the spare page in a nested action, in several durable records.
    fn nested(&self, txn: &mut Txn, amount: u64) -> Outcome {
        let page = self.roots.spare;
        txn.nested((), |txn| {
            add(txn, page, amount / 2)?;
            force(self.run.store())?;
            add(txn, page, amount - amount / 2)?;
            Ok(((), Undo::logical(&TakeFrom { page: page.get(), amount })))
        })?;
        Ok(force(self.run.store())?)
    }

    fn round(&self, round: u64) -> Outcome {
        let mut open = self.run.store().begin();
        self.nested(&mut open, 1_000)?;
        for account in 0..BRANCHES {
            self.prepare(account)?;
            self.in_words(round * 100 + account as u64, if account == 0 { Commit::Async } else { Commit::Sync })?;
        }
        self.over_both(BRANCHES, round)?;
        if round.is_multiple_of(2) {
            self.run.store().checkpoint()?;
        }
        self.nested(&mut open, 10)?;
        self.in_words(round * 100 + 50, Commit::Sync)?;
        self.over_both(BRANCHES + 1, round)?;
        self.nested(&mut open, 1)?;
        open.rollback()?;
        self.end_all()
    }
}

impl Scenario for Ledger {
    type State = State;
    type Roots = Roots;

    fn options(&self) -> Options {
        // A checkpoint carries a branch forward as soon as twice the length of its copies was logged since.
        // So many stripes that no two accounts share one.
        let memory = MemoryOptions { stripes_log2: 17, ..MemoryOptions::small() };
        Options { partitions: 2, carry_forward_bytes: Some(1), memory, ..Options::simulated() }
    }

    fn registry(&self) -> Registry {
        Registry::new().logical::<TakeFrom>()
    }

    fn set_up(&self, store: &Store) -> Outcome<Roots> {
        let options = HeapOptions { chunk_len: CHUNK, ..HeapOptions::raw((BRANCHES + PLAIN) as u64 * CHUNK) };
        store.memory().create_heap("words", &options)?;
        let blocks = HeapOptions { chunk_len: CHUNK, size_max: 16 << 10, ..HeapOptions::new(16 << 10) };
        for number in 0..=BRANCHES {
            store.memory().create_heap(&format!("blocks-{number}"), &blocks)?;
        }
        let heaps = Heaps::of(store)?;
        store
            .memory()
            .run(Commit::Sync, |tx| (0..BRANCHES + PLAIN).try_for_each(|account| heaps.put(tx, account, 0)))?;
        let page = || {
            store.transact(|txn| {
                let page = txn.allocate()?;
                txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::RAW))?;
                Ok(page)
            })
        };
        let pages = (0..BRANCHES + PLAIN).map(|_| page()).collect::<cedrat_txn::Result<_>>()?;
        let roots = Roots { pages, spare: page()? };
        store.checkpoint()?;
        Ok(roots)
    }

    fn run(&self, run: &Run<Ledger>, roots: &Roots) -> Outcome {
        let work = Work { run, roots, heaps: Heaps::of(run.store())? };
        work.end_all()?;
        (1..=4).try_for_each(|round| work.round(round))
    }

    fn read(&self, store: &Store, roots: &Roots) -> Outcome<State> {
        let heaps = Heaps::of(store)?;
        let mut in_doubt = BTreeMap::new();
        for branch in store.in_doubt().unwrap() {
            let branch = Branch::of(&branch.id)?;
            in_doubt.insert(branch.account, branch.before);
        }
        let mut words = Vec::new();
        for account in 0..BRANCHES + PLAIN {
            words.push(match store.memory().run(Commit::Async, |tx| heaps.get(tx, account)) {
                Ok(done) if done.value.0 == done.value.1 => Some(done.value.0),
                Ok(done) => {
                    return Err(format!("word {account} holds {}, its block {}", done.value.0, done.value.1).into());
                }
                Err(cedrat_heap::Error::InDoubt { .. }) => None,
                Err(error) => return Err(error.into()),
            });
        }
        let at = |page: PageId| Ok::<u64, check::Error>(store.read(page)?.u64_at(0)?);
        let pages = roots.pages.iter().map(|&page| at(page)).collect::<Outcome<_>>()?;
        Ok(State { words, pages, spare: at(roots.spare)?, in_doubt })
    }

    /// The tables of blocks are valid, unless a transaction in doubt has changed them, and each account has one block.
    fn check(&self, store: &Store, _: &Roots) -> Outcome {
        for (number, heap) in Heaps::of(store)?.blocks.iter().enumerate() {
            let accounts = if number == BRANCHES { PLAIN } else { 1 };
            match heap.verify() {
                Ok(found) if found.blocks == accounts as u64 => {}
                Ok(found) => return Err(format!("heap {number} has {} blocks", found.blocks).into()),
                Err(cedrat_heap::Error::InDoubt { .. }) if number < BRANCHES => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn passes<S: Scenario>(check: check::Openings<S>) {
    let report = check.seed(check::seed(1)).run().unwrap_or_else(|failure| panic!("{failure}"));
    report.print();
}

/// E9.1, E9.10, E9.13, R2, R5: whatever fails while a heap and its prepared transactions are restored, the next opening finds
/// the same.
#[test]
fn failed_opening_keeps_heaps_and_branches() {
    passes(check::openings("heap-branches-openings", Ledger).bases(8).every(2));
}

/// E4, E10: words that no checkpoint has, of commits of heaps alone and of pages too, also longer than a record.
#[test]
fn failed_opening_keeps_commits_on_heaps() {
    let options = || Options { partitions: 3, ..Options::simulated() };
    let heap_bank = HeapBank { clerks: 1, places: 4, large: 700, checkpoint_every: 9, options, ..HeapBank::default() };
    passes(check::openings("heap-openings", heap_bank).bases(8).every(2));
}

/// E8.4: commits that need only their own partition, beyond records that a crash has lost.
#[test]
fn failed_opening_keeps_commits_of_partitions() {
    let options = || Options { partitions: 3, ..Options::simulated() };
    let heap_bank =
        HeapBank { words: 12, alone_one_in: 2, sessions: 3, checkpoint_every: 9, options, ..HeapBank::default() };
    passes(check::openings("heap-partition-openings", heap_bank).bases(8).every(2));
}

/// The crashes of the same workload, for its model.
#[test]
fn heaps_and_branches_survive_every_crash() {
    let check = check::crashes("heap-branches", Ledger).at_least(2_000).again(12, 50);
    check.run().unwrap_or_else(|failure| panic!("{failure}")).print();
}
