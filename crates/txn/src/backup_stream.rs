//! Backups to streams, and their restores (drawn in docs/formats/stream.md).
//!
//! A stream has all that a backup writes to its directory, in the same order. Its restore makes that directory: a full backup, or an
//! incremental one. A torn or changed stream is refused, and leaves a directory that does not open (E18.21).

use cedrat_heap::HEAPS_DIRECTORY;
use cedrat_media::{Media, StreamMedia, read_stream};
use cedrat_sync::{Arc, planted};
use cedrat_wal::{CONTROL_FILE, LOG_DIRECTORY, LogError};
use std::io::{Read, Write};

use crate::backup::{BackupOptions, BackupReport};
use crate::error::{Error, Result};
use crate::increment::INCREMENT_FILE;
use crate::store::Store;

impl Store {
    /// Writes a backup to a stream, for example a pipe, as [`backup`](Store::backup) does to a directory. It needs
    /// memory for one piece of the stream, and for the small files of the backup.
    ///
    /// # Errors
    /// Those of [`backup`](Store::backup), and of the stream. The stream is then incomplete, and [`restore_stream`] refuses it.
    pub fn backup_to_stream(
        &self,
        to: impl Write + Send + 'static,
        options: BackupOptions<'_>,
    ) -> Result<BackupReport> {
        let io = |error| Error::io("writing a backup to a stream", error);
        let stream = Arc::new(StreamMedia::new(to, self.inner.log.control().store).map_err(io)?);
        let media: Arc<dyn Media> = Arc::clone(&stream) as _;
        let report = self.backup(&media, options)?;
        stream.finish().map_err(io)?;
        Ok(report)
    }
}

/// Restores the directory of a backup from a stream, durably, and returns the number of bytes of its files. The directory is empty, or
/// is created. A full backup opens as a store; an incremental one is restored together with the backups before it.
///
/// # Errors
/// [`Error::Log`] with [`LogError::AlreadyThere`]: the directory has files. [`Error::Io`]: the stream is torn or changed, or is not a
/// backup stream; errors of the stream and of the directory. After these, the directory does not open as a store or as an increment.
pub fn restore_stream(from: &mut dyn Read, to: &Arc<dyn Media>) -> Result<u64> {
    for directory in ["", LOG_DIRECTORY, HEAPS_DIRECTORY] {
        let names = to.list(directory).map_err(|error| Error::io("listing a directory", error))?;
        if let Some(file) = names.into_iter().next() {
            return Err(LogError::AlreadyThere { file }.into());
        }
    }
    let last: &[&str] = if planted!("torn_stream_restored") { &[] } else { &[CONTROL_FILE, INCREMENT_FILE] };
    read_stream(from, &**to, last).map_err(|error| Error::io("restoring a backup from a stream", error))
}
