//! The command line.

mod copies;
mod replicas;
mod tools;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use copies::{Archive, Backup, BackupCopy, BackupVerify, OfBackup, Restore, RotateKey, Scrub};
pub(crate) use replicas::{Follow, Promote};
pub(crate) use tools::{Dump, Load, Locks, Moment, Page, Pins, Read, Salvage, Space, Stats};

/// Transactions as a library: a tour, a crash workload, and subcommands that inspect a store.
#[derive(Debug, Parser)]
#[command(name = "cedrat", version, about, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,

    #[command(flatten)]
    pub(crate) keys: Keys,
}

/// The keys of encrypted directories.
#[derive(Debug, Args)]
pub(crate) struct Keys {
    /// A file with the key of an encrypted store, backup or archive: 32 random bytes, or 64 hexadecimal digits; repeat it for older
    /// keys
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) key_file: Vec<PathBuf>,
}

/// Parses a number of seconds, at most some thirty years.
fn duration(given: &str) -> Result<Duration, String> {
    const SECONDS_MAX: f64 = 1e9;
    let seconds = given.parse::<f64>().map_err(|error| error.to_string())?;
    if !(0.0..=SECONDS_MAX).contains(&seconds) {
        return Err(format!("{seconds} is not in 0..={SECONDS_MAX}"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Tour(Tour),
    #[command(subcommand)]
    Bank(Bank),
    #[command(subcommand)]
    Heap(Heap),
    Info(Info),
    Verify(Verify),
    Space(Space),
    Page(Page),
    Pins(Pins),
    Stats(Stats),
    Locks(Locks),
    Dump(Dump),
    Load(Load),
    Salvage(Salvage),
    Backup(Backup),
    Restore(Restore),
    RotateKey(RotateKey),
    Archive(Archive),
    Follow(Follow),
    Promote(Promote),
    Scrub(Scrub),
    Log(Log),
    Changes(Changes),
    Consumers(Consumers),
    Resolve(Resolve),
    Objects(Objects),
    Completions(Completions),
    Man(Man),
    #[command(name = crate::tour::WORKER, hide = true)]
    TourWorker(TourWorker),
}

/// Count words in a store that is killed on the way, and compare with a plain count.
///
/// Several threads count the words of text files in a transactional hash table, one transaction for
/// each file. The working process is killed with SIGKILL part-way, several times; each new one recovers
/// the store and continues. At the end the counts are compared with a plain count of the same files.
///
/// Exit code 0 if they are equal, 1 if they are not or something failed, 2 for wrong arguments.
#[derive(Debug, Args)]
pub(crate) struct Tour {
    /// Files, and folders that are walked for text files [default: the current folder]
    pub(crate) paths: Vec<PathBuf>,

    /// Number of times that the working process is killed
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(0..=1000))]
    pub(crate) kills: u64,

    /// Number of threads that count [default: two for each processor, at most 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(crate) threads: Option<u64>,

    /// Make the store in this folder, which must not exist yet, and keep it [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,

    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// A crash workload: move money between accounts, and check that no acknowledged transfer is lost.
#[derive(Debug, Subcommand)]
pub(crate) enum Bank {
    Run(BankRun),
    Verify(BankVerify),
}

/// Move money between accounts until killed, and print what is stable.
///
/// Creates or reopens the store in DIR. Prints `ack ID` for each transfer known to be stable, a number
/// that is unique across runs, flushed line by line. May be killed with SIGKILL at any time; keep the
/// lines of all runs in one file for `cedrat bank verify`.
#[derive(Debug, Args)]
pub(crate) struct BankRun {
    /// The store's folder
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Number of accounts, each opened with 1000; an existing bank must have the same number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=10_000_000))]
    pub(crate) accounts: u64,

    /// Number of threads that move money
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(crate) threads: u64,

    /// End by itself after this many seconds [default: never]
    #[arg(long, value_name = "S", value_parser = duration)]
    pub(crate) seconds: Option<Duration>,

    /// End by itself after this many transfers [default: never]
    #[arg(long, value_name = "N")]
    pub(crate) transfers: Option<u64>,

    /// Whether a commit returns when it is stable, or at once with a ticket for which another thread waits
    #[arg(long, value_enum, value_name = "MODE", default_value_t = CommitMode::Sync)]
    pub(crate) commit: CommitMode,

    /// Number of partitions of a new store's log
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) partitions: u16,

    /// Keep the accounts as words of a heap instead of in pages
    #[arg(long)]
    pub(crate) heap: bool,
}

/// When a commit returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CommitMode {
    /// When its record is stable.
    Sync,
    /// At once, with a ticket.
    Async,
}

