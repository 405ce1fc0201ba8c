//! The pages of a damaged store: as recovery leaves them, or, if that fails, as they are in the files.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use cedrat::media::{Media, OpenMode};
use cedrat::pages::{PAGE_LEN, PageId};
use cedrat::txn::Store;
use cedrat_media::{AlignedBuf, FileId, read_exact_at};
use cedrat_pages::{PAGE_FILE, PageAtHome, PageBuf, verify};
use cedrat_txn::{GROUP_PAGES, SPACE_MAP};
use cedrat_wal::{LOCK_FILE, Log, StoreId};

use crate::disks::Disks;
use crate::output::{Failure, fail};
use crate::verify::{Recovered, recovered, recovered_without_heaps};

/// The offset of the store's name in `heaps.root`.
const STORE_AT: usize = 24;

/// The pages of a store that may be damaged anywhere.
pub(super) struct Source {
    media: Arc<dyn Media>,
    recovered: Result<Recovered, String>,
    /// Whether the recovered store has the heaps.
    has_heaps: bool,
    home: Option<FileId>,
    pages: u64,
    store: Option<StoreId>,
    /// The space map that was read last.
    map: Mutex<Option<(PageId, Option<PageBuf>)>>,
}

impl Source {
    /// Recovers the store without changing it, if that is possible.
    pub(super) fn open(directory: &Path, disks: &Disks) -> Result<Source, Failure> {
        let media = disks.open(directory)?;
        match media.lock(LOCK_FILE) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return fail(format!("the store in {} is open elsewhere", directory.display()));
            }
            _ => {}
        }
        let recovered = recovered(directory, disks).map(|recovered| (recovered, true)).or_else(|Failure(why)| {
            // Damage of a heap takes no commit from the pages.
            recovered_without_heaps(directory, disks).map(|recovered| (recovered, false)).map_err(|_| why)
        });
        let has_heaps = recovered.as_ref().is_ok_and(|&(_, has_heaps)| has_heaps);
        let recovered = recovered.map(|(recovered, _)| recovered);
        let home = media.open(PAGE_FILE, OpenMode::Read).ok();
        if home.is_none() && media.open("heaps.root", OpenMode::Read).is_err() {
            return fail(format!("{} has neither pages nor heaps; name the folder of a store", directory.display()));
        }
        let at_home = home.and_then(|file| media.len(file).ok()).unwrap_or_default() / PAGE_LEN as u64;
        let pages = recovered.as_ref().map_or(at_home, |recovered| recovered.store.pool().len_pages());
        let store = store_id(&media);
        Ok(Source { media, recovered, has_heaps, home, pages, store, map: Mutex::new(None) })
    }

    pub(super) fn is_recovered(&self) -> bool {
        self.recovered.is_ok()
    }

    /// Returns the reason why the store could not be recovered.
    pub(super) fn problem(&self) -> Option<&str> {
        self.recovered.as_ref().err().map(String::as_str)
    }

    /// Returns the recovered store, if it has the heaps.
    pub(super) fn store_with_heaps(&self) -> Option<&Store> {
        self.store().filter(|_| self.has_heaps)
    }

    /// Returns the recovered store.
    fn store(&self) -> Option<&Store> {
        self.recovered.as_ref().ok().map(|recovered| &recovered.store)
    }

    /// Returns the random name of the store, if any file still has it.
    pub(super) fn store_id(&self) -> Option<StoreId> {
        self.store
    }

    /// Returns the number of pages.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// Returns a page, if it is whole.
    pub(super) fn page(&self, page: PageId) -> Option<PageBuf> {
        if page.get() >= self.pages {
            return None;
        }
        match self.store() {
            Some(store) => store.read(page).ok().map(|view| PageBuf::from_bytes(page, view.bytes())),
            None => self.at_home(page),
        }
    }

    fn at_home(&self, page: PageId) -> Option<PageBuf> {
        let mut bytes = AlignedBuf::zeroed(PAGE_LEN);
        read_exact_at(&*self.media, self.home?, page.file_offset(), &mut bytes).ok()?;
        let image: &[u8; PAGE_LEN] = (&bytes[..]).try_into().expect("the length of a page");
        let is_zero = image.iter().all(|&byte| byte == 0);
        if !is_zero && verify(image, page).is_ok() {
            return Some(PageBuf::from_bytes(page, image));
        }
        let found = PageAtHome::look(&*self.media, page).ok()?;
        if found.damage.is_none() {
            return Some(found.bytes);
        }
        let copy = self.media.open(cedrat_pages::DOUBLE_WRITE_FILE, OpenMode::Read).ok()?;
        read_exact_at(&*self.media, copy, found.copy_at?, &mut bytes).ok()?;
        Some(PageBuf::from_bytes(page, (&bytes[..]).try_into().expect("the length of a page")))
    }

    /// Whether a page is allocated; `None` if that is unknown: the map is damaged, or may be older than the page.
    pub(super) fn is_used(&self, page: PageId) -> Option<bool> {
        if !self.is_recovered() {
            return None;
        }
        let bit = page.get() % GROUP_PAGES;
        let map = PageId::new(page.get() - bit);
        let mut last = self.map.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if last.as_ref().is_none_or(|(known, _)| *known != map) {
            *last = Some((map, self.page(map)));
        }
        let (_, Some(bits)) = last.as_ref()? else { return None };
        let bits = bits.page_ref();
        if bits.kind() != SPACE_MAP {
            // Never written: no page of the group was ever in use.
            return Some(bit == 0);
        }
        Some(bits.body()[(bit / 8) as usize] & 1 << (bit % 8) != 0 || page == cedrat_txn::CATALOGUE)
    }
}

/// Returns the store's name from its control file, or else from the root of its heaps.
fn store_id(media: &Arc<dyn Media>) -> Option<StoreId> {
    if let Ok(found) = Log::look(media) {
        return Some(found.control().store);
    }
    let file = media.open("heaps.root", OpenMode::Read).ok()?;
    let mut bytes = AlignedBuf::zeroed(4096);
    read_exact_at(&**media, file, 0, &mut bytes).ok()?;
    bytes[STORE_AT..STORE_AT + 16].try_into().ok()
}
