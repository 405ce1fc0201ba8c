//! What lies on the disk beside the log.

use cedrat_sync::Arc;
use cedrat_wal::Lsn;

use crate::error::Result;
use crate::heap::Core;
use crate::options::HeapOptions;

#[derive(Debug)]
pub(crate) struct Files;

impl Files {
    pub(crate) fn next_number(&self) -> u32 { 0 }
    pub(crate) fn create(&self, _core: &Arc<Core>, _options: &HeapOptions, _at: Lsn) -> Result<()> { Ok(()) }
    pub(crate) fn remove(&self, _core: &Arc<Core>) -> Result<()> { Ok(()) }
    pub(crate) fn grow(&self, _core: &Arc<Core>, _words: u64) -> Result<()> { Ok(()) }
}
