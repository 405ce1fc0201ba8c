//! A small store of pages without transactions: what the tests of the pool share.
//!
//! Every change of a page is one record whose body is the page's number, an offset and a byte. That is enough to redo.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod watch;

use cedrat_media::{Media, SimDisk};
use cedrat_pages::{LayoutKind, PageId, Pool, PoolError, PoolOptions};
use cedrat_sync::{Arc, Mutex, Weak};
use cedrat_wal::{Kind, Log, LogOptions, Lsn, PartitionId, RecordHead, Reservation, TxnId};
use watch::Watched;

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
        let pool = Arc::new(Pool::open(Arc::clone(media), log.clone(), options).unwrap());
        let reservation = Mutex::new(log.reservation_for_recovery());
        Yard { log, pool, reservation }
    }

    /// A new disk with a yard of so many pages on it.
    pub(crate) fn simulated(options: PoolOptions, pages: u64) -> (Arc<SimDisk>, Yard) {
        let disk = Arc::new(SimDisk::new());
        let media: Arc<dyn Media> = disk.clone();
        (disk, Yard::create(&media, options, pages))
    }

    /// As [`Yard::simulated`], with a redo point noted in the journal before every write and sync.
    pub(crate) fn watched(options: PoolOptions, pages: u64) -> (Arc<SimDisk>, Yard) {
        let disk = Arc::new(SimDisk::new());
        let watched = Arc::new(Watched { disk: disk.clone(), pool: Mutex::new(Weak::new()) });
        let media: Arc<dyn Media> = watched.clone();
        let yard = Yard::create(&media, options, pages);
        *watched.pool.lock() = Arc::downgrade(&yard.pool);
        (disk, yard)
    }

    /// Opens what a crash has left, and redoes it from `redo_point` on.
    pub(crate) fn recovered(media: &Arc<dyn Media>, options: PoolOptions, redo_point: Lsn) -> Yard {
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
        let yard = Yard::over(media, log, options);
        for (lsn, body) in records {
            let (page, offset, byte) = decoded(&body);
            yard.pool.ensure_len(page.get() + 1).unwrap();
            let mut exclusive = yard.pool.exclusive(page).unwrap();
            if exclusive.page_ref().lsn() < lsn {
                exclusive.will_change(lsn);
                exclusive
                    .change(lsn, |page| {
                        page.put(offset, &[byte])?;
                        page.put_u64(4000, lsn.get())
                    })
                    .unwrap();
            }
        }
        yard
    }

    /// Sets a byte of a page, as the one road of an update does. The page also notes its LSN in its body.
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

    /// Makes a page raw, in one step.
    pub(crate) fn format(&self, page: PageId) -> Lsn {
        let mut exclusive = self.pool.exclusive_fresh(page).unwrap();
        exclusive.will_change(self.log.current_lsn().next());
        let lsn = self.append(page, 0, 0);
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
