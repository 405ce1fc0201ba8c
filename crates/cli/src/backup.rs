//! `cedrat backup` and `cedrat restore`.

use std::sync::Arc;
use std::time::Duration;

use cedrat::media::{Media, RealDisk};
use cedrat::txn::{BackupOptions, RestoreTarget};
use cedrat::wal::Lsn;
use serde::Serialize;

use crate::arguments::{BackupCopy, Restore};
use crate::look::{self, Looked};
use crate::output::{self, Context, Outcome, grouped};

/// The result of a backup or a restore.
#[derive(Debug, Serialize)]
struct Copied {
    /// Every transaction that had committed up to this LSN is in it.
    lsn: u64,
    /// Bytes of pages and heaps.
    bytes: u64,
    seconds: f64,
}

impl Copied {
    fn new(lsn: Lsn, bytes: u64, total: Duration) -> Copied {
        Copied { lsn: lsn.get(), bytes, seconds: total.as_secs_f64() }
    }

    fn print(&self, as_json: bool) -> Outcome {
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
    let to: Arc<dyn Media> = Arc::new(RealDisk::new(&arguments.to));
    let bar = output::progress_of_bytes("copying the store");
    let report = store.backup_observed(since.as_ref(), &to, options, &mut |progress| {
        bar.set_length(progress.of.max(progress.bytes));
        bar.set_position(progress.bytes);
    });
    bar.finish_and_clear();
    let report = report.while_doing("copying the store")?;
    store.close()?;
    Copied::new(report.up_to, report.bytes, report.total).print(arguments.json)
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
    // A missing directory would be created.
    backups.iter().map(|backup| backup.as_path()).chain(archive).try_for_each(look::is_directory)?;
    let report = cedrat::restore_chain(backups, archive, to, target).while_doing("restoring the backup")?;
    Copied::new(report.up_to, report.bytes, report.total).print(arguments.json)
}
