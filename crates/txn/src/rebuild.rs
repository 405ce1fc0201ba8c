//! Damaged pages, rebuilt from the archive and a backup while transactions run (Lemon §3.4; LLADD §3.3; E18.17).
//!
//! 1. A page is rebuilt from its newest record that formats it, or else from the backup, or else, if the archive has all records of
//!    the store, from an empty page.
//! 2. All later changes of the page are redone as recovery redoes them. They are in the archive, which is extended first.
//! 3. A change that counts only if its transaction commits counts if the commit is in the archive (E19.5). A change that was not
//!    flushed to the page yet may be in the rebuilt page: the later flush finds it there.
//! 4. Only the archive, its index and the backup are read, under the latch of the page alone.

use std::collections::BTreeSet;

use cedrat_media::Media;
use cedrat_pages::{PageBuf, PageId, Rebuild, copy_of_page};
use cedrat_sync::{Arc, Mutex, Weak, planted};
use cedrat_wal::{
    ArchivedLog, CONTROL_FILE, Found, Kind, Log, LogError, Lsn, Position, Record, RecordIndex, RecordRef, TxnId,
};

use crate::body::{Body, CARRIED, Redo};
use crate::error::{Error, Result};
use crate::recovery::{Change, Uncounted, counts, lsns};
use crate::store::Inner;
use crate::trace::event;

/// A key of a record in the index of the archive. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    /// The record changes the page.
    Page(PageId),
    /// The record formats the page, whatever it was before.
    Formats(PageId),
    /// The record decides which changes of the transaction count.
    Transaction(TxnId),
    /// The record changes the page if its transaction commits.
    CommittedOnly(PageId),
}

impl Key {
    fn number(self) -> u64 {
        match self {
            Key::Page(page) => page.get() << 2,
            Key::Formats(page) => page.get() << 2 | 1,
            Key::Transaction(id) => id.0 << 2 | 2,
            Key::CommittedOnly(page) => page.get() << 2 | 3,
        }
    }
}

/// The means to rebuild pages.
#[derive(Debug)]
pub(crate) struct Rebuilder {
    to: Arc<dyn Media>,
    run_len: u64,
    /// Opened when it is needed.
    index: Mutex<Option<RecordIndex>>,
    backup: Option<Backup>,
    /// The reason why the backup could not be opened.
    unreadable: Option<String>,
}

/// A backup from which pages are rebuilt.
#[derive(Debug)]
struct Backup {
    media: Arc<dyn Media>,
    found: Found,
    /// Whether the archive is known to continue it.
    is_continued: Mutex<bool>,
}

impl Backup {
    fn redo_lsn(&self) -> Lsn {
        self.found.control().checkpoint.redo_lsn
    }

    /// Refuses a backup that the archive does not continue.
    fn check(&self, archived: &ArchivedLog) -> Result<()> {
        let mut is_continued = self.is_continued.lock();
        // The archive may have forgotten what follows the backup since.
        let reaches_it = archived.first() <= self.found.control().checkpoint.scan_lsn;
        let is_known = *is_continued && (reaches_it || planted!("page_of_forgotten_log"));
        if !is_known && !archived.continues(&self.found)? && !planted!("page_of_other_backup") {
            return Err(foreign("a backup that the archive does not continue"));
        }
        *is_continued = true;
        Ok(())
    }
}

fn foreign(found: &'static str) -> Error {
    LogError::Foreign { file: CONTROL_FILE.into(), found, wanted: "a backup of this store that the archive continues" }
        .into()
}

