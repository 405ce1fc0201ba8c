//! Cache of free blocks: filled by reading the words once, and always verified against them.
//!
//! Each session takes blocks from one of several arenas, so that sessions compete for neither latches nor stripes; a freed
//! block returns to the arena of its span, after all transactions that began before have ended (E17.2). Free spans are
//! shared by all arenas. Latches are taken in this order: an arena's, the pool's; never those of two arenas.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;

use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Mutex, MutexGuard, planted};

use super::layout::{Layout, Span};
use crate::error::Result;
use crate::heap::Core;
use crate::region::{Mapping, Region};

/// Maximum number of arenas of a heap.
const ARENAS: u32 = 32;

/// Number of waiting blocks from which on the oldest transaction is looked up, to reclaim some.
const LIMBO_LOOKED_AT: usize = 32;

/// Owner of a span: an arena, by its number plus this, or one of the following constants.
const ARENA: u64 = 3;
/// Zero, so that unwritten words cost no memory.
const UNKNOWN: u64 = 0;
const UNSCANNED: u64 = 1;
const NOBODYS: u64 = 2;

/// Block state of a heap that is kept outside of its words.
#[derive(Debug)]
pub(crate) struct Blocks {
    pub(crate) layout: Layout,
    arenas: Box<[Mutex<Arena>]>,
    pool: Mutex<Pool>,
    /// Owner of each span.
    owners: Region,
    /// Numbers of clearings that have begun and that have ended. In a clearing, one session takes the spans of which all
    /// blocks are free.
    clearings: [AtomicU64; 2],
}

/// Free blocks of some spans.
#[derive(Debug, Default)]
struct Arena {
    /// Headers of free blocks, by size.
    free: Vec<Vec<u64>>,
    /// Spans in which more blocks can be carved, by size.
    open: Vec<Vec<Open>>,
    /// Freed blocks that may not be reused before older transactions have ended.
    limbo: VecDeque<Freed>,
}

/// A span of blocks of one size, some of which are not carved yet. Only its holder carves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Open {
    pub(crate) span: u64,
    pub(crate) carved: u64,
}

/// A block that was freed by the commit with this version.
#[derive(Clone, Copy, Debug)]
struct Freed {
    version: u64,
    header: u64,
    /// Its size, or the number of spans that it filled.
    size: Result<usize, u64>,
}

/// The latch of an arena, held from one freed block to the next.
#[derive(Default)]
pub(crate) struct Latched<'a>(Option<(&'a Mutex<Arena>, MutexGuard<'a, Arena>)>);

/// Spans that belong to no arena.
#[derive(Debug, Default)]
struct Pool {
    /// First span that is not known yet.
    known_to: u64,
    /// Spans without blocks, as ranges: the first, and the number.
    free: BTreeMap<u64, u64>,
    /// Spans with blocks of one size, for which the free blocks are unknown.
    unscanned: BTreeSet<(usize, u64)>,
}

/// A span of which all blocks are free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Emptied {
    pub(crate) size: usize,
    pub(crate) open: Open,
}

/// Spans of which all blocks are free, taken by one session to clear them. Dropping it ends the clearing: by then each span
/// is given back, or free.
pub(crate) struct Emptying<'a> {
    pub(crate) blocks: &'a Blocks,
    pub(crate) spans: Vec<Emptied>,
}

impl Drop for Emptying<'_> {
    fn drop(&mut self) {
        if !self.spans.is_empty() {
            self.blocks.clearings[1].fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Complete cached state, for comparison.
#[cfg(all(test, not(cedrat_shuttle)))]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Known {
    free: BTreeSet<u64>,
    open: BTreeSet<(u64, u64)>,
    spans: BTreeMap<u64, u64>,
}

/// Result of a search in all arenas.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A free block of this size, by its header.
    Block(usize, u64),
    /// A span of this size to carve.
    Open(usize, Open),
}

impl Blocks {
    pub(crate) fn new(reserved_words: u64) -> io::Result<Blocks> {
        let layout = Layout::of(reserved_words);
        let spans = reserved_words / layout.span_words;
        Ok(Blocks {
            layout,
            arenas: (0..ARENAS).map(|_| Mutex::default()).collect(),
            pool: Mutex::default(),
            owners: Region::new(spans as usize, Mapping::default())?,
            clearings: Default::default(),
        })
    }

