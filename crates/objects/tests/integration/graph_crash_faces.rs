//! Transfers between an object, a record in pages and a word of a heap, with one commit record each, under crashes.
#![cfg(not(cedrat_shuttle))] // threads: graph_threads.rs

use cedrat_check as check;
use cedrat_check::{Outcome, Run, Scenario};
use cedrat_heap::{Heap, HeapOptions};
use cedrat_objects::graph::{Changes, Graph, GraphError, Identity, Mode, Options, Reference};
use cedrat_structures::Records;
use cedrat_txn::{Commit, Error, RecordId, Registry, Store, Txn, TxnOptions};

use crate::graph_common::{self, NAME};

/// Place of a part of the money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Money {
    in_object: u64,
    in_record: u64,
    in_word: u64,
}

impl Money {
    fn total(self) -> u64 {
        self.in_object + self.in_record + self.in_word
    }

    /// The places, in the order of their numbers.
    fn places(&mut self) -> [&mut u64; 3] {
        [&mut self.in_object, &mut self.in_record, &mut self.in_word]
    }
}

const TOTAL: u64 = 3_000;

#[derive(Clone, Debug)]
struct Faces {
    steps: u64,
    options: fn() -> cedrat_txn::Options,
}

/// Handles of an opening.
struct Open {
    graph: Graph,
    object: Identity,
    records: Records,
    record: RecordId,
    heap: Heap,
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

impl Open {
    fn find(store: &Store) -> Outcome<Open> {
        let graph = Graph::open(store, NAME, Options::default())?;
        let object = graph.root("object")?.and_then(Reference::identity).ok_or("the root leads nowhere")?;
        let (records, record) = store.transact(|txn| {
            let records = Records::open(txn, "records")?;
            let record = records.all(txn)?[0].0;
            Ok((records, record))
        })?;
        Ok(Open { graph, object, records, record, heap: store.memory().heap("heap")? })
    }

    fn read(&self, store: &Store) -> Outcome<Money> {
        let in_object = word(&self.graph.object(self.object)?.data[..8]);
        let (in_record, in_word) = store.transact(|txn| {
            let in_record = word(&self.records.read(txn, self.record)?);
            Ok((in_record, txn.heap(|tx| tx.read(&self.heap, 64))?))
        })?;
        Ok(Money { in_object, in_record, in_word })
    }

    /// Writes all places except the object.
    fn write(&self, txn: &mut Txn, money: Money) -> cedrat_txn::Result<()> {
        self.records.update(txn, self.record, &money.in_record.to_le_bytes())?;
        txn.heap(|tx| tx.write(&self.heap, 64, money.in_word))
    }

    fn changes(&self, money: Money) -> Changes {
        let mut changes = Changes::new();
        changes.patch(self.object, 8, &money.in_object.to_le_bytes());
        changes
    }
}

impl Scenario for Faces {
    type State = Money;
    type Roots = ();

    fn options(&self) -> cedrat_txn::Options {
        (self.options)()
    }

    /// Changes stay in the cache until it flushes them.
    fn reads_while_running(&self) -> bool {
        false
    }

    fn registry(&self) -> Registry {
        graph_common::registry()
    }

    fn set_up(&self, store: &Store) -> Outcome {
        let graph = Graph::create(store, NAME, Options::default())?;
        graph.define_class(b"money")?;
        let mut changes = Changes::new();
        let object = changes.add(1, &TOTAL.to_le_bytes(), &[]);
        changes.set_root("object", object);
        graph.commit(&changes, Mode::Sync)?;
        store.transact(|txn| Records::create(txn, "records")?.insert(txn, &0_u64.to_le_bytes()))?;
        store.memory().create_heap("heap", &HeapOptions::raw(1 << 16))?;
        Ok(())
    }

