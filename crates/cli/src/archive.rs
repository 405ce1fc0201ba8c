//! `cedrat archive`: which records and moments an archive has, the oldest that it forgets, and the newest of a store that was lost.

use std::sync::Arc;
use std::time::SystemTime;

use cedrat::media::Media;
use cedrat::txn::{ForgetBefore, archive_remaining_log, forget_archive};
use cedrat::wal::{FoundArchive, Lsn, Moment};
use cedrat_wal::{INDEX_DIRECTORY, LOG_DIRECTORY};
use jiff::Timestamp;
use serde::Serialize;

use crate::arguments::Archive;
use crate::disks::Disks;
use crate::look;
use crate::output::{self, Context, Failure, Outcome, grouped};

/// The content of an archive.
#[derive(Debug, Serialize)]
struct Shown {
    /// The first LSN.
    first: u64,
    /// The last LSN.
    last: u64,
    /// Bytes of its files.
    bytes: u64,
    /// The oldest moment and the newest one, or all of them.
    moments: Vec<ShownMoment>,
}

#[derive(Debug, Serialize)]
struct ShownMoment {
    time: String,
    lsn: u64,
}

impl ShownMoment {
    fn of((moment, time): (&Moment, SystemTime)) -> Result<ShownMoment, Failure> {
        let time = Timestamp::try_from(time)?;
        Ok(ShownMoment { time: format!("{time:.3}"), lsn: moment.up_to.get() })
    }
}

/// Prints what an archive has, after it was changed as the arguments say.
pub(crate) fn archive(arguments: &Archive, disks: &Disks) -> Outcome {
    look::is_directory(&arguments.directory)?;
    extend(arguments, disks)?;
    let media = disks.open(&arguments.directory)?;
    forget(arguments, disks, &media)?;
    let found = FoundArchive::look(&media).while_doing(arguments.directory.display())?;
    // A moment without a time is no target of a restore.
    let timed = found.moments().iter().filter_map(|moment| Some((moment, moment.time()?)));
    let moments: Vec<(&Moment, SystemTime)> = timed.collect();
    let chosen = match moments[..] {
        [first, .., last] if !arguments.moments => vec![first, last],
        _ => moments,
    };
    let (first, last) = found.lsns();
    let moments = chosen.into_iter().map(ShownMoment::of).collect::<Result<Vec<_>, _>>()?;
    let shown = Shown { first: first.get(), last: last.get(), bytes: bytes_of(&*media)?, moments };
    if arguments.json {
        return output::json(&shown);
    }
    let mut rows = vec![("LSNs", format!("{} to {}", shown.first, shown.last)), ("bytes", grouped(shown.bytes))];
    rows.extend(shown.moments.iter().map(|moment| ("moment", format!("{}  LSN {}", moment.time, moment.lsn))));
    output::rows(&rows)
}

/// Lets the archive forget what is before the backup or moment of the arguments, if they name one.
fn forget(arguments: &Archive, disks: &Disks, archive: &Arc<dyn Media>) -> Outcome {
    let backup = arguments.forget_before.as_deref();
    backup.map(look::is_directory).transpose()?;
    let backup = backup.map(|backup| disks.open(backup)).transpose()?;
    let before = match (&backup, arguments.forget_before_lsn, arguments.forget_before_time) {
        (Some(backup), ..) => ForgetBefore::Backup(backup),
        (_, Some(lsn), _) => ForgetBefore::Lsn(Lsn::new(lsn)),
        (_, _, Some(time)) => ForgetBefore::Time(time.try_into()?),
        _ => return Ok(()),
    };
    forget_archive(archive, before).while_doing("forgetting the beginning of the archive")?;
    Ok(())
}

/// Extends the archive by the remaining log of the store of the arguments, if they name one.
fn extend(arguments: &Archive, disks: &Disks) -> Outcome {
    let Some(store) = &arguments.extend_from else { return Ok(()) };
    look::is_directory(store)?;
    let remaining = archive_remaining_log(&disks.open(store)?, &disks.open_or_create(&arguments.directory)?)
        .while_doing(format!("extending the archive by the log of {}", store.display()))?;
    if let Some(damage) = remaining.lost_heaps {
        output::note(format!(
            "the heaps are those of the moment before, because the list of the store is lost: {damage}"
        ));
    }
    Ok(())
}

/// Returns the length of all files of an archive.
fn bytes_of(media: &dyn Media) -> Result<u64, Failure> {
    let mut bytes = 0;
    for directory in ["", LOG_DIRECTORY, INDEX_DIRECTORY] {
        for name in media.list(directory)? {
            let name = if directory.is_empty() { name } else { format!("{directory}/{name}") };
            bytes += media.len(media.open(&name, cedrat::media::OpenMode::Read)?)?;
        }
    }
    Ok(bytes)
}
