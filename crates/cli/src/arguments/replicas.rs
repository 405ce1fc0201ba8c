//! Arguments of replicas.

use std::path::PathBuf;

use clap::Args;

/// Follow a store: make a replica of it, and keep it as new as the store.
///
/// The program that has the store open serves replicas, with the crate cedrat-replication. FROM is the
/// folder of a store on this machine, or HOST:PORT; then both sides show certificates (TLS).
///
/// The replica has a backup of the store (TO/base) and an archive of its log (TO/archive). Connections that
/// end are made again. May be killed at any time.
///
/// Exit code 0 with --once, if the replica has what the store had; 1 if the replica is refused, with the reason.
#[derive(Debug, Args)]
pub(crate) struct Follow {
    /// The store's folder, or HOST:PORT
    #[arg(value_name = "FROM")]
    pub(crate) from: PathBuf,

    /// The folder of the replica: one that was begun before, or an empty or new one
    #[arg(value_name = "TO")]
    pub(crate) to: PathBuf,

    /// The name by which the store knows this replica; each has one of its own
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,

    /// For HOST:PORT, a file in PEM form: the certificate of this side, and those between it and its authority
    #[arg(long, value_name = "FILE", requires = "key", requires = "authority")]
    pub(crate) certificate: Option<PathBuf>,

    /// For HOST:PORT, a file in PEM form: the private key of the certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,

    /// For HOST:PORT, a file in PEM form: the authorities that the certificate of the store may be of
    #[arg(long, value_name = "FILE")]
    pub(crate) authority: Option<PathBuf>,

    /// End when the replica has what the store had when it connected, and do not connect again
    #[arg(long)]
    pub(crate) once: bool,

    /// Print one JSON object for each line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Make a store of a replica, after its own store was lost.
///
/// The replica is restored to its newest record, and follows no store from then on. The new store
/// continues the history with one of its own: never let the old one run beside it.
///
/// Exit code 0 if NEW is a store; otherwise 1, and the promotion may be repeated to another folder.
#[derive(Debug, Args)]
pub(crate) struct Promote {
    /// The folder of the replica
    #[arg(value_name = "REPLICA")]
    pub(crate) replica: PathBuf,

    /// The folder of the new store, which is empty or does not exist
    #[arg(value_name = "NEW")]
    pub(crate) to: PathBuf,

    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
