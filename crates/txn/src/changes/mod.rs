//! The change stream: the transactions that have committed, with what each has changed.
//!
//! ```text
//!   log       │ update A │ update B │ commit B │ update A │ commit A │ …
//!   stream                            B: change             A: change, change
//! ```
//!
//! A stream reads the log, not the pages, and delays no transaction. It takes the commit records in the order of LSNs; from each it
//! follows the chain of its transaction backwards (`chain.rs`). Each record is delivered as the changes that its operation declares
//! ([`Operation::meaning`](crate::Operation::meaning)).
//!
//! 1. Each committed transaction is delivered once, in the order of the LSNs of commit records, and no other (E23.1).
//! 2. Its changes are those that its commit has made effective, in the order of their records (E23.2).
//! 3. A token is enough to resume: it names the position, and the first record that is needed from there on (E23.3).
//! 4. A named consumer keeps the log from its token on (`consumers`, E23.4).
//! 5. A transaction of any length is read with bounded memory (E23.5).

mod chain;
mod change;
mod open;
mod set;
mod source;
mod token;
mod wait;

use std::fmt;

use cedrat_sync::{Arc, planted};
use cedrat_wal::{Found, FoundArchive, Kind, LogError, LogOffset, Lsn, Position, Scan, StoreId, TxnId};

use crate::error::{Error, Result};
use crate::registry::Registry;
use crate::store::Store;

pub use change::{Change, Meaning};
use open::OpenTransactions;
pub use set::ChangeSet;
use source::{Files, Origin, Source};
pub use token::StreamToken;
pub(crate) use wait::Signal;

/// A stream of the transactions that have committed: see [`Store::changes`].
///
/// It keeps its store open. It is used by one thread at a time; any number of streams may read at once.
pub struct ChangeStream {
    origin: Origin,
    store: StoreId,
    /// The name of the consumer that reads it.
    consumer: Option<String>,
    source: Option<Source>,
    scan: Option<Scan>,
    /// The last record of the scan that counts.
    end: Lsn,
    open: OpenTransactions,
    /// All records up to this one were noted.
    scanned: Lsn,
    /// All commits up to this one were delivered, or are left out.
    position: Lsn,
    /// The archive is read at least up to here.
    archive_up_to: Lsn,
    signal: std::sync::Arc<Signal>,
}

/// A commit record.
#[derive(Debug)]
struct CommitRecord {
    lsn: Lsn,
    txn: TxnId,
    at: Position,
    previous: Option<LogOffset>,
    /// The newest record of its transaction before copies that lack changes.
    original: Option<LogOffset>,
    body: Vec<u8>,
}

impl Store {
    /// Returns the stream of the transactions whose commit records have this LSN or a later one, in the order of these.
    ///
    /// The stream does not keep the log: if a checkpoint truncates log that it has not read yet, it reads the archive, or ends with
    /// an error. A [consumer](Store::consumer) keeps the log.
    ///
    /// ```
    /// use cedrat_txn::{Change, FormatFresh, Options, RecordId, Registry, Store};
    /// # use std::sync::Arc;
    /// # use cedrat_media::SimDisk;
    /// # use cedrat_pages::LayoutKind;
    /// # use cedrat_wal::Lsn;
    /// let registry = Registry::new().record_kind("shop.sold");
    /// let store = Store::open(Arc::new(SimDisk::new()), Options::simulated(), registry)?;
    /// store.transact(|txn| txn.log_record("shop.sold", b"a chair"))?;
    /// let mut stream = store.changes(Lsn::ZERO)?;
    /// let mut sold = stream.next()?.expect("a transaction has committed");
    /// let change = sold.next()?.expect("it has logged a record");
    /// assert_eq!(change, Change::Record { kind: "shop.sold".into(), bytes: b"a chair".to_vec() });
    /// assert!(stream.next()?.is_none(), "no other one has");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ChangesLost`]: neither the log nor the archive goes back to this LSN. Errors of the log or of the archive.
    pub fn changes(&self, from: Lsn) -> Result<ChangeStream> {
        self.inner.alive_here()?;
        let kept_from = self.inner.consumers.kept_from();
        let mut begin = kept_from;
        if from.max(Lsn::new(1)) < kept_from {
            let archive = self.inner.archive.as_ref().map(|archive| archive.look()).transpose()?;
            begin = archive.map_or(kept_from, |archive| archive.lsns().0);
            if from.max(Lsn::new(1)) < begin {
                return Err(Error::ChangesLost { consumer: None, from, kept_from: begin });
            }
        }
        Ok(ChangeStream::new(Origin::Store(self.clone()), self.name(), begin.previous(), from.previous()))
    }

