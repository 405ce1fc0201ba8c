//! The inside of one bucket page: pure functions over the bytes of a page's body.
//!
//! They are independent of transactions, latches and the log, so they can be tested with an array of bytes. The layout
//! (drawn in `docs/formats/structures.md`):
//!
//! ```text
//! 0      8      16     24      26     28     30         32
//! | root | seed | next | count | heap | dead | capacity | fingerprints … | offsets … |  free  | … entries |
//!                                                         capacity bytes   2 × count          from `heap` to the end
//! ```
//!
//! A slot is a fingerprint (one byte of the key's hash) and the offset of an entry. Eight fingerprints are compared in
//! one step, and a key is compared only if its fingerprint matches, so a lookup reads the header's cache line, the
//! fingerprints, and usually one entry. Slots have no order and no identity: removing one moves the last slot into its
//! place.
//!
//! Every read is checked against the page's bounds, because an optimistic reader may see any bytes at all (E12.3), and
//! so may a reader of a damaged page. Invalid bytes are [`Corrupt`].

use cedrat_pages::BODY_LEN;
use cedrat_pages::layout::FixedNumber;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::bytes::{Bytes, BytesMut, Corrupt};

mod at {
    pub(super) const ROOT: usize = 0;
    pub(super) const SEED: usize = ROOT + 8;
    pub(super) const NEXT: usize = SEED + 8;
    pub(super) const COUNT: usize = NEXT + 8;
    pub(super) const HEAP: usize = COUNT + 2;
    pub(super) const DEAD: usize = HEAP + 2;
    pub(super) const CAPACITY: usize = DEAD + 2;
    pub(super) const FINGERPRINTS: usize = CAPACITY + 2;
}
const _: () = assert!(at::FINGERPRINTS.is_multiple_of(8), "eight fingerprints are one aligned word");
const _: () = assert!(BODY_LEN <= u16::MAX as usize);

/// Number of bytes by which the fingerprints grow; the offsets behind them move each time.
const CAPACITY_STEP: usize = 16;

/// Lengths below this take one byte in front of an entry, others two.
const SHORT_LEN: usize = 0x80;

/// Maximum length of key and value of one entry together, in bytes. A page could take a few more; but a change is
/// logged with its before-image, and one log record must hold both, in the smallest log too.
pub const ENTRY_LEN_MAX: usize = 3800;
const _: () = assert!(at::FINGERPRINTS + CAPACITY_STEP + 2 + 4 + ENTRY_LEN_MAX <= BODY_LEN);

/// A key's hash: its low bits choose the bucket, its high byte is the fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash(pub(crate) u64);

impl KeyHash {
    #[inline]
    pub(crate) fn of(key: &[u8], seed: u64) -> KeyHash {
        KeyHash(xxh3_64_with_seed(key, seed))
    }

    #[inline]
    pub(crate) fn fingerprint(self) -> u8 {
        (self.0 >> 56) as u8
    }

    /// Returns the bucket of this hash while the table has `buckets` of them (at least one).
    ///
    /// With `2^n ≤ buckets < 2^(n+1)`, buckets below `buckets - 2^n` were split already and use one bit more
    /// (Lemon §6).
    #[inline]
    pub(crate) fn bucket(self, buckets: u64) -> u64 {
        let half = 1 << buckets.ilog2();
        let wide = self.0 & (2 * half - 1);
        if wide < buckets { wide } else { wide - half }
    }
}

/// The position of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) slot: usize,
    /// First byte of the entry, its lengths included.
    start: usize,
    /// First byte of the key; the value follows the key.
    key: usize,
    pub(crate) key_len: usize,
    pub(crate) value_len: usize,
}

impl Entry {
    #[inline]
    fn read<B: Bytes + ?Sized>(body: &B, slot: usize, start: usize) -> Result<Entry, Corrupt> {
        let (key_len, after_first) = read_len(body, start)?;
        let (value_len, key) = read_len(body, after_first)?;
        if key + key_len + value_len > BODY_LEN {
            return Err(Corrupt);
        }
        Ok(Entry { slot, start, key, key_len, value_len })
    }

    /// First byte of the value.
    #[inline]
    pub(crate) fn value(&self) -> usize {
        self.key + self.key_len
    }

    #[inline]
    fn len(&self) -> usize {
        self.key - self.start + self.key_len + self.value_len
    }
}

