//! `cedrat resolve`: an operator tells a prepared transaction its outcome.

use cedrat::Commit;
use cedrat::txn::{BranchError, Error, Options};

use crate::arguments::{Resolve, ResolveOutcome};
use crate::look::Looked;
use crate::output::{self, Context, Failure, Outcome};

/// Tells a prepared transaction its outcome.
pub(crate) fn resolve(arguments: &Resolve) -> Outcome {
    let id = bytes_of(&arguments.id)?;
    // A store without such a transaction is refused before it is opened, which writes.
    let in_doubt = Looked::at(&arguments.directory)?.in_doubt()?;
    if !in_doubt.iter().any(|branch| branch.id == id) {
        return Err(Error::from(BranchError::Unknown { id: arguments.id.clone() }).into());
    }
    output::note(
        "warning: the transaction manager that has asked this transaction to prepare may have given other stores another \
        outcome; this cannot be taken back",
    );
    let options = Options { create: false, ..Options::default() };
    let store = cedrat::open_with(&arguments.directory, options, crate::registry()).while_doing("opening the store")?;
    let prepared = store.prepared(&id)?;
    let was = match arguments.outcome {
        ResolveOutcome::Commit => {
            prepared.commit(Commit::Sync)?;
            "committed"
        }
        ResolveOutcome::Rollback => {
            prepared.rollback()?;
            "rolled back"
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