    /// Returns the stream of the transactions that have committed after a position.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a token of another store, or a position that this store has not reached. Those of
    /// [`changes`](Store::changes), at the first transaction.
    pub fn changes_after(&self, token: &StreamToken) -> Result<ChangeStream> {
        self.inner.alive_here()?;
        self.check_token(token)?;
        let before = token.needs.previous().min(token.position);
        Ok(ChangeStream::new(Origin::Store(self.clone()), token.store, before, token.position))
    }

    pub(crate) fn check_token(&self, token: &StreamToken) -> Result<()> {
        if token.store != self.name() {
            return Err(Error::Misuse("the token belongs to the change stream of another store"));
        }
        if token.position > self.inner.log.durable_lsn() {
            return Err(Error::Misuse(
                "the token is of a later state of the store than this one, which was restored from a copy",
            ));
        }
        Ok(())
    }

    /// Returns the random name of the store.
    fn name(&self) -> StoreId {
        self.inner.log.control().store
    }
}

impl ChangeStream {
    /// `scanned`: the LSN before the first record to read; `position`: the LSN up to which commits are left out.
    fn new(origin: Origin, store: StoreId, scanned: Lsn, position: Lsn) -> ChangeStream {
        let (source, scan, open) = (None, None, OpenTransactions::default());
        let (consumer, end, archive_up_to) = (None, Lsn::ZERO, Lsn::ZERO);
        let signal = std::sync::Arc::default();
        ChangeStream { origin, store, consumer, source, scan, end, open, scanned, position, archive_up_to, signal }
    }

    pub(crate) fn of_consumer(store: &Store, token: &StreamToken, name: &str) -> Result<ChangeStream> {
        let mut stream = store.changes_after(token)?;
        stream.consumer = Some(name.to_owned());
        Ok(stream)
    }

    /// Returns the stream of a store that is not open here, as far as its log is kept: for tools. `kept_from` is the LSN from which
    /// on the log has all records ([`kept_from`](crate::consumers_of)).
    pub fn of_files(found: Found, registry: &Registry, kept_from: Lsn, from: Lsn) -> ChangeStream {
        let store = found.control().store;
        let files = Arc::new(Files::new(found, registry, kept_from));
        ChangeStream::new(Origin::Files(files), store, kept_from.previous(), from.previous())
    }

    /// Returns the token of the present position: all transactions that have committed up to there were delivered.
    pub fn token(&self) -> StreamToken {
        let position = self.position.max(self.scanned);
        let needs =
            if planted!("token_forgets_open_transactions") { position.next() } else { self.open.needs(position) };
        // What is read again before the position is not delivered again.
        let needs = if self.scanned < self.position { needs.min(self.scanned.next()) } else { needs };
        StreamToken { store: self.store, position, needs }
    }

    /// Leaves out all transactions with a commit record up to this LSN.
    pub fn skip_to(&mut self, lsn: Lsn) {
        self.position = self.position.max(lsn);
    }

