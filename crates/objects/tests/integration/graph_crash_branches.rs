//! Branches of a graph under crashes: in doubt after a restart if their prepare was acknowledged, never partly applied,
//! invisible and locked until they are ended with their outcome, while garbage collections run (E9, E21.8, E21.9).
#![cfg(not(cedrat_shuttle))] // threads: graph_threads.rs

use std::collections::BTreeSet;

use cedrat_check as check;
use cedrat_check::{Outcome, Rng, Run, Scenario};
use cedrat_objects::graph::{Changes, Collection, Graph, GraphError, Identity, Mode, Options, Reference};
use cedrat_txn::{Commit, Error, Fault, Prepared, Registry, Store, Vote};

use crate::graph_common::{self, NAME};

const ACCOUNTS: u8 = 5;
const BEGIN_WITH: i64 = 100;

/// A transfer. Its identifier contains all of it, so that it can be decoded from a branch in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Transfer {
    number: u64,
    from: u8,
    to: u8,
    from_then: i64,
    to_then: i64,
}

impl Transfer {
    fn id(&self) -> Vec<u8> {
        let numbers = [self.number.to_le_bytes(), self.from_then.to_le_bytes(), self.to_then.to_le_bytes()];
        [&numbers.concat()[..], &[self.from, self.to]].concat()
    }

    fn of(id: &[u8]) -> Option<Transfer> {
        let number = |at: usize| Some(i64::from_le_bytes(id.get(at..at + 8)?.try_into().ok()?));
        let (from, to) = (*id.get(24)?, *id.get(25)?);
        Some(Transfer { number: number(0)? as u64, from, to, from_then: number(8)?, to_then: number(16)? })
    }
}

/// The balance of each account, and the transfers in doubt, whose changes are invisible.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    numbers: Vec<i64>,
    in_doubt: BTreeSet<Transfer>,
}

impl State {
    fn committed(&mut self, transfer: &Transfer) {
        self.numbers[usize::from(transfer.from)] = transfer.from_then;
        self.numbers[usize::from(transfer.to)] = transfer.to_then;
        self.in_doubt.remove(transfer);
    }

    fn ended(&mut self, transfer: &Transfer, commits: bool) {
        match commits {
            true => self.committed(transfer),
            false => drop(self.in_doubt.remove(transfer)),
        }
    }

    fn free(&self) -> Vec<u8> {
        let held = |account: &u8| self.in_doubt.iter().any(|transfer| [transfer.from, transfer.to].contains(account));
        (0..ACCOUNTS).filter(|account| !held(account)).collect()
    }
}

/// Accounts are objects with their balances, some of them in pieces. Each refers to the receipt of its last transfer, which
/// contains the same balance and belongs to no other account; a root leads to the receipt as well.
#[derive(Clone, Debug)]
struct Branches {
    steps: u64,
    fault: Option<Fault>,
}

fn data_len(account: u8) -> usize {
    if account.is_multiple_of(2) { 40 } else { 9_000 }
}

fn root(account: u8) -> String {
    format!("account {account}")
}

fn receipt(account: u8) -> String {
    format!("receipt {account}")
}

fn number_of(data: &[u8]) -> i64 {
    i64::from_le_bytes(*data.first_chunk().expect("it begins with a number"))
}

struct Teller<'a> {
    run: &'a Run<Branches>,
    graph: Graph,
    accounts: Vec<Identity>,
    state: State,
    hands: Vec<Prepared>,
    collection: Option<Collection>,
    chance: Rng,
}

fn is_in_doubt(error: &Error) -> bool {
    matches!(GraphError::cause(error), Error::InDoubt { .. })
}