#[inline]
pub(crate) fn read_len<B: Bytes + ?Sized>(body: &B, at: usize) -> Result<(usize, usize), Corrupt> {
    let first = usize::from(body.byte(at)?);
    if first < SHORT_LEN {
        return Ok((first, at + 1));
    }
    let second = usize::from(body.byte(at + 1)?);
    Ok(((first - SHORT_LEN) << 8 | second, at + 2))
}

#[inline]
pub(crate) fn write_len(body: &mut [u8], at: usize, len: usize) -> usize {
    if len < SHORT_LEN {
        body[at] = len as u8;
        return at + 1;
    }
    body[at] = (SHORT_LEN | len >> 8) as u8;
    body[at + 1] = len as u8;
    at + 2
}

/// Returns the length of an entry in bytes, without its slot.
#[inline]
pub(crate) fn entry_len(key_len: usize, value_len: usize) -> usize {
    let width = |len: usize| if len < SHORT_LEN { 1 } else { 2 };
    width(key_len) + width(value_len) + key_len + value_len
}

/// Finds the entry of `key`, if this page has it.
#[inline]
pub(crate) fn find<B: Bytes + ?Sized>(body: &B, hash: KeyHash, key: &[u8]) -> Result<Option<Entry>, Corrupt> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = LOW << 7;
    let count = usize::from(body.half(at::COUNT)?);
    let capacity = usize::from(body.half(at::CAPACITY)?);
    if count > capacity || at::FINGERPRINTS + capacity + 2 * count > BODY_LEN {
        return Err(Corrupt);
    }
    let wanted = u64::from(hash.fingerprint()) * LOW;
    for group in (0..count).step_by(8) {
        let difference = body.word(at::FINGERPRINTS + group)? ^ wanted;
        // The high bit of each byte that is zero. A borrow can also set the bit above a true hit; the comparison of
        // keys filters that out.
        let mut hits = difference.wrapping_sub(LOW) & !difference & HIGH;
        while hits != 0 {
            let slot = group + hits.trailing_zeros() as usize / 8;
            hits &= hits - 1;
            if slot >= count {
                break;
            }
            let start = usize::from(body.half(at::FINGERPRINTS + capacity + 2 * slot)?);
            let entry = Entry::read(body, slot, start)?;
            if entry.key_len == key.len() && body.same(entry.key, key)? {
                return Ok(Some(entry));
            }
        }
    }
    Ok(None)
}

/// Returns the next page of this bucket's chain, zero for none.
#[inline]
pub(crate) fn next<B: Bytes + ?Sized>(body: &B) -> Result<u64, Corrupt> {
    body.word(at::NEXT)
}

/// Returns the table's root page and seed, which every page of a table repeats, so that foreign pages are detected.
#[inline]
pub(crate) fn identity<B: Bytes + ?Sized>(body: &B) -> Result<(u64, u64), Corrupt> {
    Ok((body.word(at::ROOT)?, body.word(at::SEED)?))
}

/// The small numbers of a bucket's header, read and checked together.
#[derive(Clone, Copy, Debug)]
struct Shape {
    count: usize,
    /// Offset of the lowest entry.
    heap: usize,
    /// Number of bytes above `heap` that belong to no entry.
    dead: usize,
    /// Number of bytes reserved for fingerprints.
    capacity: usize,
}

impl Shape {
    #[inline]
    fn read<B: Bytes + ?Sized>(body: &B) -> Result<Shape, Corrupt> {
        let word = body.word(at::COUNT)?;
        let field = |at: usize| (word >> (8 * (at - at::COUNT))) as usize & 0xFFFF;
        let shape = Shape {
            count: field(at::COUNT),
            heap: field(at::HEAP),
            dead: field(at::DEAD),
            capacity: field(at::CAPACITY),
        };
        let sound = shape.count <= shape.capacity
            && shape.capacity.is_multiple_of(CAPACITY_STEP)
            && shape.offsets_end() <= shape.heap
            && shape.heap <= BODY_LEN
            && shape.dead <= BODY_LEN - shape.heap;
        if sound { Ok(shape) } else { Err(Corrupt) }
    }

    #[inline]
    fn write<B: BytesMut + ?Sized>(&self, body: &mut B) -> Result<(), Corrupt> {
        let word = [self.count, self.heap, self.dead, self.capacity].map(|n| (n as u16).to_le_bytes());
        body.put(at::COUNT, word.as_flattened())
    }