    /// Returns the next transaction that has committed durably, if there is one now. [`ChangeStream::wait`] waits for more.
    ///
    /// # Errors
    /// [`Error::ChangesLost`]; errors of the log or the archive; [`Error::Stopped`]. The position stays as it was: the next call
    /// tries again.
    #[allow(clippy::should_implement_trait)] // it lends
    pub fn next(&mut self) -> Result<Option<ChangeSet<'_>>> {
        let before = self.token();
        let commit = self.next_commit_from(before)?;
        Ok(commit.map(|commit| ChangeSet::new(self, commit, before)))
    }

    /// Returns the next commit record behind the present position. If log is truncated meanwhile, it goes on in the archive.
    fn next_commit_from(&mut self, before: StreamToken) -> Result<Option<CommitRecord>> {
        loop {
            let error = match self.next_commit() {
                Ok(commit) => return Ok(commit),
                Err(error) => error,
            };
            self.go_back(before, error)?;
        }
    }

    /// Returns to a position after an error. If log was truncated that the archive has, the caller goes on; else the error is
    /// returned.
    fn go_back(&mut self, to: StreamToken, error: Error) -> Result<()> {
        self.open.clear();
        (self.scan, self.source) = (None, None);
        (self.scanned, self.position) = (to.needs.previous().min(to.position), to.position);
        let kept_from = self.kept_from();
        let is_truncated = match &error {
            Error::Log(LogError::Truncated { .. }) => true,
            Error::Log(LogError::Damaged { .. }) => to.needs < kept_from,
            _ => false,
        };
        let Origin::Store(store) = &self.origin else {
            return Err(if is_truncated { self.lost(to.needs, kept_from) } else { error });
        };
        let durable = store.inner.log.durable_lsn();
        match is_truncated {
            true if store.inner.archive.is_some() && self.archive_up_to < durable => self.archive_up_to = durable,
            true => return Err(self.lost(to.needs, kept_from)),
            false => return Err(error),
        }
        Ok(())
    }

    fn next_commit(&mut self) -> Result<Option<CommitRecord>> {
        while self.scan.is_some() || self.begin_scan()? {
            let scan = self.scan.as_mut().expect("it was begun");
            let Some(scanned) = scan.next()?.filter(|scanned| scanned.record.lsn <= self.end) else {
                self.scan = None;
                self.scanned = self.end;
                continue;
            };
            let record = scanned.record;
            let noted = self.open.note(&record)?;
            self.scanned = record.lsn;
            if record.head.kind == Kind::COMMIT && record.lsn > self.position {
                if let Some(from) = noted.lost {
                    return Err(self.lost(from, self.kept_from()));
                }
                self.position = record.lsn;
                return Ok(Some(CommitRecord {
                    lsn: record.lsn,
                    txn: record.head.txn,
                    at: record.position,
                    previous: record.head.previous,
                    original: noted.original,
                    body: record.body.to_vec(),
                }));
            }
        }
        Ok(None)
    }

    /// Begins a scan of what follows; `false` if nothing does.
    fn begin_scan(&mut self) -> Result<bool> {
        let Some(source) = self.choose_source()? else { return Ok(false) };
        self.end = source.end();
        if self.end <= self.scanned {
            return Ok(false);
        }
        self.scan = Some(source.scan(self.scanned.next())?);
        self.source = Some(source);
        Ok(true)
    }

    /// Returns where the next records are read; `None` if there are none yet.
    fn choose_source(&self) -> Result<Option<Source>> {
        let needs = self.open.needs(self.scanned);
        let store = match &self.origin {
            Origin::Store(store) => store,
            Origin::Files(files) if needs < files.kept_from => return Err(self.lost(needs, files.kept_from)),
            Origin::Files(files) => return Ok(Some(Source::Files(Arc::clone(files)))),
        };
        store.inner.alive_here()?;
        let kept_from = store.inner.consumers.kept_from();
        if needs >= kept_from && self.scanned >= self.archive_up_to {
            return Ok(Some(Source::Live(store.inner.log.clone())));
        }
        let Some(archive) = &store.inner.archive else { return Err(self.lost(needs, kept_from)) };
        let is_newer = |found: &FoundArchive| found.lsns().1 > self.scanned;
        if let Some(Source::Archive(found)) = &self.source
            && is_newer(found)
        {
            return Ok(self.source.clone());
        }
        let mut found = archive.look()?;
        if !is_newer(&found) && store.inner.log.durable_lsn() > self.scanned {
            store.extend_archive()?;
            found = archive.look()?;
        }
        let begin = found.lsns().0;
        if needs < begin {
            return Err(self.lost(needs, begin));
        }
        Ok(Some(Source::Archive(Arc::new(found))))
    }

    /// Returns the LSN from which on the log has all records.
    fn kept_from(&self) -> Lsn {
        match &self.origin {
            Origin::Store(store) => store.inner.consumers.kept_from(),
            Origin::Files(files) => files.kept_from,
        }
    }

    fn lost(&self, from: Lsn, kept_from: Lsn) -> Error {
        Error::ChangesLost { consumer: self.consumer.clone(), from, kept_from }
    }
}

impl fmt::Debug for ChangeStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeStream").field("token", &self.token()).finish_non_exhaustive()
    }
}
