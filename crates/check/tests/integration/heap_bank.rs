//! A bank in heaps: accounts in heap words, some accounts on a page, and clerks that move money between all of them.
//!
//! Words are spread over the chunks of two heaps, so that a checkpoint copies the words of one transaction at different
//! times; some transactions change pages too, some are large, some are committed with their partition alone.

use cedrat_check::{Outcome, Rng, Run, Scenario};
use cedrat_heap::{Heap, HeapOptions, Interrupt, Session, Tx};
use cedrat_pages::{PageId, Slot};
use cedrat_txn::{Commit, Options, RecordId, Registry, Result, Store};

use crate::accounts::{BALANCE, Deposit, OpenAccounts, balance};

/// Distance of two word accounts, in bytes: a few of them lie in one chunk.
const APART: u64 = 1_360;

/// Length of a chunk, the smallest possible.
const CHUNK: u64 = 4_096;

/// First offset of the words of large transactions, in the second heap.
const LARGE_AT: u64 = 24;

/// Parameters of the workload.
#[derive(Clone, Debug)]
pub(crate) struct HeapBank {
    /// Number of accounts in words.
    pub(crate) words: u64,
    /// Number of accounts on the page; 0: no pages are used.
    pub(crate) places: u64,
    /// Number of concurrent clerks.
    pub(crate) clerks: u64,
    /// Number of transactions of each clerk.
    pub(crate) transfers: u64,
    /// One in so many transactions commits with its partition alone; 0: none. Each clerk then has words of its own.
    pub(crate) alone_one_in: u64,
    /// Number of sessions of each clerk, in partitions of their own: a commit alone then may follow one of another partition.
    pub(crate) sessions: usize,
    /// Number of transactions after which the first clerk takes a checkpoint; 0: never.
    pub(crate) checkpoint_every: u64,
    /// Number of words of a large transaction; 0: there are none.
    pub(crate) large: u64,
    /// The store under it.
    pub(crate) options: fn() -> Options,
}

impl Default for HeapBank {
    fn default() -> HeapBank {
        HeapBank {
            words: 9,
            places: 0,
            clerks: 1,
            transfers: 40,
            alone_one_in: 0,
            sessions: 1,
            checkpoint_every: 0,
            large: 0,
            options: Options::simulated,
        }
    }
}

/// Content of the store: the words, the places of the page, the number that the large transactions wrote everywhere.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State {
    words: Vec<u64>,
    places: Vec<u64>,
    large: u64,
}

/// The heaps of an open store.
struct Heaps {
    coins: Heap,
    notes: Heap,
}

impl Heaps {
    fn of(store: &Store) -> Outcome<Heaps> {
        Ok(Heaps { coins: store.memory().heap("coins")?, notes: store.memory().heap("notes")? })
    }

    /// Even accounts are coins, odd ones notes.
    fn place(&self, account: u64) -> (&Heap, u64) {
        let heap = if account.is_multiple_of(2) { &self.coins } else { &self.notes };
        (heap, account / 2 * APART + if account.is_multiple_of(2) { 0 } else { 16 })
    }

    fn add(&self, tx: &mut Tx<'_>, account: u64, amount: i64) -> Result<(), Interrupt> {
        let (heap, at) = self.place(account);
        let balance = tx.read(heap, at)?;
        tx.write(heap, at, balance.wrapping_add_signed(amount))
    }

    /// The same, byte by byte; most bytes stay unchanged.
    fn add_bytewise(&self, tx: &mut Tx<'_>, account: u64, amount: i64) -> Result<(), Interrupt> {
        let (heap, at) = self.place(account);
        let mut bytes = [0; 8];
        tx.read_bytes(heap, at, &mut bytes)?;
        let balance = u64::from_le_bytes(bytes).wrapping_add_signed(amount);
        let after = balance.to_le_bytes();
        // The last two bytes change only where a balance crosses zero, and are not written otherwise.
        let end = if after[6..] == bytes[6..] { 6 } else { 8 };
        tx.write_bytes(heap, at, &after[..5])?;
        tx.write_bytes(heap, at + 3, &after[3..end])
    }
}

/// Accounts and amount of a transfer.
#[derive(Clone, Copy)]
struct Transfer {
    from: u64,
    to: u64,
    amount: i64,
}

impl Transfer {
    /// Chooses among accounts `first`, `first + step`, ….
    fn by_chance(chance: &mut Rng, accounts: u64, first: u64, step: u64) -> Transfer {
        let own = (accounts - first).div_ceil(step);
        let from = chance.below(own);
        let to = (from + 1 + chance.below(own - 1)) % own;
        Transfer { from: first + from * step, to: first + to * step, amount: 1 + chance.below(50) as i64 }
    }

    fn effect(self) -> impl Fn(&mut State) + Send + 'static {
        move |state| {
            let words = &mut state.words;
            words[self.from as usize] = words[self.from as usize].wrapping_add_signed(-self.amount);
            words[self.to as usize] = words[self.to as usize].wrapping_add_signed(self.amount);
        }
    }
}

