//! A hash table that grows and shrinks by a few buckets at a time.
//!
//! The hash of a key selects one of 32 independent shards: each is a linear hash table (Litwin) with a count of its own, so
//! that an operation that grows or counts a shard conflicts with one thirty-second of the others. A shard's buckets lie in
//! segments of 32, found through a directory; a bucket is a chain of entries, each a block.
//!
//! ```text
//! shard      directory, buckets, directory's capacity; some words apart the count
//! directory  the first words of segments
//! segment    the first word of the first entry of each bucket, 0 for none
//! entry      next entry, key, value
//! ```

use cedrat_sync::planted;

use super::{APART, Head, Steps, opened};
use crate::error::{Interrupt, Result};
use crate::tx::Tx;
use crate::typed::{Plain, description, with_words};

const SHARDS: u64 = 32;
const SHARD_WORDS: u64 = 2 * APART;
/// Words of a shard.
const DIRECTORY: u64 = 0;
const BUCKETS: u64 = 1;
const CAPACITY: u64 = 2;
const COUNT: u64 = APART;

/// Buckets of a segment.
const SEGMENT: u64 = 32;
/// Number of buckets added at once: more would make transactions longer, fewer would make them conflict more often.
const GROWTH: u64 = 8;
const DIRECTORY_FIRST: u64 = 4;
/// A shard with fewer keys than one per this many buckets gives some up. It grows only at more than one key per bucket, so
/// that alternating insertions and removals do not cause both.
const SPARSE: u64 = 4;

/// A durable hash map. Keys are compared by their words. It returns space to the heap as it shrinks.
///
/// ```
/// # use cedrat_heap::{Bytes, HeapMap, HeapOptions, Memory, MemoryOptions};
/// # fn main() -> cedrat_heap::Result<()> {
/// # let memory = Memory::volatile(MemoryOptions::small())?;
/// # let heap = memory.create_heap("people", &HeapOptions::new(1 << 20))?;
/// let ages: HeapMap<Bytes<16>, u32> = HeapMap::open(&heap, "ages")?;
/// let ada = Bytes::text("Ada").unwrap();
/// heap.transaction(|tx| ages.insert(tx, ada, 36))?;
/// assert_eq!(heap.transaction(|tx| ages.get(tx, &ada))?, Some(36));
/// assert_eq!(heap.transaction(|tx| ages.remove(tx, &ada))?, Some(36));
/// assert_eq!(heap.transaction(|tx| ages.len(tx))?, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct HeapMap<K, V>(Head<(K, V)>);

impl<K, V> Clone for HeapMap<K, V> {
    fn clone(&self) -> Self {
        HeapMap(self.0.clone())
    }
}

/// Returns a hash of the words of a key; every bit depends on every word.
fn hash<K: Plain>(key: &K) -> u64 {
    with_words::<K, _>(|words| {
        key.to_words(words);
        words.iter().fold(0x51_7c_c1_b7_27_22_0a_95, |hash, &word| mix(hash ^ word))
    })
}

/// Finalizer of SplitMix64.
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// Returns the bucket of a hash among this many.
fn bucket_of(hash: u64, buckets: u64) -> u64 {
    // A corrupt map may count any number of buckets.
    let mask = buckets.checked_next_power_of_two().map_or(u64::MAX, |power| power - 1);
    let bucket = hash & mask;
    if bucket < buckets { bucket } else { bucket & mask >> 1 }
}

impl<K: Plain, V: Plain> HeapMap<K, V> {
    const HEAD_WORDS: u64 = APART + SHARDS * SHARD_WORDS;

    opened!("a map");

    fn type_name() -> String {
        format!("HeapMap<{}, {}>", description::<K>(), description::<V>())
    }

    /// Returns the first word of the shard of a hash. The low bits of the hash choose the bucket.
    fn shard(&self, tx: &mut Tx<'_>, hash: u64) -> Result<u64, Interrupt> {
        Ok(self.0.first(tx)? + APART + (hash >> 59) * SHARD_WORDS)
    }