/// Recover a bank and check that no acknowledged transfer is missing.
///
/// Checks that the total of all accounts is what it was at the beginning, and that every transfer in the
/// list of acknowledgements is recorded.
///
/// Exit code 0 if so; otherwise 1, with the problems.
#[derive(Debug, Args)]
pub(crate) struct BankVerify {
    /// The store's folder
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Output of all runs of `cedrat bank run`; an incomplete last line is ignored
    #[arg(long, value_name = "FILE")]
    pub(crate) acks: PathBuf,

    /// The accounts are words of a heap
    #[arg(long)]
    pub(crate) heap: bool,

    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// List, verify and measure the heaps of a store.
#[derive(Debug, Subcommand)]
pub(crate) enum Heap {
    Info(HeapInfo),
    Verify(HeapVerify),
    Bench(HeapBench),
}

/// List the heaps of a store, without loading or changing them.
#[derive(Debug, Args)]
pub(crate) struct HeapInfo {
    /// The store's folder
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Load the heaps of a store as recovery would leave them, and check them, without changing them.
///
/// Checks every chunk of the newest checkpoints against its checksum, replays the log in memory, and
/// checks the block lists of heaps that have blocks. It takes as much memory as the heaps.
///
/// Exit code 0 if there are no problems; otherwise 1, with file and offset of each.
#[derive(Debug, Args)]
pub(crate) struct HeapVerify {
    /// The store's folder
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measure transactions of six random words, each read and written, in a heap on this machine.
///
/// Makes a new store for it and removes it in the end. For a first impression: `./x bench` measures
/// with more care, beside the machine's own limits.
#[derive(Debug, Args)]
pub(crate) struct HeapBench {
    /// A folder on the disk to measure; the store is made in a new folder in it [default: the system's temporary folder]
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,

    /// Number of threads [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(crate) threads: Option<u64>,

    /// The heap's size
    #[arg(long, value_name = "N", default_value_t = 64 << 20, value_parser = clap::value_parser!(u64).range(4096..=1 << 40))]
    pub(crate) bytes: u64,

    /// Duration of the measurement
    #[arg(long, value_name = "S", default_value = "3", value_parser = duration)]
    pub(crate) seconds: Duration,

    /// When a commit returns
    #[arg(long, value_enum, value_name = "MODE", default_value_t = HeapCommitMode::Async)]
    pub(crate) commit: HeapCommitMode,

    /// Number of partitions of the log
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) partitions: u16,

    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// When a commit of a heap transaction returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HeapCommitMode {
    /// At once.
    Async,
    /// When it, and all before it, is stable.
    Sync,
    /// When its own partition of the log is stable.
    Partition,
}

/// Print the properties and the files of a store, without changing it.
#[derive(Debug, Args)]
pub(crate) struct Info {
    /// The store's folder
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Read and check everything in a store, without changing it.
///
/// A store whose log still needs recovery is checked as recovery would leave it; what that would write
/// goes to a temporary folder. With --as-of, the store is checked as it was at a moment, with prepared transactions rolled back.
///
/// Exit code 0 if there are no problems; otherwise 1, with file and offset of each.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    pub(crate) read: Read,

    /// Tag of the values that name classes, in graphs [default: that of Java, in graphs of Java objects]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=254))]
    pub(crate) class_tag: Option<u8>,

    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print the records of a store's log, in the order of their LSNs, without changing it.
#[derive(Debug, Args)]
pub(crate) struct Log {
    /// The store's folder
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Only the records of this transaction
    #[arg(long, value_name = "NUMBER")]
    pub(crate) transaction: Option<u64>,

    /// Only the records that change this page
    #[arg(long, value_name = "NUMBER")]
    pub(crate) page: Option<u64>,

    /// Only records with this LSN or a later one
    #[arg(long, value_name = "LSN")]
    pub(crate) from: Option<u64>,

    /// Only records with this LSN or an earlier one
    #[arg(long, value_name = "LSN")]
    pub(crate) to: Option<u64>,

    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print the transactions that have committed, in the order of their commits, with the changes of each.
///
/// A structure is named by the catalogue, or by its root page if it has no name now. Keys and values are
/// printed as hexadecimal digits, as they are encoded. The store is not changed, and no program may have it open.
/// Without --from, transactions that began before the log that is kept are left out, with a note.
///
/// Exit code 0; 1 if the log is not kept from the given LSN on, or cannot be read.
#[derive(Debug, Args)]
pub(crate) struct Changes {
    /// The store's folder
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Only transactions with this commit LSN or a later one [default: all that the log has]
    #[arg(long, value_name = "LSN")]
    pub(crate) from: Option<u64>,

