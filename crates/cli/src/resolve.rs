//! `cedrat resolve`: an operator ends a prepared transaction, or forgets the outcome of one.

use cedrat::txn::{BranchError, Error, HeuristicOutcome};

use crate::arguments::{Resolve, ResolveOutcome};
use crate::disks::Disks;
use crate::look::{self, Looked};
use crate::output::{self, Failure, Outcome};

/// Tells a prepared transaction its outcome.
pub(crate) fn resolve(arguments: &Resolve, disks: &Disks) -> Outcome {
    let id = bytes_of(&arguments.id)?;
    // A store without such a transaction is refused before it is opened, which writes.
    let looked = Looked::at(&arguments.directory, disks)?;
    let is_forgotten = arguments.outcome == ResolveOutcome::Forget;
    let is_known = if is_forgotten {
        looked.heuristic()?.iter().any(|branch| branch.id == id)
    } else {
        looked.in_doubt()?.iter().any(|branch| branch.id == id)
    };
    drop(looked);
    if !is_known {
        let id = arguments.id.clone();
        let why = if is_forgotten { BranchError::NoOutcome { id } } else { BranchError::Unknown { id } };
        return Err(Error::from(why).into());
    }
    if !is_forgotten {
        output::note(
            "warning: the transaction manager that has asked this transaction to prepare may have given other stores \
             another outcome; this cannot be taken back",
        );
    }
    let store = look::open_to_change(&arguments.directory, arguments.archive.as_deref(), disks)?;
    let was = match arguments.outcome {
        ResolveOutcome::Commit => {
            store.prepared(&id)?.resolve(HeuristicOutcome::Committed)?;
            "committed"
        }
        ResolveOutcome::Rollback => {
            store.prepared(&id)?.resolve(HeuristicOutcome::RolledBack)?;
            "rolled back"
        }
        ResolveOutcome::Forget => {
            store.forget_heuristic(&id)?;
            "forgotten"
        }
    };
    store.close()?;
    output::rows(&[("transaction", arguments.id.clone()), ("was", was.to_owned())])
}

fn bytes_of(digits: &str) -> Result<Vec<u8>, Failure> {
    let wrong =
        || Failure(format!("{digits} is no identifier: an even number of hexadecimal digits, as `cedrat info` prints"));
    let pairs = digits.as_bytes().as_chunks::<2>();
    // The conversion would take a sign for a digit.
    if !pairs.1.is_empty() || digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.0.iter().map(byte).collect::<Option<_>>().ok_or_else(wrong)
}
