//! The identity of an opening, for handles that keep its state in memory.

use std::hash::{BuildHasher, RandomState};

use cedrat_sync::planted;

use crate::error::{Error, Result};
use crate::store::Store;

/// The identity of an opening of a store. Handles that keep state of an opening in memory store it, and refuse
/// transactions of any other opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening(u64);

impl Opening {
    /// Returns a new identity, from the randomness that seeds the standard library's hash maps.
    pub(crate) fn new() -> Opening {
        Opening(RandomState::new().hash_one(std::process::id()))
    }
}

impl Store {
    /// Returns the identity of this opening of the store.
    #[inline]
    pub fn opening(&self) -> Opening {
        self.inner.opening
    }

    /// Refuses a handle of another opening.
    ///
    /// # Errors
    /// [`Error::Misuse`].
    #[inline]
    pub fn check_opening(&self, opening: Opening) -> Result<()> {
        if self.inner.opening == opening || planted!("handle_of_any_opening") { Ok(()) } else { Err(foreign()) }
    }
}

#[cold]
fn foreign() -> Error {
    Error::Misuse(
        "the handle is of another store, or of an opening of this one that has ended; open the structure again, in this store",
    )
}