    /// Print one JSON object a line, for each change
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the consumers of the change stream, and how far each is behind.
///
/// The store may be open.
///
/// Exit code 0 if each consumer keeps the log that it needs; 1 if one was released, beyond its limit or in a full log.
#[derive(Debug, Args)]
pub(crate) struct Consumers {
    /// The store's folder
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Commit or roll back a prepared transaction whose transaction manager is lost, or forget the outcome of one.
///
/// A prepared transaction waits for its outcome from the transaction manager that has asked it to prepare.
/// Use this command only if the manager is lost for good: it may have given the other stores another
/// outcome, and then they do not agree with this one any more.
///
/// The store keeps the outcome for a manager that returns; `cedrat info` lists it. If none returns, forget it.
#[derive(Debug, Args)]
pub(crate) struct Resolve {
    /// The store's folder
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// The identifier, in hexadecimal digits, as `cedrat info` prints it
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// The outcome
    #[arg(value_enum)]
    pub(crate) outcome: ResolveOutcome,

    /// The folder of the store's archive, if it has one
    #[arg(long, value_name = "DIR")]
    pub(crate) archive: Option<PathBuf>,
}

/// Outcome of a prepared transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResolveOutcome {
    /// All of its changes stay.
    Commit,
    /// None of its changes stays.
    Rollback,
    /// Removes the kept outcome of a transaction that this command has ended.
    Forget,
}

/// Summarise the Java objects of a store, without changing it: roots, classes, objects.
///
/// Without a subcommand: the roots, and for each class how many objects there are, and how many bytes they have, with those that no
/// root reaches. A store whose log still needs recovery is read as recovery would leave it. Memory: some 50 bytes for each page
/// with objects, and the largest object; 16 bytes for each object are written to a temporary file.
///
/// Exit code 0 if all objects could be read; otherwise 1, with object and byte of each problem. The rest is printed nevertheless.
#[derive(Debug, Args)]
pub(crate) struct Objects {
    /// The store's folder
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// The graph with the objects [default: the only one, or that of Java, `objects`]
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) graph: Option<String>,

    /// Print one JSON object
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) what: Option<ObjectsWhat>,
}

/// Part of the objects that is shown.
#[derive(Debug, Subcommand)]
pub(crate) enum ObjectsWhat {
    Show(ObjectsShow),
    Why(ObjectsWhy),
    /// List the classes as they are stored: kind, superclass, fields with their types, constants of enums.
    ///
    /// Compare them with the classes of the program before it opens the store. A changed class has several definitions; objects
    /// that are stored from now on use the newest.
    Classes,
}

/// Print an object, and the objects that it refers to, as a tree.
///
/// An object that was printed before, above or in another branch, is replaced by its identity, PAGE:SLOT.
#[derive(Debug, Args)]
pub(crate) struct ObjectsShow {
    /// The name of a root, or an object's identity, PAGE:SLOT
    #[arg(value_name = "ROOT|IDENTITY")]
    pub(crate) object: String,

    /// Number of references to follow, one after the other
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) depth: u32,

    /// Number of elements or entries of an object to show, and of characters of a string in hundreds
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) width: u32,
}

/// Print a shortest path from a root to an object, the reason why it is kept.
///
/// Exit code 0 also if there is none: the next garbage collection removes the object then. 1 if there is no such object.
#[derive(Debug, Args)]
pub(crate) struct ObjectsWhy {
    /// The object's identity, PAGE:SLOT
    #[arg(value_name = "IDENTITY")]
    pub(crate) identity: String,
}

/// Print a script that completes the command's arguments in a shell.
///
/// For example: `cedrat completions bash > /etc/bash_completion.d/cedrat`
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Write the manual pages of all subcommands to a folder.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The folder, which exists; for example /usr/local/share/man/man1
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// The working process of a tour.
#[derive(Debug, Args)]
pub(crate) struct TourWorker {
    /// The tour's folder
    pub(crate) directory: PathBuf,

    /// Number of threads that count
    #[arg(long)]
    pub(crate) threads: usize,

    /// Stop halfway in the n-th piece, counted from 0, and wait there to be killed
    #[arg(long)]
    pub(crate) halt_in: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent_and_all_explained() {
        let mut command = Arguments::command();
        command.build();
        command.clone().debug_assert();
        let mut next = vec![command];
        while let Some(command) = next.pop() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{argument}");
            }
            next.extend(command.get_subcommands().cloned());
        }
    }
}
