//! Named consumers of the change stream (E23.4).
//!
//! 1. A consumer has a durable position: the token that it has confirmed last. It lies in a file beside the control file, because
//!    a checkpoint needs it before the first page of an opening is read, and tools read it without an opening.
//! 2. The log is kept from the first record on that the token needs. A checkpoint writes that to the control file, as for an
//!    archive, so that a later opening keeps it, too.
//! 3. A consumer that keeps more log than its limit, or keeps log when the log is full, is released: first in the file, then the log
//!    is truncated. So a consumer never refuses a transaction.
//! 4. A released consumer goes on in the archive, if there is one. When its token needs no more than the log has, it keeps the
//!    log again.
//! 5. The log has all records from the smallest of these LSNs on: the scan point of the checkpoint, and what consumers that are not
//!    released need. No other part of the log is read.
//! 6. A [replica](crate::replicas) is a consumer that gets blocks of the log instead of changes. It needs them from certain offsets on,
//!    also if they have no record; until it connects, an opening keeps what the one before has kept.

mod file;
mod replica;

use std::collections::HashMap;

use cedrat_media::{Media, OpenMode};
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, Mutex, planted};
use cedrat_wal::{Control, Log, LogOffset, LogPosition, Lsn};

use crate::changes::{ChangeStream, StreamToken};
use crate::error::{Error, Result};
use crate::store::{Inner, Store};
pub use file::CONSUMERS_FILE;
use file::{ConsumersFile, Entry, NAME_LEN_MAX};

/// The reason why a consumer of the change stream is refused.
const IS_REPLICA: &str =
    "a replica of the store has this name: choose another one for the consumer of the change stream";

/// Options of a consumer, which take effect when it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerOptions {
    /// The number of bytes of log that it may keep. It should be well below
    /// [`Options::log_limit_bytes`](crate::Options::log_limit_bytes): a full log releases the consumer in any case.
    pub limit_bytes: u64,
}

impl Default for ConsumerOptions {
    /// A limit of 256 MiB.
    fn default() -> ConsumerOptions {
        ConsumerOptions { limit_bytes: 256 << 20 }
    }
}

/// The state of a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerStatus {
    /// Its name.
    pub name: String,
    /// All commits up to this LSN were confirmed.
    pub position: Lsn,
    /// The first LSN that it needs. It lies before the position while transactions are open.
    pub needs: Lsn,
    /// Whether it is a [replica](Store::replica_server), and not a consumer of the change stream.
    pub is_replica: bool,
    /// The number of bytes of log that it may keep.
    pub limit_bytes: u64,
    /// The number of bytes of log that it kept when it was released, beyond its limit or in a full log; `None`: it keeps the log.
    pub released_bytes: Option<u64>,
    /// Whether the log lacks records that it needs. An archive may have them.
    pub lacks_log: bool,
    /// The number of bytes in the log from the first LSN on that it needs; `None` for a store that is not open.
    pub lag_bytes: Option<u64>,
}

impl ConsumerStatus {
    fn of(entry: &Entry, kept_from: Lsn) -> ConsumerStatus {
        ConsumerStatus {
            name: entry.name.clone(),
            position: entry.position,
            needs: entry.needs,
            is_replica: entry.is_replica,
            limit_bytes: entry.limit,
            released_bytes: entry.released,
            lacks_log: entry.needs < kept_from,
            lag_bytes: None,
        }
    }
}

/// Reads the consumers of a store that may be open elsewhere, and the LSN from which on its log has all records: for tools.
///
/// # Errors
/// The file of consumers is damaged, or cannot be read.
pub fn consumers_of(media: &Arc<dyn Media>, control: &Control) -> Result<(Vec<ConsumerStatus>, Lsn)> {
    let file = ConsumersFile::open(media, OpenMode::Read)?;
    let kept_from = kept_from(&file, control.checkpoint.scan_lsn);
    Ok((file.entries().map(|entry| ConsumerStatus::of(entry, kept_from)).collect(), kept_from))
}

/// Returns the LSN from which on a log has all records.
fn kept_from(file: &ConsumersFile, scan_lsn: Lsn) -> Lsn {
    let keeping = file.entries().filter(|entry| entry.released.is_none());
    keeping.map(|entry| entry.needs).fold(scan_lsn, Lsn::min).max(Lsn::new(1))
}

/// The consumers of an open store.
#[derive(Debug)]
pub(crate) struct Consumers {
    state: Mutex<State>,
    kept_from: AtomicU64,
}

#[derive(Debug)]
struct State {
    file: ConsumersFile,
    /// For each partition, the offset from which on replicas need it that have not connected in this opening.
    kept_before: Vec<LogOffset>,
    /// For each replica that has connected, what it has; the file may have an older position.
    replicas: HashMap<String, LogPosition>,
    /// The replicas that get a base, and the number of bases that each gets.
    bases: HashMap<String, usize>,
    /// Whether this opening has written what it has read: the bytes may be in a cache that a power failure clears (R6a).
    is_settled: bool,
}