    /// Returns the word of a bucket.
    fn bucket(&self, tx: &mut Tx<'_>, shard: u64, bucket: u64) -> Result<u64, Interrupt> {
        let directory = self.0.get(tx, shard + DIRECTORY)?;
        // The word may hold any value: a word beyond the heap is refused when it is read.
        let segment = self.0.get(tx, directory.saturating_add(bucket / SEGMENT))?;
        Ok(segment.saturating_add(bucket % SEGMENT))
    }

    /// Returns the word that links to the entry of a key, and the entry; or the end of the chain, and 0. `None` in an empty
    /// shard.
    fn find(&self, tx: &mut Tx<'_>, shard: u64, hash: u64, key: &K) -> Result<Option<(u64, u64)>, Interrupt> {
        let buckets = self.0.get(tx, shard + BUCKETS)?;
        if buckets == 0 {
            return Ok(None);
        }
        let mut link = self.bucket(tx, shard, bucket_of(hash, buckets))?;
        with_words::<K, _>(|words| {
            key.to_words(words);
            let mut steps = self.steps();
            loop {
                let entry = self.0.get(tx, link)?;
                if entry == 0 || self.has_key(tx, entry, words)? {
                    return Ok(Some((link, entry)));
                }
                self.0.step(&mut steps, entry)?;
                link = entry;
            }
        })
    }

