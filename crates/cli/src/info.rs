//! `cedrat info`: what a store is and what it holds.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use cedrat::txn::HeuristicOutcome;
use serde::Serialize;

use crate::arguments::Info;
use crate::disks::Disks;
use crate::look::Looked;
use crate::output::{self, Outcome, bytes, grouped};

/// Information about a store, read without recovery.
#[derive(Debug, Serialize)]
struct About {
    /// The store's random name.
    store: String,
    page_bytes: u32,
    /// Whether aligned reads and writes bypass the operating system's cache.
    direct_io: bool,
    log_partitions: usize,
    log_segment_bytes: u64,
    /// How often the store was opened, as far as the log still tells.
    epochs: usize,
    /// Redo would begin here.
    redo_lsn: u64,
    /// The log would be read from here on.
    scan_lsn: u64,
    /// The first LSN that is not in the log.
    end_lsn: u64,
    /// Whether another process has the store open.
    open_elsewhere: bool,
    /// Whether opening would find something to recover.
    needs_recovery: bool,
    /// In-doubt transactions.
    in_doubt: Vec<Branch>,
    /// Branches that an operator has ended and that are not forgotten.
    heuristic: Vec<Heuristic>,
    /// The files, with the bytes that they take on the disk.
    files: Vec<File>,
    bytes_on_disk: u64,
    /// The operations, undos and kinds of records that were ever used.
    names: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Branch {
    /// Its identifier, in hexadecimal digits.
    id: String,
    transaction: u64,
    since_lsn: u64,
}

#[derive(Debug, Serialize)]
struct Heuristic {
    /// Its identifier, in hexadecimal digits.
    id: String,
    /// Whether it was committed; otherwise it was rolled back.
    committed: bool,
}

/// A file of a store.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) bytes_on_disk: u64,
}

/// Prints what is known of a store.
pub(crate) fn info(arguments: &Info, disks: &Disks) -> Outcome {
    let looked = Looked::at_any(&arguments.directory, disks)?;
    let found = &looked.found;
    let in_doubt = looked.in_doubt()?.into_iter().map(|branch| Branch {
        id: digits(&branch.id),
        transaction: branch.txn.0,
        since_lsn: branch.since.get(),
    });
    let heuristic = looked
        .heuristic()?
        .into_iter()
        .map(|branch| Heuristic { id: digits(&branch.id), committed: branch.outcome == HeuristicOutcome::Committed });
    let control = found.control();
    let mut files = Vec::new();
    list(&arguments.directory, "", &mut files)?;
    let mut scan = found.scan(control.checkpoint.scan_lsn)?;
    let about = About {
        store: digits(&control.store),
        page_bytes: control.page_len,
        direct_io: looked.is_direct,
        log_partitions: control.partitions.len(),
        log_segment_bytes: control.segment_len,
        epochs: control.epochs.iter().count(),
        redo_lsn: control.checkpoint.redo_lsn.get(),
        scan_lsn: control.checkpoint.scan_lsn.get(),
        end_lsn: found.end_lsn().get(),
        open_elsewhere: looked.is_open_elsewhere(),
        needs_recovery: scan.next()?.is_some(),
        in_doubt: in_doubt.collect(),
        heuristic: heuristic.collect(),
        bytes_on_disk: files.iter().map(|file| file.bytes_on_disk).sum(),
        files,
        names: control.names.clone(),
    };
    if arguments.json {
        return output::json(&about);
    }
    print(&about)
}

/// Bytes in hexadecimal digits.
pub(crate) fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // a string takes everything
        text
    })
}

fn print(about: &About) -> Outcome {
    let recovery = if about.open_elsewhere {
        format!("open in another process; after a crash, the log would be read from LSN {}", about.scan_lsn)
    } else if about.needs_recovery {
        format!("opening will read the log from LSN {}", about.scan_lsn)
    } else {
        "nothing to recover".to_string()
    };
    let caching =
        if about.direct_io { "direct" } else { "through the system's cache: the file system has no direct I/O" };
    let mut rows = vec![
        ("store", about.store.clone()),
        ("pages of", bytes(about.page_bytes.into())),
        ("log", format!("{} partitions, segments of {}", about.log_partitions, bytes(about.log_segment_bytes))),
        ("next LSN", grouped(about.end_lsn)),
        ("I/O", caching.to_string()),
        ("recovery", recovery),
    ];
    if !about.in_doubt.is_empty() {
        rows.push(("in doubt", format!("{} prepared transactions wait for their outcome", about.in_doubt.len())));
        let line = |branch: &Branch| {
            format!("{}: transaction {}, since LSN {}", branch.id, branch.transaction, grouped(branch.since_lsn))
        };
        rows.extend(about.in_doubt.iter().map(|branch| ("", line(branch))));
    }
    if !about.heuristic.is_empty() {
        rows.push(("resolved", format!("{} transactions were ended by an operator", about.heuristic.len())));
        let was = |branch: &Heuristic| if branch.committed { "committed" } else { "rolled back" };
        rows.extend(about.heuristic.iter().map(|branch| ("", format!("{}: {}", branch.id, was(branch)))));
    }
    rows.push(("on disk", bytes(about.bytes_on_disk)));
    for file in &about.files {
        rows.push(("", format!("{}: {} ({} on disk)", file.name, bytes(file.bytes), bytes(file.bytes_on_disk))));
    }
    rows.push(("names", about.names.len().to_string()));
    rows.extend(about.names.iter().map(|name| ("", name.clone())));
    output::rows(&rows)
}

/// Adds the files of a folder, `below` which name they are listed.
pub(crate) fn list(folder: &Path, below: &str, files: &mut Vec<File>) -> Outcome {
    use std::os::unix::fs::MetadataExt;
    let mut entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        let about = entry.metadata()?;
        if about.is_dir() {
            list(&entry.path(), &format!("{name}/"), files)?;
        } else {
            // A file's blocks are counted in units of 512 bytes, whatever the file system's are.
            files.push(File { name, bytes: about.len(), bytes_on_disk: about.blocks() * 512 });
        }
    }
    Ok(())
}