impl State {
    /// Writes again what was read, before anything relies on it.
    fn settle(&mut self) -> Result<()> {
        if !self.is_settled {
            let entries: Vec<_> = self.file.entries().cloned().collect();
            entries.into_iter().try_for_each(|entry| self.file.put(entry))?;
            self.is_settled = true;
        }
        Ok(())
    }
}

impl Consumers {
    /// Reads the consumers of a store that is being opened. Nothing is written.
    pub(crate) fn open(media: &Arc<dyn Media>, log: &Log) -> Result<Consumers> {
        let file = ConsumersFile::open(media, OpenMode::ReadWrite)?;
        let control = log.control();
        let kept_from = AtomicU64::new(kept_from(&file, control.checkpoint.scan_lsn).get());
        let kept_before = control.partitions.iter().map(|known| known.scan_from).collect();
        let state = State { file, kept_before, replicas: HashMap::new(), bases: HashMap::new(), is_settled: false };
        Ok(Consumers { state: Mutex::new(state), kept_from })
    }

    /// Returns the LSN from which on the log has all records.
    pub(crate) fn kept_from(&self) -> Lsn {
        Lsn::new(self.kept_from.load(Ordering::Acquire))
    }

    /// Whether a consumer keeps log before an LSN.
    pub(crate) fn keep_log_before(&self, lsn: Lsn) -> bool {
        let state = self.state.lock();
        let keeps = |entry: Entry| entry.released.is_none() && entry.needs < lsn;
        state.file.entries().map(|entry| state.confirmed(entry)).any(keeps)
    }

    /// Returns the consumers that keep log, and the first LSN that each needs.
    pub(crate) fn keeping(&self) -> Vec<(String, Lsn)> {
        let state = self.state.lock();
        let keeping = state.file.entries().filter(|entry| entry.released.is_none());
        keeping.map(|entry| (entry.name.clone(), entry.needs)).collect()
    }

    /// Lowers the offsets from which on a checkpoint keeps the log, to what consumers need besides the log from `scan_lsn` on. One
    /// that keeps too much is released first. `is_full`: the log is full, or is to forget its epochs.
    pub(crate) fn limit_truncation(
        &self,
        log: &Log,
        scan_lsn: Lsn,
        is_full: bool,
        offsets: &mut Vec<LogOffset>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        state.settle()?;
        let keeps = |entry: &Entry| entry.released.is_none() && (entry.needs < scan_lsn || entry.is_replica);
        let keeping: Vec<_> = state.file.entries().map(|entry| state.confirmed(entry)).filter(keeps).collect();
        let mut kept_from = scan_lsn;
        for entry in keeping {
            let bytes = log.bytes_since(entry.needs).0;
            // A replica that has all records up to the scan point keeps a segment of each partition at most.
            let keeps_records = entry.needs < scan_lsn && (!entry.is_replica || entry.position.next() < scan_lsn);
            let gets_base = state.bases.contains_key(&entry.name) && !planted!("log_of_running_base_released");
            let is_beyond = bytes > entry.limit && !gets_base;
            let is_released = keeps_records && (is_beyond || is_full && !planted!("consumer_fills_log"));
            if is_released && !planted!("release_not_noted") {
                state.file.put(Entry { released: Some(bytes), ..entry })?;
            } else if !is_released {
                kept_from = kept_from.min(entry.needs);
                state.keep_for_replica(&entry, offsets);
            }
        }
        if kept_from < scan_lsn && !planted!("log_of_consumer_truncated") {
            let kept = log.offsets_from(kept_from);
            offsets.resize(kept.len(), LogOffset::new(u64::MAX));
            offsets.iter_mut().zip(kept).for_each(|(offset, from)| *offset = from.min(*offset));
        }
        self.kept_from.fetch_max(kept_from.get(), Ordering::AcqRel);
        Ok(())
    }

    fn put(&self, mut entry: Entry, is_wanted: impl FnOnce(Option<&Entry>) -> bool) -> Result<()> {
        let mut state = self.state.lock();
        if !is_wanted(state.file.find(&entry.name)) {
            return Ok(());
        }
        if entry.needs < self.kept_from() {
            entry.released.get_or_insert(0);
        }
        state.file.put(entry)
    }

    fn find(&self, name: &str) -> Result<Entry> {
        let found = self.state.lock().file.find(name).cloned();
        found.ok_or_else(|| Error::NoSuchConsumer { name: name.into() })
    }
}

impl Inner {
    /// Returns the present position: each transaction that has not committed up to there has its records from the second LSN on.
    fn present_position(&self) -> Result<(Lsn, Lsn)> {
        // The clock before the table, and the table before the position: a transaction that commits later is in the table, or has
        // its first record behind the clock.
        let clock = self.log.current_lsn().next();
        let oldest = self.table.oldest().map_or(clock, |entry| entry.kept_from());
        let position = self.log.current_lsn();
        self.log.force(position)?;
        Ok((position, oldest.min(clock)))
    }
}

