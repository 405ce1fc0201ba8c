//! `cedrat backup` and `cedrat restore`.

use std::io::{self, BufReader, BufWriter};
use std::path::Path;
use std::time::{Duration, Instant};

use cedrat::media::Encryption;
use cedrat::txn::{BackupChain, BackupOptions, BackupProgress, RestoreTarget};
use cedrat::wal::Lsn;
use cedrat_media::refuse_encrypted;
use cedrat_txn::INCREMENT_FILE;
use serde::Serialize;

use crate::arguments::{BackupCopy, Restore};
use crate::disks::{self, Disks, read_key};
use crate::look::{self, Looked};
use crate::output::{self, Context, Outcome, grouped};

/// The result of a backup or a restore.
#[derive(Debug, Serialize)]
pub(crate) struct Copied {
    /// Every transaction that had committed up to this LSN is in it; `None`: it is an increment, whose chain has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    lsn: Option<u64>,
    /// Bytes of pages and heaps.
    bytes: u64,
    seconds: f64,
    /// The reason why no incremental backup can continue it.
    #[serde(skip_serializing_if = "Option::is_none")]
    cannot_continue: Option<String>,
}

impl Copied {
    pub(crate) fn new(lsn: Lsn, bytes: u64, total: Duration) -> Copied {
        Copied { lsn: Some(lsn.get()), bytes, seconds: total.as_secs_f64(), cannot_continue: None }
    }

    pub(crate) fn print(&self, as_json: bool) -> Outcome {
        if as_json {
            return output::json(self);
        }
        let mut rows = vec![("bytes", grouped(self.bytes)), ("seconds", format!("{:.1}", self.seconds))];
        if let Some(lsn) = self.lsn {
            rows.insert(0, ("up to LSN", lsn.to_string()));
        }
        output::rows(&rows)
    }
}

/// Copies a store.
pub(crate) fn backup(arguments: &BackupCopy, disks: &Disks) -> Outcome {
    // A directory without a store is refused before anything is written.
    drop(Looked::at(&arguments.directory, disks)?);
    let store = look::open_to_change(&arguments.directory, arguments.archive.as_deref(), disks)?;
    let since = match &arguments.since[..] {
        [] => None,
        [full, increments @ ..] => {
            let increments: Vec<_> = increments.iter().map(|increment| disks::plain(increment)).collect();
            let chain = store.backup_chain(&disks::plain(full), &increments);
            Some(chain.while_doing("reading the earlier backups")?)
        }
    };
    let bar = output::progress_of_bytes("copying the store");
    let mut show = |progress: BackupProgress| {
        bar.set_length(progress.of.max(progress.bytes));
        bar.set_position(progress.bytes);
    };
    let is_stream = is_stream(&arguments.to);
    let options =
        BackupOptions { since: since.as_ref(), bytes_per_second_max: arguments.rate, progress: Some(&mut show) };
    let report = if is_stream {
        let to = BufWriter::with_capacity(1 << 20, io::stdout());
        store.backup_to_stream(to, options)
    } else {
        store.backup(&disks::plain(&arguments.to), options)
    };
    bar.finish_and_clear();
    let report = report.while_doing("copying the store")?;
    store.close()?;
    if let Some(why) = &report.cannot_continue {
        output::note(format_args!(
            "no incremental backup can continue this one: {why}; it is complete, and the next one has to be full"
        ));
    }
    if is_stream {
        // Standard output has the backup.
        return Ok(());
    }
    let copied = Copied::new(report.up_to, report.bytes, report.total);
    Copied { cannot_continue: report.cannot_continue, ..copied }.print(arguments.json)
}

/// Whether a path names standard output or standard input.
fn is_stream(path: &Path) -> bool {
    path == Path::new("-")
}

/// Restores the backup that comes from standard input.
fn restore_from_stream(directory: &Path, disks: &Disks, as_json: bool) -> Outcome {
    let (began, to) = (Instant::now(), disks::plain(directory));
    let bytes = cedrat::txn::restore_stream(&mut BufReader::with_capacity(1 << 20, io::stdin()), &to)?;
    // An increment alone has no state: its chain says up to where it goes. An encrypted backup may be restored without its key.
    let is_increment = to.list("")?.iter().any(|file| file == INCREMENT_FILE);
    let is_readable = !is_increment && (disks.has_keys() || refuse_encrypted(&*to).is_ok());
    let up_to = is_readable.then(|| disks.open(directory)).transpose()?;
    let up_to = up_to.map(|backup| BackupChain::open(&backup, &[])).transpose()?.map(|chain| chain.up_to());
    let seconds = began.elapsed().as_secs_f64();
    Copied { lsn: up_to.map(Lsn::get), bytes, seconds, cannot_continue: None }.print(as_json)
}

/// Restores a backup.
pub(crate) fn restore(arguments: &Restore, disks: &Disks) -> Outcome {
    let target = match (arguments.lsn, arguments.time) {
        (Some(lsn), _) => RestoreTarget::Lsn(Lsn::new(lsn)),
        (_, Some(time)) => RestoreTarget::Time(time.try_into()?),
        _ => RestoreTarget::Newest,
    };
    let archive = arguments.archive.as_deref();
    let Some((to, backups)) = arguments.folders.split_last() else {
        return output::fail("name a backup and the folder of the restored store");
    };
    if let [stream] = backups
        && is_stream(stream)
    {
        return match archive {
            None => restore_from_stream(to, disks, arguments.json),
            Some(_) => {
                output::fail("a stream is restored to its end: restore it to a folder, then that with the archive")
            }
        };
    }
    // A missing directory would be created.
    backups.iter().map(|backup| backup.as_path()).chain(archive).try_for_each(look::is_directory)?;
    let new_key = arguments.new_key_file.as_deref().map(read_key).transpose()?.map(Encryption::with_key);
    let from = disks.encryption();
    let report = cedrat::restore_encrypted(backups, archive, from, to, new_key.as_ref().or(from), target)
        .while_doing("restoring the backup")?;
    Copied::new(report.up_to, report.bytes, report.total).print(arguments.json)
}
