//! An open log without a store, as the C interface represents it.

use cedrat_wal::{EntryCursor, EntryLog, EntryLogOptions, Lsn};
use front::media::{Media, RealDisk};
use std::sync::{Arc, Mutex, PoisonError};

use crate::border::Handle;
use crate::options::LogChoices;
use crate::status::{Failure, Result, Status};

/// Target of a `cedrat_log *`.
pub(crate) struct OpenedLog {
    pub(crate) log: EntryLog,
    message: Mutex<String>,
}

/// Target of a `cedrat_log_cursor *`. It keeps its log open.
pub(crate) struct CursorHandle {
    pub(crate) opened: Arc<OpenedLog>,
    pub(crate) cursor: EntryCursor,
}

impl OpenedLog {
    pub(crate) fn open(directory: &str, choices: LogChoices) -> Result<Arc<OpenedLog>> {
        let media: Arc<dyn Media> = Arc::new(RealDisk::new(directory));
        let log = EntryLog::open(&media, &choices.to_options()?)?;
        Ok(Arc::new(OpenedLog { log, message: Mutex::default() }))
    }

    pub(crate) fn cursor(self: &Arc<OpenedLog>, after: u64) -> Result<CursorHandle> {
        let cursor = self.log.cursor(Lsn::new(after))?;
        Ok(CursorHandle { opened: Arc::clone(self), cursor })
    }
}

impl Handle for OpenedLog {
    fn close(self: Arc<OpenedLog>) -> Result<(), (Option<Arc<OpenedLog>>, Failure)> {
        let opened = Arc::try_unwrap(self).map_err(|opened| {
            let text = "a cursor or another call uses the log; close it when that is freed, or has returned";
            (Some(opened), Failure::new(Status::Misuse, text))
        })?;
        opened.log.close().map_err(|error| (None, error.into()))
    }

    fn stop(&self, why: &str) {
        self.log.stop(why);
    }

    fn failed(&self, failure: Failure) -> Status {
        *self.message.lock().unwrap_or_else(PoisonError::into_inner) = failure.text.into_owned();
        failure.status
    }

    fn message(&self) -> String {
        self.message.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl LogChoices {
    pub(crate) fn to_options(self) -> Result<EntryLogOptions> {
        self.check()?;
        let mut options = EntryLogOptions { create: self.must_exist == 0, ..EntryLogOptions::default() };
        if self.log_limit_bytes != 0 {
            options.log.log_bytes_max = self.log_limit_bytes;
        }
        if self.segment_bytes != 0 {
            options.log.segment_len = self.segment_bytes;
        }
        Ok(options)
    }
}