impl Rebuilder {
    /// Opens the backup, if there is one.
    pub(crate) fn open(
        to: &Arc<dyn Media>,
        log: &Log,
        backup: Option<&Arc<dyn Media>>,
        run_len: u64,
    ) -> Result<Rebuilder> {
        let open = |media: &Arc<dyn Media>| {
            let found = Log::look(media)?;
            found.refuse_archive()?;
            if found.control().store != log.control().store {
                return Err(foreign("a backup of another store"));
            }
            Ok(Backup { media: Arc::clone(media), found, is_continued: Mutex::new(false) })
        };
        let (backup, unreadable) = match backup.map(open).transpose() {
            Ok(backup) => (backup, None),
            Err(error @ Error::Log(LogError::Foreign { .. })) => return Err(error),
            // The store needs it only for damaged pages.
            Err(error) => (None, Some(error.to_string())),
        };
        Ok(Rebuilder { to: Arc::clone(to), run_len, index: Mutex::new(None), backup, unreadable })
    }

    /// Checks the backup, and indexes a piece of the archive. Returns the LSN up to which records are indexed, and whether there is more
    /// to index.
    pub(crate) fn prepare(&self, inner: &Inner, archived: &ArchivedLog) -> Result<(Lsn, bool)> {
        let mut index = self.index.lock();
        let index = self.opened(&mut index, archived)?;
        let more = healed(index, archived, &mut |index| {
            Ok(index.catch_up_a_piece(archived, &mut |record, keys| inner.keys_of(archived, record, keys))?)
        })?;
        self.backup(archived)?;
        Ok((index.up_to(), more))
    }

    fn opened<'i>(&self, index: &'i mut Option<RecordIndex>, archived: &ArchivedLog) -> Result<&'i mut RecordIndex> {
        match index {
            Some(index) => Ok(index),
            None => Ok(index.insert(RecordIndex::open(&self.to, archived, self.run_len)?)),
        }
    }

    /// Calls `work` with the index of all archived records. If the index is damaged, it is made again, once.
    fn with_index<T>(
        &self,
        inner: &Inner,
        archived: &ArchivedLog,
        mut work: impl FnMut(&RecordIndex) -> Result<T>,
    ) -> Result<T> {
        let mut index = self.index.lock();
        let index = self.opened(&mut index, archived)?;
        let mut keys = |record: &RecordRef<'_>, keys: &mut Vec<u64>| inner.keys_of(archived, record, keys);
        let mut attempt = |index: &mut RecordIndex| {
            index.catch_up(archived, &mut keys)?;
            work(index)
        };
        healed(index, archived, &mut attempt)
    }

    /// Rebuilds a page, with all of its archived changes.
    pub(crate) fn rebuild(&self, inner: &Inner, archived: &ArchivedLog, page: PageId) -> Result<PageBuf> {
        self.with_index(inner, archived, |index| {
            let history = History { inner, archived, index };
            let (mut rebuilt, since) = self.image(&history, page)?;
            history.redo(&mut rebuilt, since)?;
            Ok(rebuilt)
        })
    }

    /// Returns the backup, if there is one and the archive continues it.
    fn backup(&self, archived: &ArchivedLog) -> Result<Option<&Backup>> {
        match (&self.backup, &self.unreadable) {
            (Some(backup), _) => backup.check(archived).map(|()| Some(backup)),
            (None, Some(why)) => Err(Error::BackupUnreadable { why: why.clone() }),
            (None, None) => Ok(None),
        }
    }

    /// Returns an older image of a page, and the LSN from which on it may lack changes.
    fn image(&self, history: &History<'_>, page: PageId) -> Result<(PageBuf, Lsn)> {
        let first = if planted!("page_with_forgotten_change") { Lsn::ZERO } else { history.archived.first() };
        let formatted = |since| history.formatted(page, since).map(|lsn| lsn.map(|lsn| (PageBuf::new(page), lsn)));
        let since = self.backup.as_ref().map_or(first, |backup| backup.redo_lsn().max(first));
        if let Some(image) = formatted(since)? {
            return Ok(image);
        }
        let of_backup = match self.backup(history.archived).transpose() {
            Some(backup) => backup.and_then(|backup| Ok((copy_of_page(&*backup.media, page)?, since))),
            None => Err(Error::NoImage { page, archived_from: history.archived.first() }),
        };
        // Without the backup, the archive may have the page from its beginning.
        of_backup.or_else(|error| match formatted(first)? {
            Some(image) => Ok(image),
            None if history.archived.first() <= Lsn::new(1) => Ok((PageBuf::new(page), first)),
            None => Err(error),
        })
    }
}

