//! The prepared transactions of a store, by their identifiers and by their numbers.

use std::collections::{BTreeMap, HashMap};

use cedrat_sync::{Arc, Condvar, Mutex};
use cedrat_wal::{Lsn, TxnId};

use crate::error::{BranchError, Result};
use crate::explain::hexadecimal;
use crate::in_doubt::Left;
use crate::locks::Words;
use crate::prepared::{InDoubt, Parked};

/// All prepared transactions of a store, by their identifiers.
#[derive(Debug, Default)]
pub(crate) struct Branches {
    known: Mutex<Index>,
    /// Signals that a checkpoint has returned a borrowed transaction.
    returned: Condvar,
}

/// Prepared transactions by both of their names.
#[derive(Debug, Default)]
struct Index {
    by_id: BTreeMap<Vec<u8>, Known>,
    /// The identifier of each transaction.
    ids: HashMap<TxnId, Vec<u8>, Words>,
}

impl Index {
    fn insert(&mut self, id: &[u8], known: Known) {
        self.ids.insert(known.txn, id.to_vec());
        self.by_id.insert(id.to_vec(), known);
    }

    fn remove(&mut self, id: &[u8]) {
        if let Some(known) = self.by_id.remove(id) {
            self.ids.remove(&known.txn);
        }
    }

    fn of_txn(&self, txn: TxnId) -> Option<&Known> {
        self.by_id.get(self.ids.get(&txn)?)
    }
}

#[derive(Debug)]
struct Known {
    txn: TxnId,
    state: State,
    /// The state that recovery found; present only if it prepared in an earlier opening.
    left: Option<Arc<Left>>,
}

#[derive(Debug)]
pub(crate) enum State {
    /// Its prepare record is not yet durable.
    Preparing,
    /// It is prepared.
    InDoubt {
        since: Lsn,
        /// A [`Prepared`] handle exists.
        is_held: bool,
        /// The parked transaction; `None` while a checkpoint carries its records forward, or it is being ended.
        parked: Option<Box<Parked>>,
    },
    /// The outcome is certain, and the branch cannot be resolved by its identifier any more. The entry stays until its
    /// changes are in pages.
    Ending(Lsn),
}

impl Branches {
    /// Reserves this identifier: no other transaction prepares under it (E9.8).
    pub(crate) fn enter(&self, id: &[u8], txn: TxnId) -> Result<()> {
        let mut known = self.known.lock();
        if known.by_id.contains_key(id) {
            return Err(BranchError::Exists { id: hexadecimal(id) }.into());
        }
        known.insert(id, Known { txn, state: State::Preparing, left: None });
        Ok(())
    }

    pub(crate) fn is(&self, id: &[u8], state: State) {
        if let Some(known) = self.known.lock().by_id.get_mut(id) {
            known.state = state;
        }
    }

    /// Returns the identifier under which a transaction has prepared, or prepares.
    pub(crate) fn identifier_of(&self, txn: TxnId) -> Option<Vec<u8>> {
        self.known.lock().ids.get(&txn).cloned()
    }

    pub(crate) fn leave(&self, id: &[u8]) {
        self.known.lock().remove(id);
    }

    /// Gives the handle of the branch to the first caller.
    pub(crate) fn take_up(&self, id: &[u8]) -> Result<(Lsn, TxnId)> {
        let mut branches = self.known.lock();
        match branches.by_id.get_mut(id) {
            Some(Known { state: State::InDoubt { is_held: true, .. }, .. }) => {
                Err(BranchError::Held { id: hexadecimal(id) }.into())
            }
            Some(Known { state: State::InDoubt { since, is_held, .. }, txn, .. }) => {
                *is_held = true;
                Ok((*since, *txn))
            }
            _ => Err(BranchError::Unknown { id: hexadecimal(id) }.into()),
        }
    }

    /// Takes the parked transaction to end it. Waits while a checkpoint has borrowed it.
    pub(crate) fn take_parked(&self, id: &[u8]) -> Option<Box<Parked>> {
        let mut branches = self.known.lock();
        loop {
            match &mut branches.by_id.get_mut(id)?.state {
                State::InDoubt { parked: parked @ Some(_), .. } => return parked.take(),
                State::InDoubt { parked: None, .. } => self.returned.wait(&mut branches),
                State::Preparing | State::Ending(_) => return None,
            }
        }
    }

    /// Lends the parked transaction to a checkpoint; `None` if it is being ended.
    pub(crate) fn borrow_parked(&self, id: &[u8]) -> Option<(Lsn, Box<Parked>)> {
        match &mut self.known.lock().by_id.get_mut(id)?.state {
            State::InDoubt { since, parked, .. } => Some((*since, parked.take()?)),
            _ => None,
        }
    }