    #[inline]
    fn offset_of(&self, slot: usize) -> usize {
        at::FINGERPRINTS + self.capacity + 2 * slot
    }

    #[inline]
    fn offsets_end(&self) -> usize {
        self.offset_of(self.count)
    }

    #[inline]
    fn entry<B: Bytes + ?Sized>(&self, body: &B, slot: usize) -> Result<Entry, Corrupt> {
        let start = usize::from(body.half(self.offset_of(slot))?);
        if start < self.heap {
            return Err(Corrupt);
        }
        Entry::read(body, slot, start)
    }

    /// Returns the bytes that one more slot takes from the free space.
    #[inline]
    fn slot_len(&self) -> usize {
        if self.count == self.capacity { CAPACITY_STEP + 2 } else { 2 }
    }

    /// Returns the bytes that are available for entries once the page is compact.
    #[inline]
    fn free_len(&self) -> usize {
        self.heap - self.offsets_end() + self.dead
    }
}

/// Formats `body` as an empty bucket page, whatever its content.
pub(crate) fn format<B: BytesMut + ?Sized>(body: &mut B, root: u64, seed: u64, next: u64) -> Result<(), Corrupt> {
    body.put(at::ROOT, &root.to_le_bytes())?;
    body.put(at::SEED, &seed.to_le_bytes())?;
    set_next(body, next)?;
    Shape { count: 0, heap: BODY_LEN, dead: 0, capacity: 0 }.write(body)
}

/// Points this page's chain at `next`.
pub(crate) fn set_next<B: BytesMut + ?Sized>(body: &mut B, next: u64) -> Result<(), Corrupt> {
    body.put(at::NEXT, &next.to_le_bytes())
}

/// Whether one more entry of these lengths fits.
#[inline]
pub(crate) fn has_space<B: Bytes + ?Sized>(body: &B, key_len: usize, value_len: usize) -> Result<bool, Corrupt> {
    let shape = Shape::read(body)?;
    Ok(shape.free_len() >= shape.slot_len() + entry_len(key_len, value_len))
}

/// The free space of a page, counted down for entries that are to go there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    count: usize,
    capacity: usize,
    free: usize,
}

impl Space {
    /// The space of a page without entries.
    pub(crate) const EMPTY: Space = Space { count: 0, capacity: 0, free: SPACE };

    /// Returns the space of a page.
    pub(crate) fn of<B: Bytes + ?Sized>(body: &B) -> Result<Space, Corrupt> {
        let shape = Shape::read(body)?;
        Ok(Space { count: shape.count, capacity: shape.capacity, free: shape.free_len() })
    }

    /// Returns the number of free bytes.
    pub(crate) fn free(&self) -> usize {
        self.free
    }

    /// Takes the space of one more entry. Returns whether there is enough, as [`insert`] requires it.
    pub(crate) fn take(&mut self, key_len: usize, value_len: usize) -> bool {
        let grown = if self.count == self.capacity { CAPACITY_STEP } else { 0 };
        let needed = grown + 2 + entry_len(key_len, value_len);
        if self.free < needed {
            return false;
        }
        self.count += 1;
        self.capacity += grown;
        self.free -= needed;
        true
    }
}

/// Whether the entry's value could be replaced by one of `value_len` bytes on this page.
pub(crate) fn has_space_instead<B: Bytes + ?Sized>(body: &B, old: &Entry, value_len: usize) -> Result<bool, Corrupt> {
    let shape = Shape::read(body)?;
    Ok(shape.free_len() + old.len() >= entry_len(old.key_len, value_len))
}

/// Returns the number of entries on the page.
pub(crate) fn count<B: Bytes + ?Sized>(body: &B) -> Result<usize, Corrupt> {
    Ok(Shape::read(body)?.count)
}

/// Number of bytes that an empty page has for slots and entries.
pub(crate) const SPACE: usize = BODY_LEN - at::FINGERPRINTS;

/// Returns the bytes of [`SPACE`] that `count` slots and entries of `entries_len` bytes together take.
pub(crate) fn space_taken(count: usize, entries_len: usize) -> usize {
    count.next_multiple_of(CAPACITY_STEP) + 2 * count + entries_len
}

