//! Positions in a change stream.

use std::fmt;
use std::str::FromStr;

use cedrat_wal::{Lsn, StoreId};

use crate::error::Error;

/// A position in the change stream of one store, from which it can be resumed (E23.3).
///
/// It has a form for files ([`to_bytes`](StreamToken::to_bytes)) and one for people (`Display` and `FromStr`). A consumer
/// that keeps what it derives in the same store writes the token to a structure in the same transaction: then it processes
/// each transaction exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamToken {
    pub(crate) store: StoreId,
    pub(crate) position: Lsn,
    pub(crate) needs: Lsn,
}

/// The length of a token's bytes.
const LEN: usize = 32;

const NO_TOKEN: Error = Error::Misuse("these bytes are no token of a change stream");

impl StreamToken {
    /// Returns the LSN up to which all commits were delivered.
    pub fn position(&self) -> Lsn {
        self.position
    }

    /// Returns the LSN of the first record that is needed to resume: transactions may have begun before the position and commit
    /// after it.
    pub fn needs(&self) -> Lsn {
        self.needs
    }

    /// Returns the token as bytes.
    pub fn to_bytes(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..16].copy_from_slice(&self.store);
        bytes[16..24].copy_from_slice(&self.position.get().to_le_bytes());
        bytes[24..].copy_from_slice(&self.needs.get().to_le_bytes());
        bytes
    }

    /// Returns the token of these bytes.
    ///
    /// # Errors
    /// [`Error::Misuse`] for other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<StreamToken, Error> {
        let bytes: &[u8; LEN] = bytes.try_into().map_err(|_| NO_TOKEN)?;
        let (store, numbers) = bytes.split_first_chunk::<16>().expect("it has 32 bytes");
        let number = |at: usize| u64::from_le_bytes(numbers[at..at + 8].try_into().expect("eight bytes"));
        let (position, needs) = (Lsn::new(number(0)), Lsn::new(number(8)));
        if position >= Lsn::MAX || needs > position.next() {
            return Err(NO_TOKEN);
        }
        Ok(StreamToken { store: *store, position, needs })
    }
}

impl fmt::Display for StreamToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for StreamToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<StreamToken, Error> {
        let byte = |at: usize| text.get(2 * at..2 * at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let bytes: Option<Vec<u8>> = (0..LEN).map(byte).collect();
        StreamToken::from_bytes(&bytes.filter(|_| text.len() == 2 * LEN).ok_or(NO_TOKEN)?)
    }
}