    #[inline]
    fn owner(&self, span: u64) -> &AtomicU64 {
        &self.owners.words()[span as usize]
    }

    /// Discards the cache; it is rebuilt from the words on demand. No transaction may be running.
    #[cfg(all(test, not(cedrat_shuttle)))]
    pub(crate) fn rebuild(&self) {
        *self.pool.lock() = Pool::default();
        for arena in &self.arenas {
            *arena.lock() = Arena::default();
        }
        self.owners.words().iter().for_each(|owner| owner.store(UNKNOWN, Ordering::Relaxed));
    }

    /// Returns the arena of a session: one that no session of another partition uses, unless there are very many
    /// partitions.
    #[inline]
    pub(crate) fn arena_of(session: u32, partition: u32, partitions: u32) -> u32 {
        match ARENAS / partitions.max(1) {
            0 => partition % ARENAS,
            each => partition + partitions * (session % each),
        }
    }

    // ---- blocks -----------------------------------------------------------------------------------------------

    /// Returns a block that is presumably free. `oldest` returns the start of the oldest running transaction.
    #[inline]
    pub(crate) fn take(&self, arena: u32, size: usize, oldest: impl Fn() -> u64) -> Option<u64> {
        let mut arena = self.arenas[arena as usize].lock();
        if arena.limbo.len() >= LIMBO_LOOKED_AT || arena.has_none(size) && !arena.limbo.is_empty() {
            self.reclaim(&mut arena, oldest());
        }
        arena.free.get_mut(size)?.pop()
    }

    /// Returns a block that no other transaction has used since it was taken.
    pub(crate) fn give_back(&self, header: u64, size: usize) {
        self.arena_of_block(header).lock().free_of(size).push(header);
    }

    /// Returns carved and unused blocks of a span: the first is taken first.
    pub(crate) fn give_carved(&self, size: usize, span: u64, indices: std::ops::Range<u64>) {
        if indices.is_empty() {
            return;
        }
        let stride = self.layout.stride(size);
        let headers = indices.rev().map(|index| self.layout.header_word(span, stride, index));
        self.arena_of_block(span * self.layout.span_words).lock().free_of(size).extend(headers);
    }

