//! Replicas as consumers: the log is kept from the first block on that a replica lacks (E25.4).

use cedrat_sync::planted;
use cedrat_wal::{Log, LogOffset, LogPosition, Lsn};

use super::file::{Entry, NAME_LEN_MAX};
use super::{ConsumerOptions, Consumers, State};
use crate::error::{Error, Result};

/// Returns the first LSN that is kept for a replica which has all records up to one. That record is kept, too: with it the log keeps its
/// epoch, of which the replica may not know the end (E1.1).
fn needs_of(up_to: Lsn, kept_from: Lsn) -> Lsn {
    if up_to < kept_from { up_to.next() } else { up_to }
}

impl State {
    /// Returns an entry with the newest position that is known of its replica.
    pub(super) fn confirmed(&self, entry: &Entry) -> Entry {
        let entry = entry.clone();
        match self.replicas.get(&entry.name) {
            Some(position) if entry.is_replica && entry.released.is_none() => Entry {
                position: position.up_to,
                needs: position.up_to.max(entry.needs.min(position.up_to.next())),
                ..entry
            },
            _ => entry,
        }
    }

    fn refuse_replica_name(&self, name: &str) -> Result<()> {
        if name.is_empty() || name.len() > NAME_LEN_MAX {
            let (what, given, limit) = ("the name of a replica", name.len() as u64, NAME_LEN_MAX as u64);
            return Err(Error::TooLarge { what, given, limit });
        }
        if self.file.find(name).is_some_and(|known| !known.is_replica) {
            return Err(Error::Misuse(
                "a consumer of the change stream has the name of this replica: choose another one",
            ));
        }
        Ok(())
    }

    /// Lowers the offsets from which on a checkpoint keeps the log, to those that a replica needs.
    pub(super) fn keep_for_replica(&self, entry: &Entry, offsets: &mut Vec<LogOffset>) {
        if !entry.is_replica || planted!("log_of_replica_truncated") {
            return;
        }
        let kept = self.replicas.get(&entry.name).map_or(&self.kept_before, |position| &position.offsets);
        offsets.resize(kept.len(), LogOffset::new(u64::MAX));
        offsets.iter_mut().zip(kept).for_each(|(offset, &from)| *offset = from.min(*offset));
    }
}

impl Consumers {
    /// Whether the store has replicas.
    pub(crate) fn has_replicas(&self) -> bool {
        self.state.lock().file.entries().any(|entry| entry.is_replica)
    }

    /// Refuses a name that no replica can have.
    pub(crate) fn refuse_replica_name(&self, name: &str) -> Result<()> {
        self.state.lock().refuse_replica_name(name)
    }

    /// Exempts a replica from its limit, while it gets a base: it cannot follow meanwhile.
    pub(crate) fn base_begins(&self, name: &str) {
        *self.state.lock().bases.entry(name.to_owned()).or_default() += 1;
    }

    /// Ends what [`base_begins`](Consumers::base_begins) has begun.
    pub(crate) fn base_ends(&self, name: &str) {
        let mut state = self.state.lock();
        if let Some(count) = state.bases.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                state.bases.remove(name);
            }
        }
    }

    /// Raises the limit of a replica that gets its base by the log before the end of that: until its next connection, it may keep as much
    /// behind the base as any replica that is away.
    pub(crate) fn base_is_complete(&self, log: &Log, name: &str, up_to: Lsn) -> Result<()> {
        let mut state = self.state.lock();
        let known = state.file.find(name).cloned().filter(|known| known.is_replica && known.released.is_none());
        let Some(known) = known.filter(|_| !planted!("log_of_complete_base_released")) else { return Ok(()) };
        let of_base = log.bytes_since(known.needs).0.saturating_sub(log.bytes_since(up_to).0);
        state.file.put(Entry { limit: known.limit.saturating_add(of_base), ..known })
    }

    /// Keeps the log for a replica from an LSN and these offsets on. Without offsets, it keeps all that there is now.
    pub(crate) fn keep_for_replica(
        &self,
        name: &str,
        options: ConsumerOptions,
        position: Option<&LogPosition>,
        kept: (Lsn, Vec<LogOffset>),
    ) -> Result<()> {
        let mut state = self.state.lock();
        state.refuse_replica_name(name)?;
        let known = state.file.find(name).cloned();
        let begins = || LogPosition { up_to: kept.0.previous(), offsets: kept.1 };
        let known_position = position.cloned().unwrap_or_else(begins);
        let up_to = known_position.up_to;
        state.replicas.insert(name.to_owned(), known_position);
        // What was kept is kept on: the replica may have less than it has confirmed.
        let is_kept = |known: &Entry| known.released.is_none() && known.needs <= up_to.next() && position.is_some();
        if let Some(known) = known.filter(is_kept) {
            // The limit is that of the newest connection.
            let is_same = known.limit == options.limit_bytes;
            return if is_same { Ok(()) } else { state.file.put(Entry { limit: options.limit_bytes, ..known }) };
        }
        let needs = needs_of(up_to, self.kept_from());
        let released = (needs < self.kept_from()).then_some(0);
        let (name, limit) = (name.to_owned(), options.limit_bytes);
        state.file.put(Entry { name, is_replica: true, position: up_to, needs, limit, released })
    }

    /// Notes what a replica has durably; in the file only if `is_written` is set: until then a crash makes the log keep more. Returns
    /// `false` if the log is not kept for it any more.
    pub(crate) fn replica_has(&self, name: &str, position: &LogPosition, is_written: bool) -> Result<bool> {
        let mut state = self.state.lock();
        let Some(known) = state.file.find(name).cloned().filter(|known| known.is_replica && known.released.is_none())
        else {
            return Ok(false);
        };
        state.replicas.insert(name.to_owned(), position.clone());
        if is_written && position.up_to > known.position {
            let needs = needs_of(position.up_to, self.kept_from());
            state.file.put(Entry { position: position.up_to, needs, ..known })?;
        }
        Ok(true)
    }

    /// Whether the log is kept for a replica.
    pub(crate) fn is_kept_for(&self, name: &str) -> bool {
        let state = self.state.lock();
        state.file.find(name).is_some_and(|known| known.is_replica && known.released.is_none())
    }
}
