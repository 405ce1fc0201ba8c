//! Stores as they were: a backup and an archive, read as of any moment between its end and the archive's (Lemon §3.4; E18.22).
//!
//! 1. The view is the store that a [restore](crate::restore) to the moment opens. Its pages are not copied: they are read from the
//!    backup, and what the recovery changes goes to a scratch medium.
//! 2. Transactions that had not committed at the moment are rolled back, also prepared ones: whether they have committed later is
//!    not known then.
//! 3. The view takes no records, and so no changes.

use cedrat_heap::HEAPS_DIRECTORY;
use cedrat_media::{Media, Overlay};
use cedrat_pages::{DOUBLE_WRITE_FILE, PAGE_FILE, WRITTEN_FILE};
use cedrat_sync::{Arc, planted};
use cedrat_wal::{LOG_DIRECTORY, Lsn};

use crate::encryption;
use crate::error::{Error, OpenError, Result};
use crate::options::Options;
use crate::registry::Registry;
use crate::restore::{RestoreTarget, restore_parts};
use crate::store::Store;

/// A store as it was at a moment.
#[derive(Clone, Debug)]
pub struct View {
    /// The backup, which is only read. No program may open it as a store meanwhile.
    pub backup: Arc<dyn Media>,
    /// The archive, which is only read, and may be extended meanwhile. `None`: the moment at which the backup ends is the only one.
    pub archive: Option<Arc<dyn Media>>,
    /// The moment.
    pub moment: RestoreTarget,
    /// An empty directory for the log since the backup, the heaps, and the pages that were changed since. The caller deletes it.
    pub scratch: Arc<dyn Media>,
}

/// Opens a store as it was at a moment, to be read. The store itself may be open, in this process or another one. Returns the view, and
/// the LSN as of which it is.
///
/// Changes are refused with [`Error::ReadOnly`]. `options` are those of a store; a view has no [archive](Options::archive) of its own.
///
/// # Errors
/// Those of [`restore`](crate::restore) and of [`Store::open`]. [`Error::Misuse`]: the options have an archive.
pub fn open_as_of(view: &View, options: Options, registry: Registry) -> Result<(Store, Lsn), OpenError> {
    Ok(open(view, options, registry)?)
}

fn open(view: &View, options: Options, registry: Registry) -> Result<(Store, Lsn)> {
    if options.archive.is_some() || options.backup.is_some() {
        return Err(Error::Misuse(
            "Options::archive and Options::backup: a view has neither; set View::archive and View::backup",
        ));
    }
    let view = &encryption::decrypted_view(view, &options)?;
    let overlay = Arc::new(Overlay::new(Arc::clone(&view.backup), Arc::clone(&view.scratch)));
    let failed = |error| Error::io("reading the directory of the backup", error);
    let pages = [PAGE_FILE, WRITTEN_FILE, DOUBLE_WRITE_FILE];
    overlay.keep_unlisted(&pages, &[LOG_DIRECTORY, HEAPS_DIRECTORY]).map_err(failed)?;
    let to: Arc<dyn Media> = Arc::clone(&overlay) as _;
    let lsn = restore_parts(&view.backup, view.archive.as_ref(), &to, view.moment, false)?.up_to;
    overlay.list_all();
    let store = Store::open(to, Options { create: false, ..options }, registry)?;
    for branch in store.in_doubt()? {
        if !planted!("view_keeps_prepared_branch") {
            store.prepared(&branch.id)?.rollback()?;
        }
    }
    if !planted!("view_takes_changes") {
        store.inner.log.refuse_records();
    }
    Ok((store, lsn))
}