/// State of one clerk.
struct Clerk<'a> {
    heap_bank: &'a HeapBank,
    run: &'a Run<HeapBank>,
    number: u64,
    page: Option<PageId>,
    heaps: Heaps,
    sessions: Vec<Session>,
    chance: Rng,
    waiting: Vec<cedrat_wal::Lsn>,
}

impl Clerk<'_> {
    fn work(mut self) -> Outcome {
        for done in 1..=self.heap_bank.transfers {
            self.transact()?;
            self.look_after_acknowledgements()?;
            let every = self.heap_bank.checkpoint_every;
            if self.number == 0 && every > 0 && done % every == 0 {
                self.run.store().checkpoint()?;
            }
        }
        for lsn in std::mem::take(&mut self.waiting) {
            self.run.acknowledge_lsn(lsn)?;
        }
        Ok(())
    }

    fn look_after_acknowledgements(&mut self) -> Outcome {
        let memory = self.run.store().memory();
        for lsn in std::mem::take(&mut self.waiting) {
            match memory.is_stable(lsn, false)? {
                true => self.run.acknowledge_lsn(lsn)?,
                false => self.waiting.push(lsn),
            }
        }
        Ok(())
    }

    /// Accounts that no other clerk uses, if some commits must be independent.
    fn transfer(&mut self) -> Transfer {
        let (first, step) = if self.heap_bank.alone_one_in > 0 { (self.number, self.heap_bank.clerks) } else { (0, 1) };
        Transfer::by_chance(&mut self.chance, self.heap_bank.words, first, step)
    }

    fn transact(&mut self) -> Outcome {
        let transfer = self.transfer();
        let next = self.chance.index(self.sessions.len());
        self.sessions.swap(0, next);
        let alone = self.heap_bank.alone_one_in;
        match self.chance.below(8) {
            0 => self.change_mind(transfer),
            1 | 2 if self.heap_bank.places > 0 => self.over_faces(transfer),
            3 if self.heap_bank.large > 0 && self.number == 0 => self.large(),
            _ if alone > 0 && self.chance.one_in(alone) => self.move_coins(transfer, Commit::Partition),
            4 | 5 => self.move_coins(transfer, Commit::Async),
            _ => self.move_coins(transfer, Commit::Sync),
        }
    }

    fn move_coins(&mut self, transfer: Transfer, mode: Commit) -> Outcome {
        let (heaps, bytewise) = (&self.heaps, self.chance.one_in(3));
        let lsn = self.run.on_heaps(&mut self.sessions[0], mode, |tx| {
            heaps.add(tx, transfer.from, -transfer.amount)?;
            match bytewise {
                true => heaps.add_bytewise(tx, transfer.to, transfer.amount)?,
                false => heaps.add(tx, transfer.to, transfer.amount)?,
            }
            Ok(transfer.effect())
        })?;
        if mode == Commit::Async {
            self.waiting.push(lsn);
        }
        Ok(())
    }

    /// Rolls a transaction back, completely or half.
    fn change_mind(&mut self, transfer: Transfer) -> Outcome {
        let heaps = &self.heaps;
        if self.chance.one_in(2) {
            let given_up = self.sessions[0].run(Commit::Sync, |tx| -> Result<(), Interrupt> {
                heaps.add(tx, transfer.from, -transfer.amount)?;
                Err(Interrupt::abort("not today"))
            });
            return match given_up {
                Err(cedrat_heap::Error::Aborted(_)) => Ok(()),
                other => Err(format!("an aborted transaction came to {other:?}").into()),
            };
        }
        self.run.on_heaps(&mut self.sessions[0], Commit::Sync, |tx| {
            heaps.add(tx, transfer.from, -transfer.amount)?;
            let before = tx.savepoint();
            heaps.add(tx, transfer.from, -1)?;
            heaps.add(tx, transfer.to, 77)?;
            tx.back_to(before)?;
            heaps.add(tx, transfer.to, transfer.amount)?;
            Ok(transfer.effect())
        })?;
        Ok(())
    }

    /// Moves from a word to a place on the page: one commit record, both or neither (E10.1).
    fn over_faces(&mut self, transfer: Transfer) -> Outcome {
        let page = self.page.expect("there are places");
        let to = transfer.to % self.heap_bank.places;
        let slot = RecordId::new(page, Slot(to as u16));
        let (heaps, back_and_forth, first) = (&self.heaps, self.chance.one_in(3), self.chance.one_in(2));
        let deposit = Deposit { amount: transfer.amount };
        let sync = self.chance.one_in(2);
        let body = |txn: &mut cedrat_txn::Txn| -> Outcome<_> {
            if first {
                txn.update(slot, &deposit)?;
            }
            txn.heap(|tx| heaps.add(tx, transfer.from, -transfer.amount))?;
            if back_and_forth {
                let before = txn.savepoint();
                txn.heap(|tx| heaps.add(tx, transfer.to, 5))?;
                txn.update(slot, &Deposit { amount: 11 })?;
                txn.rollback_to(before)?;
            }
            if !first {
                txn.update(slot, &deposit)?;
            }
            Ok(move |state: &mut State| {
                let from = &mut state.words[transfer.from as usize];
                *from = from.wrapping_add_signed(-transfer.amount);
                state.places[to as usize] = state.places[to as usize].wrapping_add_signed(transfer.amount);
            })
        };
        if sync {
            self.run.transact(body)?;
        } else {
            let ticket = self.run.transact_async(body)?;
            self.waiting.push(ticket.lsn());
        }
        Ok(())
    }

    /// Runs a transaction that is longer than a record: it is logged in parts (E10.5).
    fn large(&mut self) -> Outcome {
        let (heaps, large) = (&self.heaps, self.heap_bank.large);
        self.run.on_heaps(&mut self.sessions[0], Commit::Sync, |tx| {
            let number = tx.read(&heaps.notes, LARGE_AT)? + 1;
            for word in 0..large {
                // Between the accounts, at other offsets.
                tx.write(&heaps.notes, LARGE_AT + word * 32, number)?;
            }
            Ok(move |state: &mut State| state.large = number)
        })?;
        Ok(())
    }
}