/// Adds an entry. The key must be absent, and there must be room.
#[inline]
pub(crate) fn insert<B: BytesMut + ?Sized>(
    body: &mut B,
    hash: KeyHash,
    key: &[u8],
    value: &[u8],
) -> Result<(), Corrupt> {
    let mut shape = Shape::read(body)?;
    let len = entry_len(key.len(), value.len());
    let needed = shape.slot_len() + len;
    if shape.free_len() < needed {
        return Err(Corrupt);
    }
    if shape.heap - shape.offsets_end() < needed {
        shape = body.edit(|body| compact(body, shape))?;
    }
    if shape.count == shape.capacity {
        let offsets = shape.offset_of(0)..shape.offsets_end();
        body.copy_within(offsets.clone(), offsets.start + CAPACITY_STEP)?;
        body.put(offsets.start, &[0; CAPACITY_STEP])?;
        shape.capacity += CAPACITY_STEP;
    }
    shape.heap = shape.heap.checked_sub(len).ok_or(Corrupt)?;
    let mut lens = [0; 4];
    let after_key_len = write_len(&mut lens, 0, key.len());
    let lens_len = write_len(&mut lens, after_key_len, value.len());
    body.put(shape.heap, &lens[..lens_len])?;
    body.put(shape.heap + lens_len, key)?;
    body.put(shape.heap + lens_len + key.len(), value)?;
    body.put(at::FINGERPRINTS + shape.count, &[hash.fingerprint()])?;
    body.put(shape.offset_of(shape.count), &(shape.heap as u16).to_le_bytes())?;
    shape.count += 1;
    shape.write(body)
}

/// Removes an entry; the last slot moves into its place.
pub(crate) fn remove<B: BytesMut + ?Sized>(body: &mut B, entry: &Entry) -> Result<(), Corrupt> {
    let mut shape = Shape::read(body)?;
    if entry.slot >= shape.count || entry.start < shape.heap {
        return Err(Corrupt);
    }
    let last = shape.count - 1;
    let fingerprint = body.byte(at::FINGERPRINTS + last)?;
    body.put(at::FINGERPRINTS + entry.slot, &[fingerprint])?;
    body.put(at::FINGERPRINTS + last, &[0])?;
    let moved = body.half(shape.offset_of(last))?;
    body.put(shape.offset_of(entry.slot), &moved.to_le_bytes())?;
    shape.count = last;
    if entry.start == shape.heap {
        shape.heap += entry.len();
    } else {
        shape.dead += entry.len();
    }
    if shape.heap > BODY_LEN || shape.dead > BODY_LEN - shape.heap {
        return Err(Corrupt);
    }
    shape.write(body)
}

/// Replaces the value of an entry. There must be space ([`has_space_instead`]).
pub(crate) fn replace<B: BytesMut + ?Sized>(
    body: &mut B,
    hash: KeyHash,
    entry: &Entry,
    key: &[u8],
    value: &[u8],
) -> Result<(), Corrupt> {
    if entry.value_len == value.len() {
        return body.put(entry.value(), value);
    }
    remove(body, entry)?;
    insert(body, hash, key, value)
}

/// Keeps only the entries for whose keys `keep` returns `true`, and leaves the page compact.
pub(crate) fn retain(body: &mut [u8], mut keep: impl FnMut(&[u8]) -> bool) -> Result<(), Corrupt> {
    let shape = Shape::read(body)?;
    let mut kept = 0;
    for slot in 0..shape.count {
        let entry = shape.entry(body, slot)?;
        if keep(&body[entry.key..entry.value()]) {
            body[at::FINGERPRINTS + kept] = body[at::FINGERPRINTS + slot];
            body.put(shape.offset_of(kept), &(entry.start as u16).to_le_bytes())?;
            kept += 1;
        }
    }
    body[at::FINGERPRINTS + kept..at::FINGERPRINTS + shape.count].fill(0);
    // The fingerprints release the bytes that they no longer need.
    let shorter = Shape { count: kept, capacity: kept.next_multiple_of(CAPACITY_STEP), ..shape };
    body.copy_within(shape.offset_of(0)..shape.offset_of(kept), shorter.offset_of(0));
    compact(body, shorter)?.write(body)
}

/// Moves the entries to the end of the page, in slot order and without gaps.
fn compact(body: &mut [u8], mut shape: Shape) -> Result<Shape, Corrupt> {
    let mut packed = [0_u8; BODY_LEN];
    let mut heap = BODY_LEN;
    for slot in 0..shape.count {
        let entry = shape.entry(body, slot)?;
        heap = heap.checked_sub(entry.len()).filter(|heap| *heap >= shape.offsets_end()).ok_or(Corrupt)?;
        packed[heap..heap + entry.len()].copy_from_slice(&body[entry.start..entry.start + entry.len()]);
        body.put(shape.offset_of(slot), &(heap as u16).to_le_bytes())?;
    }
    body[heap..].copy_from_slice(&packed[heap..]);
    shape.heap = heap;
    shape.dead = 0;
    Ok(shape)
}

