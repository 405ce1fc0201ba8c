//! Arguments of the subcommands that show and convert the content of a store.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::SystemTime;

use cedrat::txn::RestoreTarget;
use cedrat::wal::Lsn;
use clap::Args;
use jiff::Timestamp;

/// Store that is read: one that no program has open, or one as it was at a moment, from a backup.
#[derive(Debug, Args)]
pub(crate) struct Read {
    /// The store's folder
    #[arg(value_name = "DIR", required_unless_present = "as_of", conflicts_with_all = ["as_of", "backup", "archive"])]
    pub(crate) directory: Option<PathBuf>,

    /// Read the store as it was at this LSN, or at the last archived moment up to this time, such as 2026-11-28T21:14:07Z, or at
    /// the newest one: newest. The store itself may be open
    #[arg(long, value_name = "LSN|TIME", requires = "backup")]
    pub(crate) as_of: Option<Moment>,

    /// With --as-of: the folder of a full backup; repeat it for each of its increments, in their order
    #[arg(long, value_name = "BACKUP", requires = "as_of")]
    pub(crate) backup: Vec<PathBuf>,

    /// With --as-of: the folder of the store's archive, if the moment is later than the backup
    #[arg(long, value_name = "DIR", requires = "as_of")]
    pub(crate) archive: Option<PathBuf>,
}

/// Moment of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(pub(crate) RestoreTarget);

impl FromStr for Moment {
    type Err = String;

    fn from_str(given: &str) -> Result<Moment, String> {
        if given == "newest" {
            return Ok(Moment(RestoreTarget::Newest));
        }
        if let Ok(lsn) = given.parse() {
            return Ok(Moment(RestoreTarget::Lsn(Lsn::new(lsn))));
        }
        let time: Timestamp =
            given.parse().map_err(|error| format!("neither an LSN, nor newest, nor a time: {error}"))?;
        SystemTime::try_from(time).map(|time| Moment(RestoreTarget::Time(time))).map_err(|error| error.to_string())
    }
}

/// Attribute every byte of a store's files to its owner, without changing it.
///
/// Owners are the parts of the log, the structures that the catalogue names, free pages, pages that are allocated and that no
/// structure has, and the checkpoints of heaps. A store whose log still needs recovery is walked as recovery would leave it. It takes
/// as much memory as the heaps, and four bytes for each page.
///
/// Exit code 0 if all could be read and no structure has a problem; otherwise 1. The rest is printed nevertheless. Pages that no
/// structure has are listed, and do not change the exit code.
#[derive(Debug, Args)]
pub(crate) struct Space {
    /// The store's folder
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Tag of the values that name classes, in graphs [default: that of Java, in graphs of Java objects]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=254))]
    pub(crate) class_tag: Option<u8>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print one page, also if it is damaged: header, checksum, owner and records. Changes nothing.
///
/// The page is shown as it is in the page file. Its owner is found by a walk over the store as recovery leaves it.
///
/// Exit code 0 if the page is whole; otherwise 1, with file and offset of the damage.
#[derive(Debug, Args)]
pub(crate) struct Page {
    /// The store's folder
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// The number of the page
    #[arg(value_name = "NUMBER")]
    pub(crate) page: u64,

    /// Show the page as recovery leaves it
    #[arg(long)]
    pub(crate) recovered: bool,

    /// Show the bytes, even if the layout is known
    #[arg(long)]
    pub(crate) bytes: bool,

    /// Number of records to show
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) records: usize,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// List what keeps the log from being released, in a store that no program has open.
///
/// A program calls `Store::pins` for its open store: open transactions and running backups exist only there. The store is read
/// as recovery would leave it, and not changed.
///
/// Exit code 0 if the store could be read; otherwise 1.
#[derive(Debug, Args)]
pub(crate) struct Pins {
    /// The store's folder
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// The folder of the store's archive, if it has one
    #[arg(long, value_name = "DIR")]
    pub(crate) archive: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Count what the log of a store consists of: transactions, records by kind, changes by operation, and the pages with most changes.
///
/// The log is read from where an opening would begin, also while another process has the store open.
///
/// Exit code 0 if the store could be read; otherwise 1.
#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// The store's folder
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the locks of the prepared transactions of a store that no program has open.
///
/// Other transactions do not outlive their program, nor do their locks. A program calls `Store::locks` and `LockManager::locks`
/// for all holders and waiters in its open store.
///
/// Exit code 0 if the store could be read; otherwise 1.
#[derive(Debug, Args)]
pub(crate) struct Locks {
    /// The store's folder
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print all structures and heaps of a store as lines of JSON, without changing it.
///
/// A later version of Cedrat, and any other program, can read them: docs/formats/dump.md. A store whose log still needs recovery is
/// read as recovery would leave it; in-doubt transactions count as rolled back. Structures that only their own program can read are
/// skipped, and named. It takes as much memory as the heaps, the largest object and the largest collection of records.
///
/// With --as-of, the store is printed as it was at a moment: cedrat dump --as-of LSN --backup BACKUP --archive DIR
///
/// Exit code 0 if the dump is complete; otherwise 1. An incomplete dump cannot be loaded.
#[derive(Debug, Args)]
pub(crate) struct Dump {
    #[command(flatten)]
    pub(crate) read: Read,
}

/// Make a new store from a dump.
///
/// The new store is checked before it gets its control file; until then it does not open. Records and objects have new
/// identities. It takes some 50 bytes of memory for each object of a graph.
///
/// Exit code 0 if the store is complete; otherwise 1, with the line that was refused, and without a store.
#[derive(Debug, Args)]
pub(crate) struct Load {
    /// The dump, or - for the standard input
    #[arg(value_name = "FROM")]
    pub(crate) from: PathBuf,

    /// The folder of the new store, which is created or empty
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Save all that can be read from a damaged store in a new one, without changing the damaged files.
///
/// The store is read as recovery would leave it. If it cannot be recovered, because the log or the control file is damaged or lost, it
/// is read as the files have it: without the newest commits, and perhaps with changes of transactions that did not commit. Pages that
/// do not verify are left out. It takes as much memory as the heaps, the largest object, 16 bytes for each page, and some 50 bytes for
/// each object of a graph; a temporary file takes about twice the bytes of all elements.
///
/// Exit code 0 if nothing was lost and the log could be read; otherwise 1, with a list of the losses, or without a new store if none could be made.
/// Structures that only their own program can read are skipped and listed, and do not count as lost.
#[derive(Debug, Args)]
pub(crate) struct Salvage {
    /// The damaged store's folder
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// The folder of the new store, which is created or empty
    #[arg(value_name = "TO")]
    pub(crate) to: PathBuf,

    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
