//! A small store of pages without transactions, shared by the tests of the pool.
//!
//! Every change of a page is one record whose body is the page's number, an offset and a byte. That is enough to redo.

#![allow(dead_code, reason = "each test file uses its part")]

use cedrat_media::{Call, Media, SimDisk};
use cedrat_pages::{LayoutKind, PageId, Pool, PoolError, PoolOptions};
use cedrat_sync::{Arc, Mutex};
use cedrat_wal::{Kind, Log, LogOptions, Lsn, PartitionId, RecordHead, Reservation, TxnId};

/// Marks of this kind carry a redo point; others the LSN of a change.
pub(crate) const REDO_POINT: u64 = 1 << 40;

/// The offset in a record that formats its page.
const FORMAT: usize = 0xFFFF;

pub(crate) struct Yard {
    pub(crate) log: Log,
    pub(crate) pool: Arc<Pool>,
    reservation: Mutex<Reservation>,
}

pub(crate) fn options(capacity_pages: usize) -> PoolOptions {
    let mut options = PoolOptions::default();
    options.capacity_pages = capacity_pages;
    options.pages_max = 4096;
    options
}

impl Yard {
    pub(crate) fn create(media: &Arc<dyn Media>, options: PoolOptions, pages: u64) -> Yard {
        let log = Log::create(media, &LogOptions::small(), &[]).unwrap();
        let yard = Yard::over(media, log, options);
        yard.pool.ensure_len(pages).unwrap();
        yard
    }

    pub(crate) fn over(media: &Arc<dyn Media>, log: Log, options: PoolOptions) -> Yard {
        Yard::try_over(media, log, options).unwrap()
    }

    fn try_over(media: &Arc<dyn Media>, log: Log, options: PoolOptions) -> Result<Yard, PoolError> {
        let pool = Arc::new(Pool::open(Arc::clone(media), log.clone(), options)?);
        let reservation = Mutex::new(log.reservation_for_recovery());
        Ok(Yard { log, pool, reservation })
    }

    /// Creates a new disk with a store of so many pages.
    pub(crate) fn simulated(options: PoolOptions, pages: u64) -> (Arc<SimDisk>, Yard) {
        let disk = Arc::new(SimDisk::new());
        let media: Arc<dyn Media> = disk.clone();
        (disk, Yard::create(&media, options, pages))
    }

    /// Creates a disk and a store as [`Yard::simulated`] does, and notes a redo point in the journal before every
    /// write and sync.
    pub(crate) fn watched(options: PoolOptions, pages: u64) -> (Arc<SimDisk>, Yard) {
        let (disk, yard) = Yard::simulated(options, pages);
        let pool = Arc::downgrade(&yard.pool);
        disk.before_each_call(move |disk, call, _| {
            if matches!(call, Call::Write | Call::Sync)
                && let Some(pool) = pool.upgrade()
            {
                disk.mark(REDO_POINT | pool.redo_point().get());
            }
        });
        (disk, yard)
    }

    /// Opens the state after a crash, and redoes the log from `redo_point` on.
    pub(crate) fn recovered(media: &Arc<dyn Media>, options: PoolOptions, redo_point: Lsn) -> Yard {
        Yard::try_recovered(media, options, redo_point).unwrap()
    }

    /// Opens and redoes as [`Yard::recovered`] does, but pages may be damaged.
    pub(crate) fn try_recovered(
        media: &Arc<dyn Media>,
        options: PoolOptions,
        redo_point: Lsn,
    ) -> Result<Yard, PoolError> {
        let found = Log::look(media).unwrap();
        let mut records = Vec::new();
        let mut scan = found.scan(Lsn::new(1)).unwrap();
        while let Some(scanned) = scan.next().unwrap() {
            if scanned.record.head.kind == Kind::UPDATE && scanned.record.lsn >= redo_point {
                records.push((scanned.record.lsn, scanned.record.body.to_vec()));
            }
        }
        drop(scan);
        let log = found.begin(&[], &LogOptions::small()).unwrap();
        let yard = Yard::try_over(media, log, options)?;
        for (lsn, body) in records {
            let (page, offset, byte) = decoded(&body);
            yard.pool.ensure_len(page.get() + 1)?;
            let formats = offset == FORMAT;
            let mut exclusive = if formats { yard.pool.exclusive_fresh(page)? } else { yard.pool.exclusive(page)? };
            if exclusive.page_ref().lsn() < lsn {
                exclusive.will_change(lsn);
                exclusive
                    .change(lsn, |page| {
                        if formats {
                            page.format(LayoutKind::RAW);
                            return Ok(());
                        }
                        page.put(offset, &[byte])?;
                        page.put_u64(4000, lsn.get())
                    })
                    .unwrap();
            }
        }
        Ok(yard)
    }

    /// Sets a byte of a page, by the same steps as an update. The page also notes its LSN in its body.
    pub(crate) fn set(&self, page: PageId, offset: usize, byte: u8) -> Result<Lsn, PoolError> {
        let mut exclusive = self.pool.exclusive(page)?;
        exclusive.will_change(self.log.current_lsn().next());
        let lsn = self.append(page, offset, byte);
        exclusive
            .change(lsn, |page| {
                page.put(offset, &[byte])?;
                page.put_u64(4000, lsn.get())
            })
            .unwrap();
        Ok(lsn)
    }

    pub(crate) fn append(&self, page: PageId, offset: usize, byte: u8) -> Lsn {
        let mut body = page.get().to_le_bytes().to_vec();
        body.extend((offset as u16).to_le_bytes());
        body.push(byte);
        let mut reservation = self.reservation.lock();
        let head = RecordHead::new(Kind::UPDATE, TxnId(1), None);
        self.log.append(PartitionId(0), head, &[&body], &mut reservation).lsn
    }

    /// Formats a page as raw, in one step.
    pub(crate) fn format(&self, page: PageId) -> Lsn {
        let mut exclusive = self.pool.exclusive_fresh(page).unwrap();
        exclusive.will_change(self.log.current_lsn().next());
        let lsn = self.append(page, FORMAT, 0);
        exclusive.change(lsn, |page| page.format(LayoutKind::RAW));
        lsn
    }

    pub(crate) fn byte(&self, page: PageId, offset: usize) -> Result<u8, PoolError> {
        Ok(self.pool.read(page)?.body()[offset])
    }
}

fn decoded(body: &[u8]) -> (PageId, usize, u8) {
    let page = PageId::new(u64::from_le_bytes(body[..8].try_into().unwrap()));
    (page, usize::from(u16::from_le_bytes([body[8], body[9]])), body[10])
}

pub(crate) fn page(number: u64) -> PageId {
    PageId::new(number)
}