    /// Queues a block that was freed at this version. Blocks of one arena, one after the other, share its latch.
    pub(crate) fn freed<'a>(&'a self, latched: &mut Latched<'a>, header: u64, size: Result<usize, u64>, version: u64) {
        let arena = self.arena_of_block(header);
        let held = match latched.0.take() {
            Some((of, guard)) if std::ptr::eq(of, arena) => guard,
            other => {
                drop(other); // before the latch of another arena
                arena.lock()
            }
        };
        let (_, arena) = latched.0.insert((arena, held));
        arena.limbo.push_back(Freed { version, header, size });
    }

    /// Moves blocks that no running transaction can reference from the queue to the free lists.
    fn reclaim(&self, arena: &mut Arena, oldest: u64) {
        let mut count = 0;
        for freed in &arena.limbo {
            if freed.version > oldest && !planted!("freed_block_used_at_once") {
                break;
            }
            match freed.size {
                Ok(size) => of(&mut arena.free, size).push(freed.header),
                Err(spans) => self.give_spans(self.layout.span_of(freed.header), spans),
            }
            count += 1;
        }
        arena.limbo.drain(..count);
    }

    fn arena_of_block(&self, header: u64) -> &Mutex<Arena> {
        let owner = self.owner(self.layout.span_of(header)).load(Ordering::Acquire);
        &self.arenas[(owner.saturating_sub(ARENA) % u64::from(ARENAS)) as usize]
    }

    // ---- spans ------------------------------------------------------------------------------------------------

    /// Takes a span of this size in which more blocks can be carved, unless it is held.
    pub(crate) fn take_open(&self, arena: u32, size: usize, is_held: impl Fn(u64) -> bool) -> Option<Open> {
        let mut arena = self.arenas[arena as usize].lock();
        let open = arena.open.get_mut(size)?;
        let at = open.iter().rposition(|open| !is_held(open.span))?;
        Some(open.remove(at))
    }

    /// Returns a span in which more blocks can be carved.
    pub(crate) fn give_open(&self, size: usize, open: Open) {
        let stride = self.layout.stride(size);
        if open.carved < self.layout.blocks_in_span(stride) {
            self.arena_of_block(open.span * self.layout.span_words).lock().open_of(size).push(open);
        }
    }

    /// Takes adjacent spans without blocks, none of which is held.
    pub(crate) fn take_spans(&self, core: &Core, count: u64, is_held: impl Fn(u64) -> bool) -> Result<Option<u64>> {
        let mut pool = self.pool.lock();
        self.catch_up(&mut pool, core)?;
        let mut places =
            pool.free.iter().flat_map(|(&first, &len)| first..(first + len + 1).saturating_sub(count).max(first));
        let first = places.find(|&first| !(first..first + count).any(&is_held));
        drop(places);
        first.iter().for_each(|&first| pool.take_out(first, count));
        Ok(first)
    }

    /// Assigns a span to an arena.
    pub(crate) fn give_to_arena(&self, span: u64, arena: u32) {
        self.owner(span).store(ARENA + u64::from(arena), Ordering::Release);
    }

    /// Returns spans that have no blocks any more.
    pub(crate) fn give_spans(&self, first: u64, count: u64) {
        let mut pool = self.pool.lock();
        for span in first..first + count {
            self.owner(span).store(NOBODYS, Ordering::Release);
        }
        pool.give(first, count);
    }

    /// Reads the table entries of spans that are not known yet: all spans after a heap was loaded, new ones after it grew.
    fn catch_up(&self, pool: &mut Pool, core: &Core) -> Result<()> {
        let end = core.words() / self.layout.span_words;
        let mut span = pool.known_to.max(self.layout.first_span);
        if span < end {
            core.load(self.layout.table_word(span), end - span)?;
        }
        while span < end {
            let word = core.region.words()[self.layout.table_word(span) as usize].load(Ordering::Relaxed);
            let (mut count, mut owner) = (1, NOBODYS);
            match Span::of_word(word) {
                Some(Span::Free) => pool.give(span, 1),
                Some(Span::Run { spans }) => count = spans,
                Some(Span::Sized { stride, .. }) => {
                    if let Some(size) = self.layout.size_of_stride(stride) {
                        pool.unscanned.insert((size, span));
                        owner = UNSCANNED;
                    }
                }
                None => {} // nothing uses it; `verify` reports it
            }
            self.owner(span).store(owner, Ordering::Release);
            span = span.saturating_add(count);
        }
        pool.known_to = span.min(end).max(pool.known_to);
        Ok(())
    }

    /// Makes the free blocks of a span known before one of its blocks is freed, so that this free comes after the scan.
    #[inline]
    pub(crate) fn know(&self, core: &Core, span: u64, arena: u32) -> Result<()> {
        let owner = self.owner(span).load(Ordering::Acquire);
        if owner == UNKNOWN || owner == UNSCANNED { self.find_out(core, span, arena) } else { Ok(()) }
    }

    #[cold]
    fn find_out(&self, core: &Core, span: u64, arena: u32) -> Result<()> {
        let mut pool = self.pool.lock();
        self.catch_up(&mut pool, core)?;
        let unscanned = pool.unscanned.iter().find(|&&(_, other)| other == span).copied();
        if let Some(found) = unscanned {
            let scanned = self.scan(core, found, arena)?;
            pool.unscanned.remove(&found);
            drop(pool);
            self.adopt(arena, scanned);
        }
        Ok(())
    }

    /// Adopts one span of this size for which the free blocks are unknown. Returns whether there was one.
    pub(crate) fn adopt_one(&self, core: &Core, arena: u32, size: usize) -> Result<bool> {
        let mut pool = self.pool.lock();
        self.catch_up(&mut pool, core)?;
        let Some(&found) = pool.unscanned.range((size, 0)..(size + 1, 0)).next() else { return Ok(false) };
        let scanned = self.scan(core, found, arena)?;
        pool.unscanned.remove(&found);
        drop(pool);
        self.adopt(arena, scanned);
        Ok(true)
    }

    /// Adopts all spans for which the free blocks are unknown.
    fn adopt_all(&self, core: &Core, arena: u32) -> Result<()> {
        (0..self.layout.sizes()).try_for_each(|size| {
            while self.adopt_one(core, arena, size)? {}
            Ok(())
        })
    }

    /// Determines the free blocks of a span. Under the pool's latch: no block of it is freed before (`know`).
    fn scan(&self, core: &Core, (size, span): (usize, u64), arena: u32) -> Result<(usize, Open, Vec<u64>)> {
        core.load(span * self.layout.span_words, self.layout.span_words)?;
        let words = core.region.words();
        let table = words[self.layout.table_word(span) as usize].load(Ordering::Acquire);
        let stride = self.layout.stride(size);
        let most = self.layout.blocks_in_span(stride);
        let carved = match Span::of_word(table) {
            Some(Span::Sized { carved, .. }) => carved.min(most),
            _ => most,
        };
        let headers = (0..carved).rev().map(|index| self.layout.header_word(span, stride, index));
        let free = headers.filter(|&header| words[header as usize].load(Ordering::Acquire) == 0).collect();
        self.give_to_arena(span, arena);
        Ok((size, Open { span, carved }, free))
    }

    fn adopt(&self, arena: u32, (size, open, free): (usize, Open, Vec<u64>)) {
        self.arenas[arena as usize].lock().free_of(size).extend(free);
        self.give_open(size, open);
    }

    // ---- restored prepared transactions ---------------------------------------------------------------------------

    /// Removes a block from the free list of a known span, because it is in use.
    pub(crate) fn withhold_block(&self, header: u64, size: usize) {
        self.arena_of_block(header).lock().free_of(size).retain(|&free| free != header);
    }

    /// Removes a known span that is being carved from the open spans.
    pub(crate) fn withhold_open(&self, span: u64, size: usize) {
        self.arena_of_block(span * self.layout.span_words).lock().open_of(size).retain(|open| open.span != span);
    }

    /// Removes spans from the pool that the table marks as free, because they are in use.
    pub(crate) fn withhold_spans(&self, core: &Core, first: u64, count: u64) -> Result<()> {
        let mut pool = self.pool.lock();
        self.catch_up(&mut pool, core)?;
        pool.take_out(first, count);
        Ok(())
    }

    // ---- when space runs out --------------------------------------------------------------------------------------

    /// Takes the spans of which all blocks are free. The caller clears their words in the table, or gives the spans back.
    /// Queued blocks are checked as well, so that whole spans may be free now although none is returned.
    pub(crate) fn take_emptied(&self, core: &Core, arena: u32, oldest: u64) -> Result<Emptying<'_>> {
        self.adopt_all(core, arena)?;
        let mut spans = Vec::new();
        for arena in &self.arenas {
            let mut arena = arena.lock();
            self.reclaim(&mut arena, oldest);
            for size in 0..arena.free.len() {
                let emptied = self.take_empty(&mut arena, core, size);
                if spans.is_empty() && !emptied.is_empty() {
                    // Under the latch: a session that no longer finds them here knows of the clearing.
                    self.clearings[0].fetch_add(1, Ordering::SeqCst);
                }
                spans.extend(emptied);
            }
        }
        Ok(Emptying { blocks: self, spans })
    }

    /// Returns the number of clearings that have begun. If it exceeds the number of those that had ended before a search,
    /// the search may have missed spans that are being cleared.
    pub(crate) fn clearings_begun(&self) -> u64 {
        self.clearings[0].load(Ordering::SeqCst)
    }

    /// Returns the number of clearings that have ended.
    pub(crate) fn clearings_ended(&self) -> u64 {
        self.clearings[1].load(Ordering::SeqCst)
    }

    /// Returns a span whose word in the table could not be cleared: it still is a span of free blocks.
    pub(crate) fn give_emptied(&self, emptied: &Emptied) {
        let Emptied { size, open } = *emptied;
        self.give_carved(size, open.span, 0..open.carved);
        self.give_open(size, open);
    }

    fn take_empty(&self, arena: &mut Arena, core: &Core, size: usize) -> Vec<Emptied> {
        let stride = self.layout.stride(size);
        let mut counts: HashMap<u64, u64> = HashMap::new();
        for &header in &arena.free[size] {
            *counts.entry(self.layout.span_of(header)).or_default() += 1;
        }
        for open in arena.open_of(size).iter() {
            counts.entry(open.span).or_default();
        }
        let emptied = |(span, free): (u64, u64)| {
            // A span that is neither open nor fully carved is being carved by another session.
            let open = arena.open[size].iter().find(|open| open.span == span);
            let carved = open.map_or(self.layout.blocks_in_span(stride), |open| open.carved);
            let word = core.region.words()[self.layout.table_word(span) as usize].load(Ordering::Acquire);
            let is = free == carved && word == Span::Sized { stride, carved }.to_word();
            is.then_some(Emptied { size, open: Open { span, carved } })
        };
        let emptied: Vec<Emptied> = counts.into_iter().filter_map(emptied).collect();
        if !emptied.is_empty() {
            let gone: BTreeSet<u64> = emptied.iter().map(|emptied| emptied.open.span).collect();
            arena.free[size].retain(|&header| !gone.contains(&self.layout.span_of(header)));
            arena.open[size].retain(|open| !gone.contains(&open.span));
        }
        emptied
    }

    /// Takes a block or a span of this size or a larger one, from any arena.
    pub(crate) fn steal(&self, size: usize, oldest: u64) -> Option<Found> {
        for arena in &self.arenas {
            let mut arena = arena.lock();
            self.reclaim(&mut arena, oldest);
            for size in size..self.layout.sizes() {
                if let Some(header) = arena.free_of(size).pop() {
                    return Some(Found::Block(size, header));
                }
                if let Some(open) = arena.open_of(size).pop() {
                    return Some(Found::Open(size, open));
                }
            }
        }
        None
    }

    /// Returns whether a transaction that begins at a later version may find more.
    pub(crate) fn more_later_than(&self, start: u64) -> bool {
        self.arenas.iter().any(|arena| arena.lock().limbo.iter().any(|freed| freed.version > start))
    }

    /// Returns the complete cached state, for comparison.
    #[cfg(all(test, not(cedrat_shuttle)))]
    pub(crate) fn all_free(&self, core: &Core) -> Known {
        self.adopt_all(core, 0).expect("all is loaded");
        let (mut free, mut open) = (BTreeSet::new(), BTreeSet::new());
        for arena in &self.arenas {
            let mut arena = arena.lock();
            self.reclaim(&mut arena, u64::MAX);
            for &header in arena.free.iter().flatten() {
                assert!(free.insert(header), "a block is free twice");
            }
            for is in arena.open.iter().flatten() {
                assert!(open.insert((is.span, is.carved)), "a span is open twice");
            }
        }
        let mut pool = self.pool.lock();
        self.catch_up(&mut pool, core).expect("all is loaded");
        Known { free, open, spans: pool.free.clone() }
    }
}