impl Teller<'_> {
    fn any_transfer(&mut self) -> Option<Transfer> {
        let free = self.state.free();
        if free.len() < 2 {
            return None;
        }
        let at = self.chance.index(free.len());
        let (from, to) = (free[at], free[(at + 1 + self.chance.index(free.len() - 1)) % free.len()]);
        let amount = 1 + self.chance.below(50) as i64;
        let now = |account: u8| self.state.numbers[usize::from(account)];
        Some(Transfer {
            number: self.chance.next_u64(),
            from,
            to,
            from_then: now(from) - amount,
            to_then: now(to) + amount,
        })
    }

    /// Defines a class of receipts for one balance.
    fn defined(&self, defined: &mut Vec<i64>, balance: i64) -> u32 {
        defined.push(balance);
        self.graph.classes_len() + defined.len() as u32
    }

    fn changes(&mut self, transfer: &Transfer) -> Changes {
        let (mut changes, mut defined) = (Changes::new(), Vec::new());
        for (account, number) in [(transfer.from, transfer.from_then), (transfer.to, transfer.to_then)] {
            let object = self.accounts[usize::from(account)];
            let len = *self.chance.pick(&[8, 100, 8_000]);
            let mut receipt_data = vec![account; len];
            receipt_data[..8].copy_from_slice(&number.to_le_bytes());
            let class = if self.chance.one_in(3) { self.defined(&mut defined, number) } else { 1 };
            let new = changes.add(class, &receipt_data, &[object.into()]);
            // All bytes of a long account change, so that a partial change would be detected.
            let mut data = vec![number as u8; data_len(account)];
            data[..8].copy_from_slice(&number.to_le_bytes());
            changes.patch(object, 8, &data);
            let words = [new, self.graph_word()].map(|word| word.word().to_le_bytes());
            changes.patch(object, 8 + data.len() as u32, &words.concat());
            changes.set_root(&receipt(account), new);
        }
        for (class, balance) in (self.graph.classes_len() + 1..).zip(defined) {
            changes.define_class(class, &balance.to_le_bytes());
        }
        changes
    }

    /// Value of the second reference, which an account may not have had before.
    fn graph_word(&mut self) -> Reference {
        Reference::value(1, self.chance.below(100)).expect("it is small")
    }

    fn begin_one(&mut self) -> Outcome {
        let Some(transfer) = self.any_transfer() else { return Ok(()) };
        let changes = self.changes(&transfer);
        if self.chance.one_in(4) {
            let commit = || Ok(self.graph.commit(&changes, Mode::Async)?.ticket().clone());
            let ticket = match self.run.commits(commit, move |state: &mut State| state.committed(&transfer)) {
                Err(error) if error.downcast_ref().is_some_and(is_in_doubt) => return Ok(()),
                ticket => ticket?,
            };
            if self.chance.one_in(2) {
                self.run.acknowledge(&ticket)?;
            }
            self.state.committed(&transfer);
            return Ok(());
        }
        let branch = match self.graph.prepare(&changes, &transfer.id()) {
            Err(error) if is_in_doubt(&error) => return Ok(()), // another root of the same lock
            branch => branch?,
        };
        let Vote::Prepared(prepared) = branch.vote else { return Err("it has changed something".into()) };
        self.run.enter(prepared.since(), move |state: &mut State| {
            state.in_doubt.insert(transfer);
        });
        self.run.mark_acknowledged(prepared.since());
        self.state.in_doubt.insert(transfer);
        if self.chance.one_in(2) {
            self.hands.push(prepared);
        }
        Ok(())
    }

    fn end_one(&mut self) -> Outcome {
        let in_doubt: Vec<Transfer> = self.state.in_doubt.iter().copied().collect();
        if in_doubt.is_empty() {
            return Ok(());
        }
        let transfer = *self.chance.pick(&in_doubt);
        let id = transfer.id();
        let prepared = match self.hands.iter().position(|prepared| prepared.id() == id) {
            Some(at) => self.hands.swap_remove(at),
            None => self.run.store().prepared(&id)?,
        };
        let mode = (!self.chance.one_in(3)).then(|| *self.chance.pick(&[Commit::Sync, Commit::Async]));
        let commits = mode.is_some();
        self.run.end_prepared(prepared, mode, move |state: &mut State| state.ended(&transfer, commits))?;
        self.state.ended(&transfer, commits);
        Ok(())
    }

    /// An account in doubt is locked, and unchanged.
    fn meet_one(&mut self) -> Outcome {
        let in_doubt: Vec<Transfer> = self.state.in_doubt.iter().copied().collect();
        if in_doubt.is_empty() {
            return Ok(());
        }
        let account = self.chance.pick(&in_doubt).from;
        let mut changes = Changes::new();
        match self.chance.one_in(2) {
            true => changes.patch(self.accounts[usize::from(account)], 8, &[1]),
            false => changes.set_root(&receipt(account), self.accounts[0]),
        };
        match self.graph.commit(&changes, Mode::Sync) {
            Err(error) if is_in_doubt(&error) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Err("an object that is in doubt was changed".into()),
        }
        match read_all(&self.graph)?.0 == self.state.numbers {
            true => Ok(()),
            false => Err("accounts are not as they were committed".into()),
        }
    }

    fn collect(&mut self) -> Outcome {
        let objects = 1 + self.chance.below(20) as usize;
        Ok(graph_common::go_on(&self.graph, &mut self.collection, objects)?)
    }

    fn step(&mut self) -> Outcome {
        match self.chance.below(16) {
            0..=4 => self.begin_one(),
            5..=8 => self.end_one(),
            9 => self.meet_one(),
            10 => Ok(self.graph.flush()?),
            11 => Ok(self.run.store().checkpoint()?),
            _ => self.collect(),
        }
    }
}

