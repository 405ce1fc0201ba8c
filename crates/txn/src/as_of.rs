//! Views of stores as they were at any point in time from the end of a backup to the end of an archive (Lemon §3.4; E18.22).
//!
//! 1. The view is the store that a [restore](crate::restore) to that point opens. Its pages are not copied: they are read from the
//!    backup, and the writes of recovery go to a scratch medium.
//! 2. Transactions that had not committed by then are rolled back, also prepared ones: the view does not have their outcome.
//! 3. The log of the view takes no records, so the view takes no changes; plain stores to its heaps are refused.

use cedrat_heap::{HEAPS_DIRECTORY, MemoryOptions};
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

/// The sources of a view of a store, as it was at a point in time.
#[derive(Clone, Debug)]
pub struct View {
    /// The backup, which is only read. The view does not lock it: no program may open it as a store meanwhile.
    pub backup: Arc<dyn Media>,
    /// The archive, which is only read, and may be extended meanwhile. `None`: the view ends with the backup.
    pub archive: Option<Arc<dyn Media>>,
    /// The point in time whose state the view has.
    pub moment: RestoreTarget,
    /// An empty directory for the log since the backup, the heaps, and the pages that were changed since. The caller deletes it when
    /// the view is closed.
    pub scratch: Arc<dyn Media>,
}

/// Opens a read-only view of a store, as it was at a point in time. The store itself may be open, in this process or another one.
/// Returns the view, and the LSN up to which it has all that had committed.
///
/// Changes are refused with [`Error::ReadOnly`]. `options` are those of a store, without an [archive](Options::archive) and without a
/// [backup](Options::backup).
///
/// # Errors
/// Those of [`restore`](crate::restore) and of [`Store::open`]. [`Error::Misuse`]: the options have an archive or a backup.
pub fn open_as_of(view: &View, options: Options, registry: Registry) -> Result<(Store, Lsn), OpenError> {
    Ok(open(view, options, registry)?)
}

fn open(view: &View, options: Options, registry: Registry) -> Result<(Store, Lsn)> {
    if options.archive.is_some() || options.backup.is_some() {
        return Err(Error::Misuse(
            "a view takes neither Options::archive nor Options::backup: set View::archive and View::backup",
        ));
    }
    let view = &encryption::decrypted_view(view, &options)?;
    let overlay = Arc::new(Overlay::new(Arc::clone(&view.backup), Arc::clone(&view.scratch)));
    let failed = |error| Error::io("reading the directory of the backup", error);
    let pages = [PAGE_FILE, WRITTEN_FILE, DOUBLE_WRITE_FILE];
    overlay.keep_unlisted(&pages, &[LOG_DIRECTORY, HEAPS_DIRECTORY]).map_err(failed)?;
    let to: Arc<dyn Media> = Arc::clone(&overlay) as _;
    let moment = if planted!("view_of_newest_moment") { RestoreTarget::Newest } else { view.moment };
    let lsn = restore_parts(&view.backup, view.archive.as_ref(), &to, moment, false)?.up_to;
    overlay.list_all();
    // A view is read and dropped: what redo changes goes to the scratch medium once, whether on demand or before.
    let memory = MemoryOptions { load_on_demand_bytes: u64::MAX, ..options.memory.clone() };
    let options = Options { create: false, redo_on_demand_bytes: u64::MAX, memory, ..options };
    let store = Store::open(to, options, registry)?;
    make_read_only(&store)?;
    Ok((store, lsn))
}

/// Rolls back prepared transactions, and lets the store refuse changes from now on.
pub(crate) fn make_read_only(store: &Store) -> Result<()> {
    for branch in store.in_doubt()? {
        if !planted!("view_keeps_prepared_branch") {
            store.prepared(&branch.id)?.rollback()?;
        }
    }
    if !planted!("view_takes_changes") {
        store.inner.log.refuse_records();
        // No other view and no restore would have them.
        store.inner.memory.refuse_plain_stores();
    }
    Ok(())
}
