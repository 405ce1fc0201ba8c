//! Operations, transactions, nested top actions, locks and recovery: the definition of a change, and its atomicity
//! (Lemon §3, §4).
//!
//! | task | interface |
//! |---|---|
//! | define a change of one page | [`Operation`] |
//! | define its undo | [`Undo`]; by meaning: [`LogicalUndo`]; by completing it: [`Finish`] |
//! | register definitions with a store | [`Registry`] |
//! | open a store, which recovers it | [`Store::open`] |
//! | change pages | [`Store::transact`], [`Store::begin`] → [`Txn`] |
//! | change several pages as one | [`Txn::nested`], [`Txn::isolated`], [`Txn::ordered`] |
//! | change records that you keep in memory, and pages later | [`object_cache`] |
//! | commit together with other stores | [`Txn::prepare`], [`Store::in_doubt`] |
//! | follow committed transactions | [`Store::changes`], [`Store::consumer`] |
//! | isolate transactions | [`LockManager`]: [`PageLocks`], [`NoLocks`], or your own |
//!
//! The path of a record through these modules is in `docs/inside/walk.md`, recovery in `docs/inside/recovery.md`.

#![forbid(unsafe_code)]

mod archive;
mod as_of;
mod backup;
mod backup_stream;
mod body;
mod branch;
mod branches;
mod builtin;
mod by_txn;
mod carry;
mod chain;
mod changes;
mod check;
mod check_backup;
mod checkpoint;
mod claim;
mod committing;
mod consumers;
mod counts;
mod deferred;
mod encode;
mod encryption;
mod error;
mod explain;
mod heuristic;
mod holder;
mod in_doubt;
mod increment;
mod known_backups;
mod limits;
mod locking;
pub mod locks;
#[cfg(feature = "metrics")]
mod metrics;
mod mixed;
mod nested;
pub mod object_cache;
mod opening;
mod operation;
mod options;
mod pace;
mod pins;
mod prepared;
mod reader;
mod rebuild;
mod recovery;
mod registry;
mod rehearse;
mod remaining_log;
mod replicas;
mod report;
mod residents;
mod restore;
mod rollback;
mod savepoint;
mod schema;
mod scrub;
mod small_bytes;
mod space;
mod store;
mod table;
mod trace;
mod transaction;
mod undo;
mod update;
mod upkeep;

pub use archive::{ArchiveStatus, ForgetBefore, forget_archive};
pub use as_of::{View, open_as_of};
pub use backup::{BackupOptions, BackupProgress, BackupReport};
pub use backup_stream::restore_stream;
pub use body::CARRIED;
pub use branch::BRANCH_ID_LEN_MAX;
pub use builtin::{
    FixedRestore, FixedSet, FixedSetCount, FormatFixed, FormatFresh, FormatPage, RestorePage, SetRange, SetSpace,
    SetSpaceScattered, SlottedDelete, SlottedInsert, SlottedUpdate, VersionedDelete, VersionedInsert, VersionedUpdate,
    VersionedWithdraw,
};
pub use chain::BackupChain;
pub use changes::{Change, ChangeSet, ChangeStream, Meaning, StreamToken};
pub use check_backup::{BackupCheck, check_backup};
pub use consumers::{CONSUMERS_FILE, Consumer, ConsumerOptions, ConsumerStatus, consumers_of};
pub use error::{BranchError, Error, OpenError, Result};
pub use explain::{Explained, Explainer};
pub use heuristic::{HeuristicBranch, HeuristicOutcome, OUTCOME};
pub use increment::INCREMENT_FILE;
pub use known_backups::BACKUPS_FILE;
pub use limits::{Clock, SystemClock};
pub use locks::{
    Deadlock, HasStopped, LockCounts, LockManager, LockMode, LockState, LockWait, NoLocks, NotGiven, PageLockOptions,
    PageLocks, Refusal, Resource, WaitPolicy,
};
#[cfg(feature = "metrics")]
pub use metrics::{METRICS, Metric};
pub use nested::LatchGuard;
pub use opening::Opening;
pub use operation::{Finish, LogicalUndo, Operation, RecordId, Refused};
#[cfg(feature = "planted-faults")]
pub use options::Fault;
pub use options::Options;
pub use pins::{Pin, PinHolder, Pins};
pub use prepared::{InDoubt, Prepared, Vote};
pub use reader::{MediaSource, Reader, ReaderFiles};
pub use registry::Registry;
pub use rehearse::Rehearsal;
pub use remaining_log::{RemainingLog, archive_remaining_log};
pub use replicas::{
    FollowProgress, Follower, Quorum, REPLICA_FILE, ReplicaError, ReplicaFiles, ReplicaOptions, ReplicaServer,
    ReplicaStatus, promote,
};
pub use report::{CheckReport, Progress, RecoveryReport, Undone};
pub use restore::{RestoreReport, RestoreTarget, restore};
pub use savepoint::Savepoint;
pub use schema::of as schema_of;
pub use scrub::{ScrubOptions, ScrubProgress, ScrubReport};
pub use small_bytes::{INLINE_LEN_MAX, SmallBytes};
pub use space::{GROUP_PAGES, REGION_PAGES_MAX, SCATTERED_LOG_BYTES, SCATTERED_PAGES, SPACE_MAP, UNDO_PAGES};
pub use store::{CATALOGUE, LOCK_FILE, Store};
pub use transaction::{Commit, Txn, TxnOptions};
pub use undo::Undo;
pub use upkeep::{SettledChanges, Upkeep, UpkeepProgress};