    fn run(&self, run: &Run<Faces>, (): &()) -> Outcome {
        let open = Open::find(run.store())?;
        let mut money = open.read(run.store())?;
        let mut chance = run.rng(0);
        for _ in 0..self.steps {
            let mut next = money;
            let (from, to) = (chance.below(3) as usize, chance.below(3) as usize);
            let sum = chance.below(*next.places()[from] + 1);
            *next.places()[from] -= sum;
            *next.places()[to] += sum;
            let mut txn = run.store().begin();
            if chance.one_in(4) {
                // A rollback leaves nothing behind.
                let before = txn.savepoint();
                open.write(&mut txn, Money::default())?;
                txn.rollback_to(before)?;
            }
            open.write(&mut txn, next)?;
            match chance.below(8) {
                0 => txn.rollback()?,
                1 => {
                    let mut refused = open.changes(next);
                    refused.patch(open.object, 0, &[0; 8]);
                    let error =
                        open.graph.commit_with(txn, &refused, Mode::Async, 0).expect_err("a patch of the class");
                    if GraphError::of(&error).is_none() {
                        return Err(error.into());
                    }
                }
                _ => {
                    let commit =
                        || Ok(open.graph.commit_with(txn, open.changes(next), Mode::Async, 0)?.ticket().clone());
                    let ticket = run.commits(commit, move |state| *state = next)?;
                    money = next;
                    if chance.one_in(3) {
                        run.acknowledge(&ticket)?;
                    }
                }
            }
            match chance.below(12) {
                0 => open.graph.flush()?,
                1 => run.store().checkpoint()?,
                _ => {}
            }
        }
        Ok(())
    }

    fn read(&self, store: &Store, (): &()) -> Outcome<Money> {
        let money = Open::find(store)?.read(store)?;
        if money.total() == TOTAL { Ok(money) } else { Err(format!("{money:?} is not {TOTAL}").into()) }
    }

    fn check(&self, store: &Store, (): &()) -> Outcome {
        let checked = Open::find(store)?.graph.check()?;
        if checked.is_sound() { Ok(()) } else { Err(checked.problems.join("; ").into()) }
    }
}

/// E10.8: objects, pages and words are committed by one record.
#[test]
fn mixed_transfers_survive_every_crash() {
    let options = || cedrat_txn::Options { log_limit_bytes: 16 << 20, ..cedrat_txn::Options::simulated() };
    let faces = Faces { steps: 120, options };
    let check = check::crashes("graph-faces", faces).at_least(3_000).again(8, 60).seed(check::seed(1));
    check.run().unwrap_or_else(|failure| panic!("{failure}")).print();
}

/// E10.8: if the objects are refused, the record and the word are rolled back.
#[test]
fn refused_objects_take_record_and_word_along() {
    let place = graph_common::place();
    let store = place.graph.store();
    let records = store.transact(|txn| Records::create(txn, "records")).unwrap();
    let words = store.memory().create_heap("words", &HeapOptions::raw(4096)).unwrap();
    let id = place.add(b"as it is", &[]);
    let absent = Identity::new(id.get() + 100).unwrap();
    let mut txn = store.begin();
    let record = records.insert(&mut txn, b"gone").unwrap();
    txn.heap(|tx| tx.write(&words, 0, 7)).unwrap();
    let refused = place.graph.commit_with(txn, Changes::new().patch(absent, 8, b"changed!"), Mode::Sync, 0);
    assert!(refused.is_err());
    let mut txn = store.begin();
    assert!(records.read(&mut txn, record).is_err(), "E10.8");
    assert_eq!(words.atomically(|tx| tx.read(&words, 0)).unwrap(), 0, "E10.8");
}

#[test]
fn a_transaction_of_another_store_is_refused() {
    let (here, there) = (graph_common::place(), graph_common::place());
    let records = there.graph.store().transact(|txn| Records::create(txn, "records")).unwrap();
    let mut txn = there.graph.store().begin();
    let record = records.insert(&mut txn, b"gone").unwrap();
    let refused = here.graph.commit_with(txn, Changes::new(), Mode::Sync, 0);
    assert!(matches!(refused, Err(Error::Misuse(_))));
    let mut txn = there.graph.store().begin();
    assert!(records.read(&mut txn, record).is_err(), "it was rolled back");
    txn.commit(Commit::Sync).unwrap();
}

/// E21.1: such a transaction could not be undone if a later entry is refused, and others would see its changes before.
#[test]
fn transaction_without_atomicity_or_isolation_is_refused() {
    let place = graph_common::place();
    let id = place.add(b"as it is", &[]);
    let absent = Identity::new(id.get() + 100).unwrap();
    let mut changes = Changes::new();
    changes.add(1, b"new", &[]);
    changes.patch(id, 8, b"changed!").patch(absent, 8, b"changed!");
    for options in [TxnOptions::default().without_atomicity(), TxnOptions::default().without_isolation()] {
        for changes in [&changes, &Changes::new()] {
            let txn = place.graph.store().begin_with(options);
            let refused = place.graph.commit_with(txn, changes, Mode::Sync, 9);
            assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
            assert_eq!(place.object(id).data, b"as it is");
        }
    }
    place.check();
}