    /// Returns what was borrowed, or taken to be ended.
    pub(crate) fn give_back(&self, id: &[u8], back: Option<Box<Parked>>) {
        if let Some(Known { state: State::InDoubt { parked, .. }, .. }) = self.known.lock().by_id.get_mut(id) {
            *parked = back;
        }
        self.returned.notify_all();
    }

    /// Marks that no handle has the branch any more.
    pub(crate) fn let_go(&self, id: &[u8]) {
        if let Some(Known { state: State::InDoubt { is_held, .. }, .. }) = self.known.lock().by_id.get_mut(id) {
            *is_held = false;
        }
    }

    /// Returns all identifiers.
    pub(crate) fn ids(&self) -> Vec<Vec<u8>> {
        self.known.lock().by_id.keys().cloned().collect()
    }

    pub(crate) fn in_doubt(&self) -> Vec<InDoubt> {
        let branches = self.known.lock();
        let mut all: Vec<InDoubt> = branches.by_id.iter().filter_map(|(id, known)| known.listed(id)).collect();
        all.sort_unstable_by_key(|branch| branch.since);
        all
    }

    /// Returns the application's records of branches of earlier openings that are in doubt or have not completely ended
    /// (E21.9).
    pub(crate) fn noted(&self, kind: u32) -> Vec<(InDoubt, Vec<Vec<u8>>)> {
        let branches = self.known.lock();
        let noted = |(id, known): (&Vec<u8>, &Known)| {
            let (State::InDoubt { since, .. } | State::Ending(since)) = known.state else { return None };
            Some((InDoubt { id: id.clone(), txn: known.txn, since }, known.left.as_ref()?.noted(kind)))
        };
        let mut all: Vec<_> = branches.by_id.iter().filter_map(noted).collect();
        all.sort_unstable_by_key(|(branch, _)| branch.since);
        all
    }

    /// Whether this transaction is prepared and its outcome is open.
    pub(crate) fn is_held(&self, txn: TxnId) -> bool {
        self.known.lock().of_txn(txn).is_some_and(|known| known.since().is_some())
    }

    /// Whether this transaction is prepared and has not completely ended.
    pub(crate) fn is_there(&self, txn: TxnId) -> bool {
        self.known.lock().of_txn(txn).is_some_and(|known| !matches!(known.state, State::Preparing))
    }

    /// Returns its identifier in hexadecimal digits; an empty string if it has just ended.
    pub(crate) fn id_of(&self, txn: TxnId) -> String {
        self.known.lock().ids.get(&txn).map_or_else(String::new, |id| hexadecimal(id))
    }

    pub(crate) fn restored(&self, id: &[u8], since: Lsn, parked: Box<Parked>, left: Arc<Left>) {
        if let Some(known) = self.known.lock().by_id.get_mut(id) {
            known.state = State::InDoubt { since, is_held: false, parked: Some(parked) };
            known.left = Some(left);
        }
    }
}

impl Known {
    /// Returns the LSN at which it prepared, if it is in doubt.
    fn since(&self) -> Option<Lsn> {
        match self.state {
            State::Preparing | State::Ending(_) => None,
            State::InDoubt { since, .. } => Some(since),
        }
    }

    fn listed(&self, id: &[u8]) -> Option<InDoubt> {
        Some(InDoubt { id: id.to_vec(), txn: self.txn, since: self.since()? })
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use super::*;
    use crate::error::Error;

    /// A lookup by number uses both maps, and agrees with a scan of all branches.
    #[test]
    fn branches_are_found_by_number() {
        let branches = Branches::default();
        let id = |number: u64| number.to_le_bytes();
        (1..=2000).for_each(|number| branches.enter(&id(number), TxnId(number)).unwrap());
        assert!(matches!(branches.enter(&id(7), TxnId(3000)), Err(Error::Branch(BranchError::Exists { .. }))), "E9.8");
        (1..=2000).filter(|number| number % 2 == 0).for_each(|number| branches.leave(&id(number)));
        branches.is(&id(9), State::InDoubt { since: Lsn::new(5), is_held: false, parked: None });
        branches.is(&id(11), State::Ending(Lsn::new(6)));
        for number in 0..=2001 {
            let is_known = number % 2 == 1 && number <= 2000;
            assert_eq!(branches.id_of(TxnId(number)), if is_known { hexadecimal(&id(number)) } else { String::new() });
            assert_eq!(branches.is_held(TxnId(number)), number == 9);
            assert_eq!(branches.is_there(TxnId(number)), number == 9 || number == 11);
        }
        let index = branches.known.lock();
        assert_eq!((index.by_id.len(), index.ids.len()), (1000, 1000), "one entry of each map for each branch");
    }
}