/// Makes an attempt that uses the index. If a file of it is damaged, the index is made again, once.
fn healed<T>(
    index: &mut RecordIndex,
    archived: &ArchivedLog,
    attempt: &mut dyn FnMut(&mut RecordIndex) -> Result<T>,
) -> Result<T> {
    match attempt(index) {
        Err(Error::Log(LogError::Damaged { file, .. })) if index.is_file(&file) => {
            index.rebuild(archived)?;
            attempt(index)
        }
        done => done,
    }
}

/// The archived records, by page.
struct History<'a> {
    inner: &'a Inner,
    archived: &'a ArchivedLog,
    index: &'a RecordIndex,
}

impl History<'_> {
    /// Returns the positions in a layer of the records with a key, without those that this state of the archive does not have: they were
    /// forgotten, or were archived later.
    fn positions(&self, layer: usize, key: Key) -> Result<Vec<Position>> {
        let mut positions = self.index.positions(layer, key.number())?;
        positions.retain(|&at| self.archived.has(at));
        Ok(positions)
    }

    /// Passes the archived records with a key, from an LSN on, to `visit`, in the order of LSNs.
    fn visit(&self, key: Key, since: Lsn, mut visit: impl FnMut(Record) -> Result<()>) -> Result<()> {
        let mut layers = 0..self.index.layers();
        let oldest = layers.find(|&layer| self.index.after(layer) < since).unwrap_or(self.index.layers() - 1);
        for layer in (0..=oldest).rev() {
            let positions = self.positions(layer, key)?;
            let of_partition = |a: &Position, b: &Position| a.partition == b.partition;
            let mut partitions: Vec<_> =
                positions.chunk_by(of_partition).map(|positions| self.archived.records(positions)).collect();
            let mut next = Vec::new();
            for partition in &mut partitions {
                next.push(partition.next()?.map(|record| record.to_record()));
            }
            let first = |next: &[Option<Record>]| {
                let lsns = next.iter().enumerate().filter_map(|(at, record)| Some((record.as_ref()?.lsn, at)));
                lsns.min().map(|(_, at)| at)
            };
            while let Some(at) = first(&next) {
                let following = partitions[at].next()?.map(|record| record.to_record());
                let record = std::mem::replace(&mut next[at], following).expect("there is one");
                if (since..=self.archived.up_to()).contains(&record.lsn) {
                    visit(record)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the LSN of the newest record that formats a page, unless it is before another LSN.
    fn formatted(&self, page: PageId, since: Lsn) -> Result<Option<Lsn>> {
        for layer in 0..self.index.layers() {
            let positions = self.positions(layer, Key::Formats(page))?;
            let mut newest = None;
            let mut records = self.archived.records(&positions);
            while let Some(record) = records.next()? {
                newest = newest.max(Some(record.lsn));
            }
            if newest.is_some() || self.index.after(layer) < since {
                return Ok(newest.filter(|&newest| newest >= since));
            }
        }
        Ok(None)
    }

    /// Redoes all changes of a page from an LSN on.
    fn redo(&self, page: &mut PageBuf, since: Lsn) -> Result<()> {
        let inner = self.inner;
        let id = page.page_ref().id();
        let uncounted = self.uncounted(id, since)?;
        self.visit(Key::Page(id), since, |record| {
            let body = parse(&record)?;
            let as_ref = as_ref(&record);
            if !counts(inner, &uncounted, &as_ref, &body) && !planted!("uncommitted_change_rebuilt") {
                return Ok(());
            }
            let (lsn, newest) = lsns(record.lsn, &body);
            for Redo { operation, at, arguments } in body.redos().filter(|redo| redo.at.page == id) {
                let table = inner.numbers.operation(operation).ok_or_else(|| inner.unregistered(operation))?;
                let redone = inner.redo_change(page, table, &Change { lsn, newest, at, arguments });
                redone.map_err(|misfit| {
                    Error::bad_record(record.lsn, format!("{} cannot be redone: {misfit:?}", inner.name_of(operation)))
                })?;
            }
            Ok(())
        })
    }

    /// Finds the changes of a page that do not count, because their transactions have not committed.
    fn uncounted(&self, page: PageId, since: Lsn) -> Result<Uncounted> {
        let (mut transactions, mut records) = (BTreeSet::new(), Vec::new());
        self.visit(Key::CommittedOnly(page), since, |record| {
            transactions.insert(record.head.txn.0);
            records.push(record);
            Ok(())
        })?;
        let first = records.first().map_or(since, |record| record.lsn);
        for id in transactions {
            self.visit(Key::Transaction(TxnId(id)), first, |record| {
                records.push(record);
                Ok(())
            })?;
        }
        records.sort_by_key(|record| record.lsn);
        records.dedup_by_key(|record| record.lsn);
        let mut uncounted = Uncounted::default();
        for record in &records {
            uncounted.note(&as_ref(record), &parse(record)?);
        }
        Ok(uncounted)
    }
}

fn parse(record: &Record) -> Result<Body<'_>> {
    Body::parse(record.head.kind, &record.body).map_err(|bad| Error::bad_record(record.lsn, bad.0))
}

fn as_ref(record: &Record) -> RecordRef<'_> {
    RecordRef { lsn: record.lsn, position: record.position, head: record.head, body: &record.body }
}

impl Inner {
    /// Adds the keys of an archived record to a list.
    fn keys_of(&self, archived: &ArchivedLog, record: &RecordRef<'_>, keys: &mut Vec<u64>) -> Result<(), LogError> {
        let damaged = |bad: crate::body::Corrupt| {
            let (file, offset) = archived.place(record.position);
            LogError::Damaged { file, offset, what: format!("record {} is corrupt: {}", record.lsn, bad.0) }
        };
        let body = Body::parse(record.head.kind, record.body).map_err(damaged)?;
        for redo in body.redos() {
            let page = redo.at.page;
            keys.push(Key::Page(page).number());
            // A copy formats nothing: the page has had later changes.
            let is_copy = matches!(body, Body::Carried(_)) && !planted!("copy_formats_page");
            if !is_copy && self.numbers.operation(redo.operation).is_some_and(|table| table.formats) {
                keys.push(Key::Formats(page).number());
            }
            if matches!(body.unwrapped(), Body::Update { committed_only: true, .. }) {
                keys.push(Key::CommittedOnly(page).number());
            }
        }
        let tells = match body {
            Body::NestedEnd { goes_back, .. } => goes_back,
            Body::Prepare { is_copy, .. } => is_copy,
            _ => matches!(record.head.kind, Kind::COMMIT | CARRIED),
        };
        if tells {
            keys.push(Key::Transaction(record.head.txn).number());
        }
        Ok(())
    }
}

/// Rebuilds the pages of an open store.
pub(crate) struct RebuildOfStore(Weak<Inner>);

impl RebuildOfStore {
    pub(crate) fn of(inner: &Arc<Inner>) -> Arc<RebuildOfStore> {
        Arc::new(RebuildOfStore(Arc::downgrade(inner)))
    }
}

impl Rebuild for RebuildOfStore {
    fn rebuild(&self, page: PageId) -> Result<PageBuf, String> {
        let inner = self.0.upgrade().ok_or("the store is closed")?;
        let archive = inner.archive.as_ref().ok_or("the store was opened without an archive")?;
        let rebuilt = archive.rebuild(&inner, page).map_err(|error| error.to_string());
        match &rebuilt {
            Ok(_) => {
                event!(WARN, page = page.get(), "damaged page rebuilt");
            }
            Err(_error) => {
                event!(ERROR, page = page.get(), error = %_error, "damaged page not rebuilt");
            }
        }
        rebuilt
    }
}
