//! The reasons why a replica and its store part, by name.

use std::io;

use cedrat_wal::{Lsn, StoreId};

/// The reason why the connection of a replica ended, or was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicaError {
    /// The connection has ended, or its bytes are cut off. Connect again: the replica continues where it was.
    #[error("the connection of the replica ended at frame {frame}: {source}; connect again")]
    Torn {
        /// The number of the frame that was to be read or written.
        frame: u64,
        /// The error of the connection.
        source: io::Error,
    },
    /// Bytes were changed, lost or repeated on the way. Nothing of the frame was used. Connect again.
    #[error("frame {frame} of the connection of the replica is invalid: {what}; connect again")]
    Invalid {
        /// The number of the expected frame.
        frame: u64,
        /// The fault.
        what: String,
    },
    /// The other side speaks a version of the protocol, or has a format of the log, that this one does not know.
    #[error(
        "the replica's protocol or log has version {found}, and version {known} is known here; use the newer program on both sides"
    )]
    Version {
        /// The version of the other side.
        found: u32,
        /// The version of this side.
        known: u32,
    },
    /// The replica is one of another store. Follow its own store, or begin a replica in another directory.
    #[error(
        "the replica is of store {}, and the other side is store {}: follow the replica's own store, or begin another replica in an \
         empty directory", hexadecimal(.replica), hexadecimal(.store)
    )]
    OtherStore {
        /// The store of the replica.
        replica: StoreId,
        /// The store that was to be followed.
        store: StoreId,
    },
    /// The store was restored or promoted from an older state than the replica has, or the replica follows another one that was.
    #[error(
        "the replica has records of another history of the store, up to LSN {}: the store was restored, or a replica promoted; follow the \
         store that continues this history, or begin another replica in an empty directory", .up_to.get()
    )]
    OtherHistory {
        /// The LSN up to which the replica has all records.
        up_to: Lsn,
    },
    /// The store has recycled log that the replica lacks: it was away for too long.
    #[error(
        "the replica has the log up to LSN {}, and the store keeps it from LSN {} on: begin another replica in an empty directory, and \
         raise the limit of the log that the store keeps for it", .up_to.get(), .kept_from.get()
    )]
    Gap {
        /// The LSN up to which the replica has all records.
        up_to: Lsn,
        /// The LSN from which on the store has all records.
        kept_from: Lsn,
    },
    /// Another replica with the same name has connected.
    #[error("another connection has the name \"{name}\" of this replica: give each replica a name of its own")]
    Replaced {
        /// The name.
        name: String,
    },
    /// The store serves no replica of this name, or none at all. Another connection is refused, too.
    #[error("the store does not serve this replica: {why}")]
    NotServed {
        /// The reason of the store.
        why: String,
    },
    /// The other side has ended the connection for another reason. The next one may succeed.
    #[error("the other side ended the connection of the replica: {why}")]
    Refused {
        /// Its reason.
        why: String,
    },
    /// The directory has no replica that could be used.
    #[error("{file}: this is no complete replica: {why}")]
    NoReplica {
        /// The file that marks a replica.
        file: String,
        /// The reason.
        why: &'static str,
    },
    /// The replica was promoted: it is the beginning of another history.
    #[error(
        "{file}: this replica was promoted, and follows no store any more; begin another replica in an empty directory"
    )]
    Promoted {
        /// The file that marks a replica.
        file: String,
    },
    /// The transaction has committed in the store, and not enough replicas have confirmed that they have it. It is not rolled back, and
    /// will reach them when they connect.
    #[error(
        "LSN {} is committed in the store, and {have} of {wanted} replicas have confirmed it within {} ms: do not run the transaction \
         again; connect the missing replicas, or wait for fewer", .lsn.get(), .waited.as_millis()
    )]
    NotReplicated {
        /// The LSN.
        lsn: Lsn,
        /// The number of replicas that have it.
        have: usize,
        /// The number of replicas that are to have it.
        wanted: usize,
        /// The time that was waited.
        waited: std::time::Duration,
    },
}

fn hexadecimal(store: &StoreId) -> String {
    store.iter().map(|byte| format!("{byte:02x}")).collect()
}