/// A named consumer of the change stream of a store: see [`Store::consumer`]. It keeps the store open.
#[derive(Clone, Debug)]
pub struct Consumer {
    store: Store,
    name: String,
}

impl Store {
    /// Returns the consumer of this name, which is created if there is none: then it gets the transactions that commit from now on.
    ///
    /// A consumer reads its [stream](Consumer::changes), and [confirms](Consumer::confirm) what it has processed. It gets
    /// each transaction at least once, also after a crash, and keeps the log until then: up to a limit, beyond which the archive
    /// serves it, or its stream ends with [`Error::ChangesLost`].
    ///
    /// # Errors
    /// [`Error::TooLarge`] for a name of more than 128 bytes; errors of the disk.
    pub fn consumer(&self, name: &str, options: ConsumerOptions) -> Result<Consumer> {
        self.inner.alive_here()?;
        if name.len() > NAME_LEN_MAX {
            let (what, given, limit) = ("the name of a consumer", name.len() as u64, NAME_LEN_MAX as u64);
            return Err(Error::TooLarge { what, given, limit });
        }
        let consumer = Consumer { store: self.clone(), name: name.to_owned() };
        match self.inner.consumers.find(name) {
            Ok(entry) if entry.is_replica => return Err(Error::Misuse(IS_REPLICA)),
            Ok(_) => {}
            Err(_) => {
                let (position, needs) = self.inner.present_position()?;
                let (name, limit, is_replica) = (name.into(), options.limit_bytes, false);
                let entry = Entry { name, is_replica, position, needs, limit, released: None };
                self.inner.consumers.put(entry, |known| known.is_none())?;
            }
        }
        Ok(consumer)
    }

    /// Returns the state of all consumers. Raise an alarm for one that was released, or that has much
    /// [lag](ConsumerStatus::lag_bytes).
    pub fn consumers(&self) -> Vec<ConsumerStatus> {
        let entries: Vec<_> = self.inner.consumers.state.lock().file.entries().cloned().collect();
        let kept_from = self.inner.consumers.kept_from();
        let status = |entry: &Entry| {
            let lag_bytes = Some(self.inner.log.bytes_since(entry.needs).0);
            ConsumerStatus { lag_bytes, ..ConsumerStatus::of(entry, kept_from) }
        };
        entries.iter().map(status).collect()
    }

    /// Drops a consumer, which keeps no log from then on. Returns whether there was one of this name.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn drop_consumer(&self, name: &str) -> Result<bool> {
        self.inner.alive_here()?;
        self.inner.consumers.state.lock().file.remove(name)
    }
}

impl Consumer {
    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the token that was confirmed last.
    ///
    /// # Errors
    /// [`Error::NoSuchConsumer`]: it was dropped.
    pub fn token(&self) -> Result<StreamToken> {
        let Entry { position, needs, .. } = self.store.inner.consumers.find(&self.name)?;
        Ok(StreamToken { store: self.store.inner.log.control().store, position, needs })
    }

    /// Returns the stream of the transactions that have committed after the position of the consumer.
    ///
    /// # Errors
    /// [`Error::NoSuchConsumer`]: it was dropped.
    pub fn changes(&self) -> Result<ChangeStream> {
        ChangeStream::of_consumer(&self.store, &self.token()?, &self.name)
    }

    /// Confirms durably all transactions up to a token: they will not be delivered again, and the log is not kept for them. An
    /// older token than the last one has no effect.
    ///
    /// It writes to the disk once; a consumer may process many transactions before.
    ///
    /// # Errors
    /// [`Error::Misuse`] for the token of another store; [`Error::NoSuchConsumer`]; errors of the disk: the position is the old one
    /// or the new one.
    pub fn confirm(&self, token: &StreamToken) -> Result<()> {
        self.store.inner.alive_here()?;
        self.store.check_token(token)?;
        let known = self.store.inner.consumers.find(&self.name)?;
        let entry = Entry { position: token.position, needs: token.needs, released: None, ..known };
        let is_newer = |known: Option<&Entry>| known.is_some_and(|known| known.position < token.position);
        self.store.inner.consumers.put(entry, is_newer)
    }

    /// Moves the consumer to the present position, also if it has lost changes: it gets the transactions that commit from now on.
    /// A transaction that has committed before this call has its effect in the store, where the caller can read it.
    ///
    /// # Errors
    /// [`Error::NoSuchConsumer`]; errors of the disk.
    pub fn restart(&self) -> Result<()> {
        self.store.inner.alive_here()?;
        let known = self.store.inner.consumers.find(&self.name)?;
        let (position, needs) = self.store.inner.present_position()?;
        let entry = Entry { position, needs, released: None, ..known };
        self.store.inner.consumers.put(entry, |known| known.is_some())
    }
}