    fn has_key(&self, tx: &mut Tx<'_>, entry: u64, words: &[u64]) -> Result<bool, Interrupt> {
        for (at, &word) in words.iter().enumerate() {
            if self.0.get(tx, entry.saturating_add(1 + at as u64))? != word {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Counts steps along entries.
    fn steps(&self) -> Steps {
        self.0.steps(1 + (K::WORDS + V::WORDS) as u64)
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// The map was removed; a conflict.
    pub fn get(&self, tx: &mut Tx<'_>, key: &K) -> Result<Option<V>, Interrupt> {
        let hash = hash(key);
        let shard = self.shard(tx, hash)?;
        match self.find(tx, shard, hash, key)? {
            Some((_, entry)) if entry != 0 => self.0.load(tx, entry + 1 + K::WORDS as u64).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns whether the key exists.
    ///
    /// # Errors
    /// The map was removed; a conflict.
    pub fn contains_key(&self, tx: &mut Tx<'_>, key: &K) -> Result<bool, Interrupt> {
        let hash = hash(key);
        let shard = self.shard(tx, hash)?;
        Ok(matches!(self.find(tx, shard, hash, key)?, Some((_, entry)) if entry != 0))
    }

    /// Sets the value of a key; returns its previous value.
    ///
    /// # Errors
    /// The heap is full; the map was removed; a conflict.
    pub fn insert(&self, tx: &mut Tx<'_>, key: K, value: V) -> Result<Option<V>, Interrupt> {
        tx.whole(|tx| self.insert_whole(tx, key, value))
    }

    fn insert_whole(&self, tx: &mut Tx<'_>, key: K, value: V) -> Result<Option<V>, Interrupt> {
        let hash = hash(&key);
        let shard = self.shard(tx, hash)?;
        let (link, entry) = match self.find(tx, shard, hash, &key)? {
            Some(found) => found,
            None => {
                self.grow(tx, shard, 0)?;
                self.find(tx, shard, hash, &key)?.expect("the shard has buckets now")
            }
        };
        let value_at = 1 + K::WORDS as u64;
        if entry != 0 {
            let before = self.0.load(tx, entry + value_at)?;
            self.0.store(tx, entry + value_at, &value)?;
            return Ok(Some(before));
        }
        let entry = self.0.new_block(tx, value_at + V::WORDS as u64)?;
        self.0.set(tx, entry, 0)?;
        self.0.store(tx, entry + 1, &key)?;
        self.0.store(tx, entry + value_at, &value)?;
        self.0.set(tx, link, entry)?;
        let count = self.0.add(tx, shard + COUNT, 1)?;
        let buckets = self.0.get(tx, shard + BUCKETS)?;
        if count > buckets {
            self.grow(tx, shard, buckets)?;
        }
        Ok(None)
    }

    /// Removes a key; returns its value.
    ///
    /// # Errors
    /// The map was removed; a conflict.
    pub fn remove(&self, tx: &mut Tx<'_>, key: &K) -> Result<Option<V>, Interrupt> {
        tx.whole(|tx| self.remove_whole(tx, key))
    }

    fn remove_whole(&self, tx: &mut Tx<'_>, key: &K) -> Result<Option<V>, Interrupt> {
        let hash = hash(key);
        let shard = self.shard(tx, hash)?;
        let Some((link, entry)) = self.find(tx, shard, hash, key)? else { return Ok(None) };
        if entry == 0 {
            return Ok(None);
        }
        let value = self.0.load(tx, entry + 1 + K::WORDS as u64)?;
        let next = self.0.get(tx, entry)?;
        self.0.set(tx, link, next)?;
        self.0.free_block(tx, entry)?;
        let count = self.0.add(tx, shard + COUNT, u64::MAX)?;
        let buckets = self.0.get(tx, shard + BUCKETS)?;
        if buckets > GROWTH && count < buckets / SPARSE {
            self.shrink(tx, shard, buckets)?;
        }
        Ok(Some(value))
    }

    /// Returns the number of keys. The read conflicts with every concurrent insertion and removal of a key.
    ///
    /// # Errors
    /// The map was removed; a conflict.
    pub fn len(&self, tx: &mut Tx<'_>) -> Result<u64, Interrupt> {
        let first = self.0.first(tx)?;
        let mut sum = 0;
        for shard in 0..SHARDS {
            sum = u64::wrapping_add(sum, self.0.get(tx, first + APART + shard * SHARD_WORDS + COUNT)?);
        }
        Ok(sum)
    }

    /// Returns whether there are no keys; conflicts as [`HeapMap::len`].
    ///
    /// # Errors
    /// The map was removed; a conflict.
    pub fn is_empty(&self, tx: &mut Tx<'_>) -> Result<bool, Interrupt> {
        Ok(self.len(tx)? == 0)
    }

    /// Calls `see` with every key and its value, in no particular order.
    ///
    /// # Errors
    /// Those of `see`; the map was removed; a conflict.
    pub fn for_each(
        &self,
        tx: &mut Tx<'_>,
        mut see: impl FnMut(K, V) -> Result<(), Interrupt>,
    ) -> Result<(), Interrupt> {
        self.each_entry(tx, |tx, entry| {
            let key = self.0.load(tx, entry + 1)?;
            see(key, self.0.load(tx, entry + 1 + K::WORDS as u64)?)
        })
    }

    fn each_entry(
        &self,
        tx: &mut Tx<'_>,
        mut see: impl FnMut(&mut Tx<'_>, u64) -> Result<(), Interrupt>,
    ) -> Result<(), Interrupt> {
        let first = self.0.first(tx)?;
        let mut steps = self.steps();
        for shard in (0..SHARDS).map(|shard| first + APART + shard * SHARD_WORDS) {
            for bucket in 0..self.0.get(tx, shard + BUCKETS)? {
                let link = self.bucket(tx, shard, bucket)?;
                let mut entry = self.0.get(tx, link)?;
                while entry != 0 {
                    self.0.step(&mut steps, entry)?;
                    let next = self.0.get(tx, entry)?;
                    see(tx, entry)?;
                    entry = next;
                }
            }
        }
        Ok(())
    }

    /// Walks over all buckets and validates them; returns the number of keys.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) with the place of words that no operation of this map leaves; the map was
    /// removed; a conflict.
    pub fn verify(&self, tx: &mut Tx<'_>) -> Result<u64, Interrupt> {
        let first = self.0.first(tx)?;
        let mut keys = 0;
        for number in 0..SHARDS {
            keys += self.verify_shard(tx, first + APART + number * SHARD_WORDS, number)?;
        }
        Ok(keys)
    }

    fn verify_shard(&self, tx: &mut Tx<'_>, shard: u64, number: u64) -> Result<u64, Interrupt> {
        let mut says = [DIRECTORY, BUCKETS, CAPACITY, COUNT];
        for word in &mut says {
            *word = self.0.get(tx, shard + *word)?;
        }
        let [directory, buckets, capacity, count] = says;
        let wrong = |place, what| Err(self.0.corrupt(place, what));
        let segments = buckets.div_ceil(SEGMENT);
        if !buckets.is_multiple_of(GROWTH) || segments > capacity || (directory == 0) != (capacity == 0) {
            return wrong(shard, "a part of a map has buckets that are not there");
        }
        if count > buckets {
            return wrong(shard + COUNT, "a part of a map has more keys than it should have with its buckets");
        }
        let mut found = 0;
        for bucket in 0..buckets {
            let mut entry = self.bucket(tx, shard, bucket)?;
            let mut keys = std::collections::HashSet::new();
            loop {
                entry = self.0.get(tx, entry)?;
                if entry == 0 {
                    break;
                }
                let key: K = self.0.load(tx, entry.saturating_add(1))?;
                let hash = hash(&key);
                if hash >> 59 != number || bucket_of(hash, buckets) != bucket {
                    return wrong(entry, "an entry of a map is not in its bucket");
                }
                if !keys.insert(with_words::<K, _>(|words| {
                    key.to_words(words);
                    words.to_vec()
                })) {
                    return wrong(entry, "a key of a map is there twice");
                }
                found += 1;
            }
        }
        if found == count { Ok(found) } else { wrong(shard + COUNT, "a part of a map counts other keys than it has") }
    }

    /// Removes all keys.
    ///
    /// # Errors
    /// The map was removed; a conflict.
    pub fn clear(&self, tx: &mut Tx<'_>) -> Result<(), Interrupt> {
        tx.whole(|tx| self.clear_whole(tx))
    }

    fn clear_whole(&self, tx: &mut Tx<'_>) -> Result<(), Interrupt> {
        self.each_entry(tx, |tx, entry| self.0.free_block(tx, entry))?;
        let first = self.0.first(tx)?;
        for shard in (0..SHARDS).map(|shard| first + APART + shard * SHARD_WORDS) {
            let directory = self.0.get(tx, shard + DIRECTORY)?;
            for segment in 0..self.0.get(tx, shard + BUCKETS)?.div_ceil(SEGMENT) {
                let segment = self.0.get(tx, directory.saturating_add(segment))?;
                self.0.free_block(tx, segment)?;
            }
            if directory != 0 {
                self.0.free_block(tx, directory)?;
            }
            for word in [DIRECTORY, BUCKETS, CAPACITY, COUNT] {
                self.0.set(tx, shard + word, 0)?;
            }
        }
        Ok(())
    }

    /// Removes the map with all keys, and its name.
    ///
    /// # Errors
    /// It was removed, or does not have this name; a conflict.
    pub fn remove_as(&self, tx: &mut Tx<'_>, name: &str) -> Result<(), Interrupt> {
        tx.whole(|tx| self.remove_as_whole(tx, name))
    }

    fn remove_as_whole(&self, tx: &mut Tx<'_>, name: &str) -> Result<(), Interrupt> {
        self.clear(tx)?;
        self.0.remove(tx, name)
    }

    // ---- growing ----------------------------------------------------------------------------------------------

    /// Adds a few buckets to a shard that has `buckets`, and moves the entries that belong there.
    fn grow(&self, tx: &mut Tx<'_>, shard: u64, buckets: u64) -> Result<(), Interrupt> {
        if buckets.is_multiple_of(SEGMENT) {
            self.add_segment(tx, shard, buckets / SEGMENT)?;
        }
        self.0.set(tx, shard + BUCKETS, buckets + GROWTH)?;
        // The first few buckets have no parents to take entries from.
        for bucket in buckets.max(GROWTH)..buckets + GROWTH {
            self.split(tx, shard, bucket)?;
        }
        Ok(())
    }

    fn add_segment(&self, tx: &mut Tx<'_>, shard: u64, number: u64) -> Result<(), Interrupt> {
        let capacity = self.0.get(tx, shard + CAPACITY)?;
        if number == capacity {
            self.change_directory(tx, shard, number, (capacity * 2).max(DIRECTORY_FIRST))?;
        }
        let segment = self.0.new_block(tx, SEGMENT)?;
        (0..SEGMENT).try_for_each(|at| self.0.set(tx, segment + at, 0))?;
        let directory = self.0.get(tx, shard + DIRECTORY)?;
        self.0.set(tx, directory + number, segment)
    }

    /// Replaces a shard's directory by one with space for `wanted` segments, and copies the existing entries.
    fn change_directory(&self, tx: &mut Tx<'_>, shard: u64, segments: u64, wanted: u64) -> Result<(), Interrupt> {
        let before = self.0.get(tx, shard + DIRECTORY)?;
        let directory = self.0.new_block(tx, wanted)?;
        for at in 0..segments {
            let segment = self.0.get(tx, before + at)?;
            self.0.set(tx, directory + at, segment)?;
        }
        if before != 0 {
            self.0.free_block(tx, before)?;
        }
        self.0.set(tx, shard + DIRECTORY, directory)?;
        self.0.set(tx, shard + CAPACITY, wanted)
    }

    /// Removes the last few buckets from a shard that has `buckets`, and moves their entries back to their parents.
    fn shrink(&self, tx: &mut Tx<'_>, shard: u64, buckets: u64) -> Result<(), Interrupt> {
        let left = buckets - GROWTH;
        for bucket in left..buckets {
            self.join(tx, shard, bucket)?;
        }
        self.0.set(tx, shard + BUCKETS, left)?;
        if !left.is_multiple_of(SEGMENT) {
            return Ok(());
        }
        let segments = left / SEGMENT;
        let directory = self.0.get(tx, shard + DIRECTORY)?;
        let empty = self.0.get(tx, directory + segments)?;
        self.0.free_block(tx, empty)?;
        let capacity = self.0.get(tx, shard + CAPACITY)?;
        if capacity > DIRECTORY_FIRST && segments <= capacity / 4 {
            match tx.whole(|tx| self.change_directory(tx, shard, segments, capacity / 2)) {
                // The larger directory stays: also in a full heap keys can be removed.
                Err(full) if full.is_heap_full() && !planted!("removal_needs_space") => {}
                changed => changed?,
            }
        }
        Ok(())
    }

    /// Returns the bucket that held the entries of this one before it was added.
    fn parent(bucket: u64) -> u64 {
        bucket - (1 << bucket.ilog2())
    }

    /// Prepends the entries of a bucket to those of its parent.
    fn join(&self, tx: &mut Tx<'_>, shard: u64, bucket: u64) -> Result<(), Interrupt> {
        let from = self.bucket(tx, shard, bucket)?;
        let to = self.bucket(tx, shard, Self::parent(bucket))?;
        let (first, mut end) = (self.0.get(tx, from)?, from);
        if first == 0 {
            return Ok(());
        }
        let others = self.0.get(tx, to)?;
        let mut steps = self.steps();
        loop {
            match self.0.get(tx, end)? {
                0 => break,
                entry => end = entry,
            }
            self.0.step(&mut steps, end)?;
        }
        self.0.set(tx, end, others)?;
        self.0.set(tx, to, first)?;
        self.0.set(tx, from, 0)
    }

    /// Moves the entries that belong into a new bucket from its parent.
    fn split(&self, tx: &mut Tx<'_>, shard: u64, bucket: u64) -> Result<(), Interrupt> {
        let mut link = self.bucket(tx, shard, Self::parent(bucket))?;
        let mut to = self.bucket(tx, shard, bucket)?;
        let mut steps = self.steps();
        loop {
            let entry = self.0.get(tx, link)?;
            if entry == 0 {
                return Ok(());
            }
            self.0.step(&mut steps, entry)?;
            let key: K = self.0.load(tx, entry.saturating_add(1))?;
            if bucket_of(hash(&key), bucket + 1) == bucket {
                let next = self.0.get(tx, entry)?;
                self.0.set(tx, link, next)?;
                self.0.set(tx, to, entry)?;
                self.0.set(tx, entry, 0)?;
                to = entry;
            } else {
                link = entry;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_keeps_its_keys_until_split() {
        for buckets in 1..200u64 {
            for hash in (0..1000).map(mix) {
                let (now, then) = (bucket_of(hash, buckets), bucket_of(hash, buckets + 1));
                assert!(now < buckets && (then == now || then == buckets));
                if then != now {
                    assert_eq!(now, buckets - (1 << buckets.ilog2()));
                }
            }
        }
    }

    /// H4: what a removal frees is not free before its commit, so the removal must not need space.
    #[cfg(not(cedrat_shuttle))]
    #[test]
    fn keys_of_full_heap_can_be_removed() {
        use crate::{Error, HeapOptions, Memory, MemoryOptions};
        let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
        let heap = memory.create_heap("heap", &HeapOptions::new(1 << 20)).expect("a heap");
        let map: HeapMap<u64, u64> = HeapMap::open(&heap, "map").expect("room");
        let keys = 0..SHARDS * SEGMENT * (DIRECTORY_FIRST + 2);
        for key in keys.clone() {
            heap.atomically(|tx| map.insert(tx, key, key)).expect("room");
        }
        for len in (4..20).rev().map(|log2| 1 << log2) {
            while heap.atomically(|tx| tx.allocate(&heap, len)).is_ok() {}
        }
        let full = heap.atomically(|tx| tx.allocate(&heap, 8));
        assert!(matches!(full, Err(Error::HeapFull { .. })), "{full:?}");
        heap.atomically(|tx| keys.clone().try_for_each(|key| map.remove(tx, &key).map(drop)))
            .expect("it needs no room");
        assert_eq!(heap.atomically(|tx| map.verify(tx)).expect("it is whole"), 0);
    }

    /// An entry that is its own successor does not make a walk endless: the address is reported.
    #[cfg(not(cedrat_shuttle))]
    #[test]
    fn entry_that_leads_to_itself_is_damage() {
        use crate::{Error, HeapOptions, Memory, MemoryOptions};
        let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
        let heap = memory.create_heap("heap", &HeapOptions::new(1 << 20)).expect("a heap");
        let map: HeapMap<u64, u64> = HeapMap::open(&heap, "map").expect("room");
        heap.atomically(|tx| map.insert(tx, 7, 1).map(drop)).expect("room");
        let entry = heap.atomically(|tx| {
            let shard = map.shard(tx, hash(&7u64))?;
            Ok(map.find(tx, shard, hash(&7u64), &7)?.expect("it has buckets").1)
        });
        let entry = entry.expect("reading");
        // No entry has this key any more, and the chain has no end.
        heap.atomically(|tx| map.0.set(tx, entry + 1, 8).and_then(|()| map.0.set(tx, entry, entry)))
            .expect("its words");
        let walks = [
            heap.atomically(|tx| map.get(tx, &7).map(drop)),
            heap.atomically(|tx| map.insert(tx, 7, 1).map(drop)),
            heap.atomically(|tx| map.remove(tx, &7).map(drop)),
            heap.atomically(|tx| map.for_each(tx, |_, _| Ok(()))),
            heap.atomically(|tx| map.verify(tx).map(drop)),
        ];
        for walk in walks {
            assert!(matches!(walk, Err(Error::Damaged { offset, .. }) if offset == entry * 8), "{walk:?}");
        }
    }
}