/// Reads the balances of all accounts, in all places that contain them, and the identities of the accounts.
fn read_all(graph: &Graph) -> Outcome<(Vec<i64>, Vec<Identity>)> {
    let (mut numbers, mut accounts) = (Vec::new(), Vec::new());
    let roots = graph.roots()?;
    for account in 0..ACCOUNTS {
        let led_to = |name: String| roots.iter().find(|(root, _)| *root == name).and_then(|(_, to)| to.identity());
        let (at, receipt) = (led_to(root(account)), led_to(receipt(account)));
        let (at, receipt) = (at.ok_or("an account has gone")?, receipt.ok_or("a receipt has gone")?);
        let object = graph.object(at)?;
        let number = number_of(&object.data);
        if object.data[8..].iter().any(|&byte| byte != number as u8) {
            return Err(format!("account {account} holds {number}, and not in all its bytes").into());
        }
        let receipt_object = graph.object(receipt)?;
        let of_receipt = number_of(&receipt_object.data);
        let class = graph.class(receipt_object.class).ok_or("E21.9d: the class of a receipt is not defined")?;
        if receipt_object.class != 1 && number_of(&class) != number {
            return Err(format!("account {account} holds {number}, its receipt has another class").into());
        }
        if object.references[0] != receipt.into() || of_receipt != number {
            return Err(format!("account {account} holds {number}, its receipt says {of_receipt}").into());
        }
        numbers.push(number);
        accounts.push(at);
    }
    Ok((numbers, accounts))
}

impl Branches {
    fn open(&self, store: &Store) -> Outcome<Graph> {
        Ok(Graph::open_or_create(store, NAME, Options { cache_bytes: 1 << 20, ..Options::default() })?)
    }
}

impl Scenario for Branches {
    type State = State;
    type Roots = ();

    fn options(&self) -> cedrat_txn::Options {
        let simulated = cedrat_txn::Options::simulated();
        cedrat_txn::Options { log_limit_bytes: 16 << 20, partitions: 2, fault: self.fault, ..simulated }
    }

    /// Changes stay in the cache until it flushes them.
    fn reads_while_running(&self) -> bool {
        false
    }

    fn registry(&self) -> Registry {
        graph_common::registry()
    }

    fn set_up(&self, store: &Store) -> Outcome {
        let graph = self.open(store)?;
        graph.define_class(b"accounts and receipts")?;
        let mut changes = Changes::new();
        for account in 0..ACCOUNTS {
            let mut data = vec![BEGIN_WITH as u8; data_len(account)];
            data[..8].copy_from_slice(&BEGIN_WITH.to_le_bytes());
            let paper = changes.add(1, &BEGIN_WITH.to_le_bytes(), &[]);
            let object = changes.add(1, &data, &[paper]);
            changes.set_root(&root(account), object).set_root(&receipt(account), paper);
        }
        graph.commit(&changes, Mode::Sync)?;
        Ok(())
    }

    fn run(&self, run: &Run<Branches>, (): &()) -> Outcome {
        let graph = self.open(run.store())?;
        let (state, (_, accounts)) = (self.read(run.store(), &())?, read_all(&graph)?);
        let chance = run.rng(0);
        let mut teller = Teller { run, graph, accounts, state, hands: Vec::new(), collection: None, chance };
        (0..self.steps).try_for_each(|_| teller.step())
    }

    fn read(&self, store: &Store, (): &()) -> Outcome<State> {
        let (numbers, _) = read_all(&self.open(store)?)?;
        let in_doubt: Option<BTreeSet<Transfer>> =
            store.in_doubt().unwrap().iter().map(|branch| Transfer::of(&branch.id)).collect();
        Ok(State { numbers, in_doubt: in_doubt.ok_or("an unknown branch is in doubt")? })
    }

    fn check(&self, store: &Store, (): &()) -> Outcome {
        store.check()?;
        match self.open(store)?.check() {
            Ok(checked) if checked.is_sound() => Ok(()),
            Ok(checked) => Err(checked.problems.join("; ").into()),
            Err(error) if is_in_doubt(&error) && !store.in_doubt().unwrap().is_empty() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn passes(check: check::Crashes<Branches>) {
    check.seed(check::seed(1)).run().unwrap_or_else(|failure| panic!("{failure}")).print();
}

#[test]
fn transfers_in_two_phases_survive_every_crash() {
    passes(check::crashes("graph-prepared", Branches { steps: 90, fault: None }).at_least(2_500).again(10, 60));
}

/// E9.1, R5: each failure while branches are restored.
#[test]
fn branches_survive_faults_of_openings() {
    let branches = Branches { steps: 30, fault: None };
    let check = check::openings("graph-prepared-openings", branches).seed(check::seed(1)).bases(2).every(16);
    check.run().unwrap_or_else(|failure| panic!("{failure}")).print();
}

/// Asserts that a planted fault is found, for the expected reason.
#[track_caller]
fn caught(fault: Fault, because: &str) {
    let check = check::crashes(&format!("planted-graph-{fault:?}"), Branches { steps: 90, fault: Some(fault) });
    let failure = check.at_least(2_000).again(10, 60).run().expect_err("the planted fault must be caught").to_string();
    println!("{failure}");
    assert!(failure.contains(because), "another mistake was found than was planted: {failure}");
}

/// E9.2: a vote to commit is a durable promise.
#[test]
fn a_vote_before_the_disk_is_missed() {
    caught(Fault::PrepareNotForced, "an acknowledged commit is lost");
}

/// E9.3: a root that is read without its lock leads to an object that must be invisible.
#[test]
fn locks_that_are_not_restored_are_missed() {
    caught(Fault::LocksNotRestored, "the graph has no object");
}