impl Arena {
    fn has_none(&self, size: usize) -> bool {
        self.free.get(size).is_none_or(Vec::is_empty)
    }

    fn free_of(&mut self, size: usize) -> &mut Vec<u64> {
        of(&mut self.free, size)
    }

    fn open_of(&mut self, size: usize) -> &mut Vec<Open> {
        of(&mut self.open, size)
    }
}

fn of<T>(sizes: &mut Vec<Vec<T>>, size: usize) -> &mut Vec<T> {
    if size >= sizes.len() {
        sizes.resize_with(size + 1, Vec::new);
    }
    &mut sizes[size]
}

impl Pool {
    /// Removes adjacent spans, all of which are free.
    fn take_out(&mut self, first: u64, count: u64) {
        let Some((&begin, &len)) = self.free.range(..=first).next_back() else { return };
        if begin + len < first + count {
            return;
        }
        self.free.remove(&begin);
        if begin < first {
            self.free.insert(begin, first - begin);
        }
        if first + count < begin + len {
            self.free.insert(first + count, begin + len - first - count);
        }
    }

    /// Adds free spans, and merges them with their neighbours.
    fn give(&mut self, mut first: u64, mut count: u64) {
        if let Some((&before, &len)) = self.free.range(..first).next_back()
            && before + len == first
        {
            self.free.remove(&before);
            (first, count) = (before, count + len);
        }
        if let Some(behind) = self.free.remove(&(first + count)) {
            count += behind;
        }
        self.free.insert(first, count);
    }
}