/// A key and its value, or the error of an invalid entry.
type Pair<'b> = Result<(&'b [u8], &'b [u8]), Corrupt>;

/// Iterates over the entries of a page that does not change meanwhile, in slot order.
pub(crate) fn entries(body: &[u8]) -> Result<impl Iterator<Item = Pair<'_>>, Corrupt> {
    let shape = Shape::read(body)?;
    Ok((0..shape.count).map(move |slot| {
        let entry = shape.entry(body, slot)?;
        Ok((&body[entry.key..entry.value()], &body[entry.value()..entry.value() + entry.value_len]))
    }))
}

/// The numbers of a bucket page, for tools.
pub(crate) const NUMBERS: &[FixedNumber] = &[
    FixedNumber::new("root", at::ROOT, 8),
    FixedNumber::new("seed", at::SEED, 8),
    FixedNumber::new("next page", at::NEXT, 8),
    FixedNumber::new("entries", at::COUNT, 2),
    FixedNumber::new("bytes of gaps", at::DEAD, 2),
];

/// Checks everything about a bucket page that its bytes alone can show.
pub(crate) fn check(body: &[u8], seed: u64) -> Result<(), Corrupt> {
    let shape = Shape::read(body)?;
    let mut used = 0;
    for slot in 0..shape.count {
        let entry = shape.entry(body, slot)?;
        let hash = KeyHash::of(&body[entry.key..entry.value()], seed);
        if body[at::FINGERPRINTS + slot] != hash.fingerprint() {
            return Err(Corrupt);
        }
        used += entry.len();
    }
    if used + shape.dead == BODY_LEN - shape.heap { Ok(()) } else { Err(Corrupt) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const SEED: u64 = 7;

    fn empty() -> Vec<u8> {
        let mut body = vec![0xAA; BODY_LEN];
        format(&mut body[..], 3, SEED, 0).unwrap();
        body
    }

    fn find_in(body: &[u8], key: &[u8]) -> Option<Vec<u8>> {
        let entry = find(body, KeyHash::of(key, SEED), key).expect("a sound page")?;
        Some(body[entry.value()..entry.value() + entry.value_len].to_vec())
    }

    #[derive(Debug, Clone)]
    enum Step {
        Put(Vec<u8>, Vec<u8>),
        Remove(Vec<u8>),
        Retain(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let key = prop_oneof![
            (0_u8..40).prop_map(|n| vec![n]),
            (0_u16..400).prop_map(|n| n.to_le_bytes().repeat(4)),
            (0_u8..4).prop_map(|n| vec![n; 300]),
        ];
        let value = prop_oneof![
            3 => prop::collection::vec(any::<u8>(), 0..20),
            1 => prop::collection::vec(any::<u8>(), 100..900)
        ];
        prop_oneof![
            8 => (key.clone(), value).prop_map(|(k, v)| Step::Put(k, v)),
            3 => key.prop_map(Step::Remove),
            1 => any::<u64>().prop_map(Step::Retain),
        ]
    }

    proptest! {
        #[test]
        fn a_page_does_what_a_map_does(steps in prop::collection::vec(step(), 1..400)) {
            let mut body = empty();
            let mut model: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
            for step in steps {
                match step {
                    Step::Put(key, value) => {
                        let hash = KeyHash::of(&key, SEED);
                        let taken = |model: &HashMap<Vec<u8>, Vec<u8>>| -> usize {
                            model.iter().map(|(k, v)| entry_len(k.len(), v.len())).sum()
                        };
                        match find(&body[..], hash, &key).unwrap() {
                            Some(entry) if has_space_instead(&body[..], &entry, value.len()).unwrap() => {
                                replace(&mut body[..], hash, &entry, &key, &value).unwrap();
                                model.insert(key, value);
                            }
                            Some(_) => {}
                            None if has_space(&body[..], key.len(), value.len()).unwrap() => {
                                insert(&mut body[..], hash, &key, &value).unwrap();
                                model.insert(key, value);
                            }
                            None => {
                                // A page refuses only entries that would not fit a newly formatted page, except for
                                // fingerprints reserved by removed entries.
                                let needed = taken(&model) + entry_len(key.len(), value.len());
                                prop_assert!(space_taken(model.len() + 1, needed) + 512 > SPACE);
                            }
                        }
                    }
                    Step::Remove(key) => {
                        let found = find(&body[..], KeyHash::of(&key, SEED), &key).unwrap();
                        prop_assert_eq!(found.is_some(), model.remove(&key).is_some());
                        if let Some(entry) = found {
                            remove(&mut body[..], &entry).unwrap();
                        }
                    }
                    Step::Retain(mask) => {
                        let keep = |key: &[u8]| KeyHash::of(key, SEED).0 & mask & 0b11 == 0;
                        retain(&mut body[..], keep).unwrap();
                        model.retain(|key, _| keep(key));
                    }
                }
                check(&body, SEED).unwrap();
                prop_assert_eq!(count(&body[..]).unwrap(), model.len());
            }
            let all: HashMap<Vec<u8>, Vec<u8>> =
                entries(&body).unwrap().map(|e| e.unwrap()).map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
            prop_assert_eq!(&all, &model);
            for key in model.keys() {
                prop_assert_eq!(find_in(&body, key), model.get(key).cloned());
            }
        }

        /// E12.3: arbitrary bytes give a result or `Corrupt`, never a panic.
        #[test]
        fn garbage_is_survived(mut body in prop::collection::vec(any::<u8>(), BODY_LEN..=BODY_LEN),
                               count in 0_u16..300, capacity in 0_u16..20, heap in 0_u16..4064, dead in 0_u16..100) {
            body.put(at::COUNT, &count.to_le_bytes()).unwrap();
            body.put(at::CAPACITY, &(capacity * CAPACITY_STEP as u16).to_le_bytes()).unwrap();
            body.put(at::HEAP, &heap.to_le_bytes()).unwrap();
            body.put(at::DEAD, &dead.to_le_bytes()).unwrap();
            for key in [&b"a"[..], &[7; 8], &[]] {
                let hash = KeyHash::of(key, SEED);
                let found = find(&body[..], hash, key);
                let mut changed = body.clone();
                if let Ok(Some(entry)) = found {
                    let _ = replace(&mut changed[..], hash, &entry, key, b"longer than it was");
                    let _ = remove(&mut changed[..], &entry);
                }
                let _ = insert(&mut changed[..], hash, key, b"value");
                let _ = retain(&mut changed[..], |key| key.len() % 2 == 0);
            }
            let _ = entries(&body).map(|all| all.count());
            let _ = check(&body, SEED);
        }
    }

    #[test]
    fn largest_entry_fills_an_empty_page() {
        let mut body = empty();
        let value = vec![1; ENTRY_LEN_MAX - 8];
        assert!(has_space(&body[..], 8, value.len()).unwrap());
        insert(&mut body[..], KeyHash::of(&[0; 8], SEED), &[0; 8], &value).unwrap();
        assert_eq!(find_in(&body, &[0; 8]).unwrap(), value);
        assert!(!has_space(&body[..], 8, value.len()).unwrap(), "a page and no more");
    }

    #[test]
    fn page_holds_nearly_two_hundred_small_entries() {
        let mut body = empty();
        let mut inserted = 0_u64;
        while has_space(&body[..], 8, 8).unwrap() {
            let key = inserted.to_le_bytes();
            insert(&mut body[..], KeyHash::of(&key, SEED), &key, &key).unwrap();
            inserted += 1;
        }
        assert!(inserted >= 190, "{inserted}");
        for n in 0..inserted {
            assert_eq!(find_in(&body, &n.to_le_bytes()).unwrap(), n.to_le_bytes());
        }
        assert_eq!(find_in(&body, &inserted.to_le_bytes()), None);
    }

    #[test]
    fn buckets_split_one_at_a_time() {
        for buckets in 1..200_u64 {
            for hash in (0..1000_u64).map(|n| KeyHash(n.wrapping_mul(0x9E37_79B9_7F4A_7C15))) {
                let before = hash.bucket(buckets);
                let after = hash.bucket(buckets + 1);
                assert!(before < buckets);
                // Only the bucket at the split pointer loses keys, and only to the new bucket.
                let half = 1_u64 << buckets.ilog2();
                assert!(after == before || (after == buckets && before == buckets - half));
            }
        }
    }
}
