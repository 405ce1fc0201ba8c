//! Arguments of backups, restores and archives.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jiff::Timestamp;

/// Copy a store that no program has open to another folder, durably.
///
/// The store is recovered first, and every page and every record is verified. A program that has the
/// store open makes a backup itself, while transactions run: `cedrat::backup`, `cedrat_backup`, `Store.backup`.
///
/// With --since, only what changed since an earlier backup is copied: an incremental backup.
///
/// Exit code 0 if the backup is complete; otherwise 1. An incomplete backup does not open: delete it.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct Backup {
    #[command(subcommand)]
    pub(crate) of_backup: Option<OfBackup>,

    #[command(flatten)]
    pub(crate) copy: Option<BackupCopy>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OfBackup {
    Verify(BackupVerify),
}

/// Check each byte of a backup, and that it opens, without changing it.
///
/// With --archive, the records of the archive are checked, too, and the store that backup and archive restore, with
/// temporary files. If a backup was opened since it was made, only what is in use is checked.
///
/// Exit code 0 if there are no problems; otherwise 1, with file and offset of each damaged page, and of the first
/// damage of each other file.
#[derive(Debug, Args)]
pub(crate) struct BackupVerify {
    /// The folder of the backup, then those of its increments in their order
    #[arg(value_name = "BACKUP", required = true)]
    pub(crate) backups: Vec<PathBuf>,

    /// The folder of the store's archive: check its records, and the store that it restores
    #[arg(long, value_name = "DIR")]
    pub(crate) archive: Option<PathBuf>,

    /// Tag of the values that name classes, in graphs [default: that of Java, in graphs of Java objects]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=254))]
    pub(crate) class_tag: Option<u8>,

    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BackupCopy {
    /// The store's folder
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// The folder of the backup, which is created or empty; -: standard output
    #[arg(value_name = "TO")]
    pub(crate) to: PathBuf,

    /// The folder of an earlier full backup; repeat it for each of its increments, in their order
    #[arg(long, value_name = "BACKUP")]
    pub(crate) since: Vec<PathBuf>,

    /// The number of bytes of pages and heaps that are copied in a second at most
    #[arg(long, value_name = "BYTES", default_value_t = 0, hide_default_value = true)]
    pub(crate) rate: u64,

    /// The folder of the store's archive, if it has one
    #[arg(long, value_name = "DIR")]
    pub(crate) archive: Option<PathBuf>,

    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Restore a backup, to its end or to any later point in time that an archive has.
///
/// The backup and the archive are only read, and the archive may be in use. The first opening of the
/// restored store rolls back the transactions that had not committed at that moment.
///
/// Exit code 0 if the restored store is complete; otherwise 1. An incomplete one does not open: delete it.
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The folder of the backup, then those of its increments in their order, then the folder of the restored store, which is
    /// created or empty; - in place of the backup: standard input
    #[arg(value_names = ["BACKUP", "TO"], num_args = 2..)]
    pub(crate) folders: Vec<PathBuf>,

    /// The folder of the store's archive: restore its newest moment, unless --lsn or --time says another one
    #[arg(long, value_name = "DIR")]
    pub(crate) archive: Option<PathBuf>,

    /// Restore the record with this LSN, and all before it
    #[arg(long, value_name = "LSN", requires = "archive", conflicts_with = "time")]
    pub(crate) lsn: Option<u64>,

    /// Restore the last archived moment up to this time, such as 2026-11-28T21:14:07Z
    #[arg(long, value_name = "TIME", requires = "archive")]
    pub(crate) time: Option<Timestamp>,

    /// A file with the key of the restored store [default: that of --key-file]
    #[arg(long, value_name = "FILE")]
    pub(crate) new_key_file: Option<PathBuf>,

    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Give an encrypted store, backup or archive another key, also while it is open.
///
/// The key of its data stays, and is encrypted with the new key of the user. A crash leaves the old key or the new one. A store and its
/// archive have each a key; to change the key of the data, restore a backup with --new-key-file.
#[derive(Debug, Args)]
pub(crate) struct RotateKey {
    /// The folder of the store, of the backup or of the archive
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// A file with the new key; the present one is given by --key-file
    #[arg(long, value_name = "FILE")]
    pub(crate) new_key_file: PathBuf,

    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Read all pages and the log of a store that no program has open, and rebuild damaged pages.
///
/// The store is recovered first. A damaged page is rebuilt from the archive, and from a backup if the archive does not have all
/// of its records. A program that has the store open calls `Store::scrub`, while transactions run.
///
/// Exit code 0 if all pages are sound in the end; otherwise 1, with file and offset of each that is not.
#[derive(Debug, Args)]
pub(crate) struct Scrub {
    /// The store's folder
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// The folder of the store's archive
    #[arg(long, value_name = "DIR")]
    pub(crate) archive: Option<PathBuf>,

    /// The folder of a backup of the store, which the archive continues
    #[arg(long, value_name = "DIR", requires = "archive")]
    pub(crate) backup: Option<PathBuf>,

    /// Maximum number of bytes of pages to read in a second [default: no limit]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rate: Option<u64>,

    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print the LSNs and moments of an archive, let it forget the oldest ones, or extend it after a loss.
///
/// An archive grows until it forgets what its backups do not need any more. To forget, no program may have the
/// archive open: a program calls `Store::forget_archive` or `cedrat_archive_forget` for its own.
///
/// Exit code 0 if its control file, blocks and moments are whole; otherwise 1, with file and offset.
/// Records are verified by `cedrat restore`.
#[derive(Debug, Args)]
pub(crate) struct Archive {
    /// The archive's folder
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// List all moments
    #[arg(long)]
    pub(crate) moments: bool,

    /// Extend the archive by the log that this store still has, which is not open and may have lost its other files
    #[arg(long, value_name = "STORE", conflicts_with = "before")]
    pub(crate) extend_from: Option<PathBuf>,

    /// Forget the log that neither this backup nor a younger one needs
    #[arg(long, value_name = "BACKUP", group = "before")]
    pub(crate) forget_before: Option<PathBuf>,

    /// Forget the records before this LSN; backups that need them are not restored with the archive any more
    #[arg(long, value_name = "LSN", group = "before")]
    pub(crate) forget_before_lsn: Option<u64>,

    /// Forget what is before the last moment up to this time, such as 2026-11-28T21:14:07Z
    #[arg(long, value_name = "TIME", group = "before")]
    pub(crate) forget_before_time: Option<Timestamp>,

    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
