//! `cedrat backup` and `cedrat restore`.

use std::io::{self, BufReader, BufWriter};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cedrat::media::{Media, RealDisk};
use cedrat::txn::{BackupChain, BackupOptions, BackupProgress, RestoreTarget};
use cedrat::wal::Lsn;
use serde::Serialize;

use crate::arguments::{BackupCopy, Restore};
use crate::look::{self, Looked};
use crate::output::{self, Context, Outcome, grouped};

/// The result of a backup or a restore.
#[derive(Debug, Serialize)]
pub(crate) struct Copied {
    /// Every transaction that had committed up to this LSN is in it.
    lsn: u64,
    /// Bytes of pages and heaps.
    bytes: u64,
    seconds: f64,
}

impl Copied {
    pub(crate) fn new(lsn: Lsn, bytes: u64, total: Duration) -> Copied {
        Copied { lsn: lsn.get(), bytes, seconds: total.as_secs_f64() }
    }

    pub(crate) fn print(&self, as_json: bool) -> Outcome {
        if as_json {
            return output::json(self);
        }
        let rows = [
            ("up to LSN", self.lsn.to_string()),
            ("bytes", grouped(self.bytes)),
            ("seconds", format!("{:.1}", self.seconds)),
        ];
        output::rows(&rows)
    }
}

/// Copies a store.
pub(crate) fn backup(arguments: &BackupCopy) -> Outcome {
    // A directory without a store is refused before anything is written.
    drop(Looked::at(&arguments.directory)?);
    let store = look::open_to_change(&arguments.directory, arguments.archive.as_deref())?;
    let since = match &arguments.since[..] {
        [] => None,
        since => Some(cedrat::backup_chain(since).while_doing("reading the earlier backups")?),
    };
    let options = BackupOptions { bytes_per_second_max: arguments.rate };
    let bar = output::progress_of_bytes("copying the store");
    let mut show = |progress: BackupProgress| {
        bar.set_length(progress.of.max(progress.bytes));
        bar.set_position(progress.bytes);
    };
    let is_stream = is_stream(&arguments.to);
    let report = if is_stream {
        let to = BufWriter::with_capacity(1 << 20, io::stdout());
        store.backup_to_stream(since.as_ref(), to, options, &mut show)
    } else {
        let to: Arc<dyn Media> = Arc::new(RealDisk::new(&arguments.to));
        store.backup_observed(since.as_ref(), &to, options, &mut show)
    };
    bar.finish_and_clear();
    let report = report.while_doing("copying the store")?;
    store.close()?;
    if is_stream {
        // Standard output has the backup.
        return Ok(());
    }
    Copied::new(report.up_to, report.bytes, report.total).print(arguments.json)
}

/// Whether a path names standard output or standard input.
fn is_stream(path: &Path) -> bool {
    path == Path::new("-")
}

/// Restores the backup that comes from standard input.
fn restore_from_stream(to: &Path, as_json: bool) -> Outcome {
    let (began, to): (_, Arc<dyn Media>) = (Instant::now(), Arc::new(RealDisk::new(to)));
    let bytes = cedrat::txn::restore_stream(&mut BufReader::with_capacity(1 << 20, io::stdin()), &to)?;
    let lsn = BackupChain::open(&to, &[]).map_or(Lsn::ZERO, |chain| chain.up_to());
    Copied::new(lsn, bytes, began.elapsed()).print(as_json)
}

/// Restores a backup.
pub(crate) fn restore(arguments: &Restore) -> Outcome {
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
            None => restore_from_stream(to, arguments.json),
            Some(_) => {
                output::fail("a stream is restored to its end: restore it to a folder, then that with the archive")
            }
        };
    }
    // A missing directory would be created.
    backups.iter().map(|backup| backup.as_path()).chain(archive).try_for_each(look::is_directory)?;
    let report = cedrat::restore_chain(backups, archive, to, target).while_doing("restoring the backup")?;
    Copied::new(report.up_to, report.bytes, report.total).print(arguments.json)
}