impl Scenario for HeapBank {
    type State = State;
    type Roots = Option<PageId>;

    fn options(&self) -> Options {
        (self.options)()
    }

    fn registry(&self) -> Registry {
        Registry::new().operation::<Deposit>().operation::<OpenAccounts>()
    }

    fn set_up(&self, store: &Store) -> Outcome<Option<PageId>> {
        let size = (self.words.div_ceil(2) * APART + 64).max(LARGE_AT + self.large * 32);
        let options = HeapOptions { chunk_len: CHUNK, ..HeapOptions::raw(size) };
        let memory = store.memory();
        let heaps = Heaps {
            coins: memory.create_heap("coins", &options)?,
            notes: memory.create_heap("notes", &HeapOptions { file: Some("paper".into()), ..options })?,
        };
        heaps.coins.atomically(|tx| (0..self.words).try_for_each(|account| heaps.add(tx, account, BALANCE)))?;
        if self.places == 0 {
            return Ok(None);
        }
        let count = self.places;
        Ok(Some(store.transact(|txn| {
            let page = txn.allocate()?;
            txn.update(RecordId::page(page), &OpenAccounts { count })?;
            Ok(page)
        })?))
    }

    fn run(&self, run: &Run<HeapBank>, page: &Option<PageId>) -> Outcome {
        let (heap_bank, page) = (self.clone(), *page);
        run.in_threads(self.clerks, move |run, number| {
            let clerk = Clerk {
                heap_bank: &heap_bank,
                run,
                number,
                page,
                heaps: Heaps::of(run.store())?,
                sessions: (0..heap_bank.sessions)
                    .map(|_| run.store().memory().session())
                    .collect::<std::result::Result<_, _>>()?,
                chance: run.rng(number),
                waiting: Vec::new(),
            };
            clerk.work()
        })
    }

    fn read(&self, store: &Store, page: &Option<PageId>) -> Outcome<State> {
        let heaps = Heaps::of(store)?;
        let mut session = store.memory().session()?;
        let done = session.run(Commit::Async, |tx| {
            let words = (0..self.words).map(|account| {
                let (heap, at) = heaps.place(account);
                tx.read(heap, at)
            });
            let words = words.collect::<Result<Vec<u64>, Interrupt>>()?;
            Ok((words, tx.read(&heaps.notes, LARGE_AT)?))
        })?;
        let (words, large) = done.value;
        let mut places = Vec::new();
        if let Some(page) = *page {
            let page = store.read(page)?;
            for slot in 0..self.places {
                places.push(balance(&page, Slot(slot as u16))? as u64);
            }
        }
        Ok(State { words, places, large })
    }

    /// The total is constant, and a large transaction has written all of its words or none.
    fn check(&self, store: &Store, page: &Option<PageId>) -> Outcome {
        let state = self.read(store, page)?;
        // Modulo 2^64, as the balances, of which some are below zero.
        let total = state.words.iter().chain(&state.places).fold(0, |sum: u64, balance| sum.wrapping_add(*balance));
        if total != BALANCE as u64 * (self.words + self.places) {
            return Err(format!("the heap_bank holds {total}").into());
        }
        let heaps = Heaps::of(store)?;
        let mut session = store.memory().session()?;
        for word in 0..self.large {
            let at = LARGE_AT + word * 32;
            let number = session.run(Commit::Async, |tx| tx.read(&heaps.notes, at))?.value;
            if number != state.large {
                return Err(format!("the word at {at} is of large transaction {number}, not {}", state.large).into());
            }
        }
        Ok(())
    }
}
