//! A B+-tree. Full nodes are split on the way down, so that an insertion passes each level once. A node that a removal has
//! left under-full is merged with a neighbour, or the two are balanced; the way up ends at the first node that is not
//! under-full.
//!
//! ```text
//! leaf      count | 1 << 32, room for 16 keys, room for 16 values
//! inner     count,           room for 16 keys, room for 17 nodes
//! ```
//!
//! The keys below child *i* of an inner node are less than its key *i*, and not less than its key *i* - 1. All leaves have
//! the same depth. Every node has 4 keys or more, except for the root, which has at least one.

use std::ops::{Bound, RangeBounds};

use super::{APART, CELLS, CELLS_WORDS, Head, Steps, opened, own_cell};
use crate::error::{Interrupt, Result};
use crate::tx::Tx;
use crate::typed::{Plain, description};

/// Maximum number of keys of a node.
const FULL: u64 = 16;
const HALF: u64 = FULL / 2;
/// Minimum number of keys of a node other than the root.
const LEAST: u64 = FULL / 4;
/// Two neighbours with at most this many keys in total are merged, with space for a few more: otherwise the next insertion
/// would split the node.
const JOINED: u64 = FULL - LEAST;
/// Two neighbours with more keys are balanced, and neither is under-full, nor full.
const _: () = assert!(JOINED / 2 > LEAST && LEAST + FULL < 2 * FULL);
const LEAF: u64 = 1 << 32;
/// In the head: the first word of the root, 0 if there is none.
const ROOT: u64 = 1;

/// A durable map in the order of its keys.
///
/// ```
/// # use cedrat_heap::{HeapOptions, HeapOrderedMap, Memory, MemoryOptions};
/// # fn main() -> cedrat_heap::Result<()> {
/// # let memory = Memory::volatile(MemoryOptions::small())?;
/// # let heap = memory.create_heap("calendar", &HeapOptions::new(1 << 20))?;
/// let days: HeapOrderedMap<u32, u64> = HeapOrderedMap::open(&heap, "days")?;
/// heap.transaction(|tx| (1..=31).try_for_each(|day| days.insert(tx, day, u64::from(day) * 2).map(drop)))?;
/// let week = heap.transaction(|tx| days.range(tx, 8..15))?;
/// assert_eq!((week.len(), week[0]), (7, (8, 16)));
/// assert_eq!(heap.transaction(|tx| days.last(tx))?, Some((31, 62)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct HeapOrderedMap<K, V>(Head<(K, V)>);

impl<K, V> Clone for HeapOrderedMap<K, V> {
    fn clone(&self) -> Self {
        HeapOrderedMap(self.0.clone())
    }
}

/// Greater than the depth of any map: each level has at least four times as many nodes as the one above.
const DEPTH_MAX: u64 = 32;

/// Neighbours, and the word of the key between them in their parent.
struct Pair {
    between: u64,
    lower: Node,
    upper: Node,
}

/// State of a walk over all nodes.
struct Walk {
    leaf_depth: Option<u64>,
    keys: u64,
}

/// A node that was read.
#[derive(Clone, Copy)]
struct Node {
    /// Its first word.
    at: u64,
    count: u64,
    leaf: bool,
}

impl<K: Plain + Ord, V: Plain> HeapOrderedMap<K, V> {
    const HEAD_WORDS: u64 = APART + CELLS_WORDS;
    const KEY: u64 = K::WORDS as u64;
    const VALUE: u64 = V::WORDS as u64;
    /// Offset in a node at which its values or children begin.
    const BEHIND_KEYS: u64 = 1 + FULL * Self::KEY;

    opened!("an ordered map");

    fn type_name() -> String {
        format!("HeapOrderedMap<{}, {}>", description::<K>(), description::<V>())
    }

    // ---- nodes ------------------------------------------------------------------------------------------------

    fn node(&self, tx: &mut Tx<'_>, at: u64) -> Result<Node, Interrupt> {
        let word = self.0.get(tx, at)?;
        Ok(Node { at, count: (word & (LEAF - 1)).min(FULL), leaf: word & LEAF != 0 })
    }

    fn set_count(&self, tx: &mut Tx<'_>, node: Node, count: u64) -> Result<(), Interrupt> {
        self.0.set(tx, node.at, count | if node.leaf { LEAF } else { 0 })
    }

    fn new_node(&self, tx: &mut Tx<'_>, leaf: bool) -> Result<Node, Interrupt> {
        let words = Self::BEHIND_KEYS + if leaf { FULL * Self::VALUE } else { FULL + 1 };
        let at = self.0.new_block(tx, words)?;
        let node = Node { at, count: 0, leaf };
        self.set_count(tx, node, 0)?;
        Ok(node)
    }

    fn key_word(node: Node, index: u64) -> u64 {
        node.at + 1 + index * Self::KEY
    }

    /// Returns the word of a leaf's value, or of an inner node's child.
    fn behind_word(node: Node, index: u64) -> u64 {
        node.at + Self::BEHIND_KEYS + index * Self::behind_len(node)
    }

    /// Returns the number of words of one of them.
    fn behind_len(node: Node) -> u64 {
        if node.leaf { Self::VALUE } else { 1 }
    }

    fn key(&self, tx: &mut Tx<'_>, node: Node, index: u64) -> Result<K, Interrupt> {
        self.0.load(tx, Self::key_word(node, index))
    }

    fn child(&self, tx: &mut Tx<'_>, node: Node, index: u64) -> Result<Node, Interrupt> {
        let at = self.0.get(tx, Self::behind_word(node, index))?;
        self.node(tx, at)
    }

    /// Returns a child of a node at depth `depth`. A map whose nodes form a cycle exceeds the maximum depth.
    fn below(&self, tx: &mut Tx<'_>, node: Node, index: u64, depth: &mut u64) -> Result<Node, Interrupt> {
        if *depth > DEPTH_MAX {
            return Err(self.0.corrupt(node.at, TOO_DEEP));
        }
        *depth += 1;
        self.child(tx, node, index)
    }

    /// Returns the number of keys of a node that are less than a key, or equal to it with `or_equal`.
    fn before(&self, tx: &mut Tx<'_>, node: Node, key: &K, or_equal: bool) -> Result<u64, Interrupt> {
        let (mut from, mut to) = (0, node.count);
        while from < to {
            let middle = (from + to) / 2;
            let other = self.key(tx, node, middle)?;
            if other < *key || or_equal && other == *key {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        Ok(from)
    }

    /// Copies words; the ranges may overlap.
    fn copy(&self, tx: &mut Tx<'_>, from: u64, to: u64, words: u64) -> Result<(), Interrupt> {
        for step in 0..words {
            let at = if from < to { words - 1 - step } else { step };
            let value = self.0.get(tx, from + at)?;
            self.0.set(tx, to + at, value)?;
        }
        Ok(())
    }

    fn root(&self, tx: &mut Tx<'_>) -> Result<(u64, Option<Node>), Interrupt> {
        let first = self.0.first(tx)?;
        match self.0.get(tx, first + ROOT)? {
            0 => Ok((first, None)),
            at => Ok((first, Some(self.node(tx, at)?))),
        }
    }

    /// Returns the leaf that contains a key, if any does, and the number of its keys that are less.
    fn find(&self, tx: &mut Tx<'_>, key: &K) -> Result<Option<(Node, u64, bool)>, Interrupt> {
        let (_, Some(mut node)) = self.root(tx)? else { return Ok(None) };
        let mut depth = 0;
        while !node.leaf {
            let index = self.before(tx, node, key, true)?;
            node = self.below(tx, node, index, &mut depth)?;
        }
        let index = self.before(tx, node, key, false)?;
        let is = index < node.count && self.key(tx, node, index)? == *key;
        Ok(Some((node, index, is)))
    }

    // ---- keys -------------------------------------------------------------------------------------------------

    /// Returns the value of a key.
    ///
    /// # Errors
    /// The map was removed; a conflict.
    pub fn get(&self, tx: &mut Tx<'_>, key: &K) -> Result<Option<V>, Interrupt> {
        match self.find(tx, key)? {
            Some((leaf, index, true)) => self.0.load(tx, Self::behind_word(leaf, index)).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns whether the key exists.
    ///
    /// # Errors
    /// The map was removed; a conflict.
    pub fn contains_key(&self, tx: &mut Tx<'_>, key: &K) -> Result<bool, Interrupt> {
        Ok(matches!(self.find(tx, key)?, Some((_, _, true))))
    }

    /// Sets the value of a key; returns its previous value.
    ///
    /// # Errors
    /// The heap is full; the map was removed; a conflict.
    pub fn insert(&self, tx: &mut Tx<'_>, key: K, value: V) -> Result<Option<V>, Interrupt> {
        tx.whole(|tx| self.insert_whole(tx, key, value))
    }

    fn insert_whole(&self, tx: &mut Tx<'_>, key: K, value: V) -> Result<Option<V>, Interrupt> {
        if let Some((leaf, index, true)) = self.find(tx, &key)? {
            let at = Self::behind_word(leaf, index);
            let before = self.0.load(tx, at)?;
            self.0.store(tx, at, &value)?;
            return Ok(Some(before));
        }
        let mut node = self.root_with_space(tx)?;
        let mut depth = 0;
        while !node.leaf {
            let index = self.before(tx, node, &key, true)?;
            let child = self.below(tx, node, index, &mut depth)?;
            node = if child.count < FULL { child } else { self.split(tx, node, index, child, &key)? };
        }
        let index = self.before(tx, node, &key, false)?;
        self.make_space(tx, node, index, index)?;
        self.0.store(tx, Self::key_word(node, index), &key)?;
        self.0.store(tx, Self::behind_word(node, index), &value)?;
        self.count(tx, 1)?;
        Ok(None)
    }

    fn count(&self, tx: &mut Tx<'_>, amount: u64) -> Result<(), Interrupt> {
        let first = self.0.first(tx)?;
        self.0.add(tx, own_cell(tx, first + APART), amount).map(drop)
    }

    /// Moves a node's keys from `index` on, and its values or children from `behind` on, one place up.
    fn make_space(&self, tx: &mut Tx<'_>, node: Node, index: u64, behind: u64) -> Result<(), Interrupt> {
        let from = Self::key_word(node, index);
        self.copy(tx, from, from + Self::KEY, (node.count - index) * Self::KEY)?;
        let (from, to) = (Self::behind_word(node, behind), Self::behind_word(node, behind + 1));
        let end = Self::behind_word(node, if node.leaf { node.count } else { node.count + 1 });
        self.copy(tx, from, to, end - from)?;
        self.set_count(tx, node, node.count + 1)
    }

    /// Returns the root, with space for one more key.
    fn root_with_space(&self, tx: &mut Tx<'_>) -> Result<Node, Interrupt> {
        let (first, root) = self.root(tx)?;
        let root = match root {
            Some(root) if root.count < FULL => return Ok(root),
            Some(full) => {
                let root = self.new_node(tx, false)?;
                self.0.set(tx, Self::behind_word(root, 0), full.at)?;
                self.halve(tx, root, 0, full)?;
                root
            }
            None => self.new_node(tx, true)?,
        };
        self.0.set(tx, first + ROOT, root.at)?;
        self.node(tx, root.at)
    }

    /// Splits a full child of a node; returns the half where a key belongs.
    fn split(&self, tx: &mut Tx<'_>, parent: Node, index: u64, full: Node, key: &K) -> Result<Node, Interrupt> {
        self.halve(tx, parent, index, full)?;
        let between = self.key(tx, parent, index)?;
        self.child(tx, parent, if *key < between { index } else { index + 1 })
    }

    /// Moves the upper half of a full node into a new one, which follows it in its parent; the parent has space.
    fn halve(&self, tx: &mut Tx<'_>, parent: Node, index: u64, full: Node) -> Result<(), Interrupt> {
        let upper = self.new_node(tx, full.leaf)?;
        // A split inner node moves the key in the middle to the parent; a leaf keeps all.
        let (from, end) = if full.leaf { (HALF, FULL) } else { (HALF + 1, FULL + 1) };
        self.copy(tx, Self::key_word(full, from), Self::key_word(upper, 0), (FULL - from) * Self::KEY)?;
        let behind = Self::behind_word(full, from);
        self.copy(tx, behind, Self::behind_word(upper, 0), Self::behind_word(full, end) - behind)?;
        self.make_space(tx, parent, index, index + 1)?;
        self.copy(tx, Self::key_word(full, HALF), Self::key_word(parent, index), Self::KEY)?;
        self.0.set(tx, Self::behind_word(parent, index + 1), upper.at)?;
        self.set_count(tx, full, HALF)?;
        self.set_count(tx, upper, FULL - from)
    }

    /// Removes a key; returns its value.
    ///
    /// # Errors
    /// The map was removed; a conflict.
    pub fn remove(&self, tx: &mut Tx<'_>, key: &K) -> Result<Option<V>, Interrupt> {
        tx.whole(|tx| self.remove_whole(tx, key))
    }

    fn remove_whole(&self, tx: &mut Tx<'_>, key: &K) -> Result<Option<V>, Interrupt> {
        let Some((leaf, index, true)) = self.find(tx, key)? else { return Ok(None) };
        let value = self.0.load(tx, Self::behind_word(leaf, index))?;
        self.count(tx, u64::MAX)?;
        self.close_gap(tx, leaf, index, index)?;
        if leaf.count <= LEAST {
            self.mend(tx, key)?;
        }
        Ok(Some(value))
    }

    /// Moves a node's keys after `index`, and its values or children after `behind`, one place down.
    fn close_gap(&self, tx: &mut Tx<'_>, node: Node, index: u64, behind: u64) -> Result<(), Interrupt> {
        let to = Self::key_word(node, index);
        self.copy(tx, to + Self::KEY, to, (node.count - index - 1) * Self::KEY)?;
        let (to, from) = (Self::behind_word(node, behind), Self::behind_word(node, behind + 1));
        let end = Self::behind_word(node, if node.leaf { node.count } else { node.count + 1 });
        self.copy(tx, from, to, end - from)?;
        self.set_count(tx, node, node.count - 1)
    }

    // ---- under-full nodes ---------------------------------------------------------------------------------------

    /// Restores the minimum number of keys after a removal from the leaf of this key, and in the nodes above it.
    fn mend(&self, tx: &mut Tx<'_>, key: &K) -> Result<(), Interrupt> {
        let (_, Some(mut node)) = self.root(tx)? else { return Ok(()) };
        let mut way = Vec::new();
        let mut depth = 0;
        while !node.leaf {
            let index = self.before(tx, node, key, true)?;
            way.push((node, index));
            node = self.below(tx, node, index, &mut depth)?;
        }
        while let Some((parent, index)) = way.pop()
            && self.child(tx, parent, index)?.count < LEAST
        {
            self.give_company(tx, parent, index.saturating_sub(1))?;
        }
        self.lower_root(tx)
    }

    /// Merges or balances two neighbours, one of which is under-full.
    fn give_company(&self, tx: &mut Tx<'_>, parent: Node, index: u64) -> Result<(), Interrupt> {
        if index >= parent.count {
            return Err(self.0.corrupt(parent.at, "a node of an ordered map has no second neighbour"));
        }
        let (lower, upper) = (self.child(tx, parent, index)?, self.child(tx, parent, index + 1)?);
        let pair = Pair { between: Self::key_word(parent, index), lower, upper };
        // Merging two inner nodes adds one key: the one between them in the parent.
        let all = lower.count + upper.count + u64::from(!lower.leaf);
        if all <= JOINED {
            self.move_down(tx, &pair, upper.count + u64::from(!upper.leaf))?;
            self.close_gap(tx, parent, index, index + 1)?;
            return self.0.free_block(tx, upper.at);
        }
        let (below, wanted) = (lower.count, (lower.count + upper.count) / 2);
        match below < wanted {
            true => self.move_down(tx, &pair, wanted - below),
            false => self.move_up(tx, &pair, below - wanted),
        }
    }

    /// Moves `many` of a node's first values or children to the end of the previous node.
    fn move_down(&self, tx: &mut Tx<'_>, pair: &Pair, many: u64) -> Result<(), Interrupt> {
        let Pair { between, lower, upper } = *pair;
        let (keys, first) = (Self::key_word(lower, lower.count), Self::key_word(upper, 0));
        let count = lower.count + u64::from(!lower.leaf);
        self.copy(tx, Self::behind_word(upper, 0), Self::behind_word(lower, count), many * Self::behind_len(upper))?;
        if upper.leaf {
            self.copy(tx, first, keys, many * Self::KEY)?;
        } else {
            self.copy(tx, between, keys, Self::KEY)?;
            self.copy(tx, first, keys + Self::KEY, (many - 1) * Self::KEY)?;
        }
        self.set_count(tx, lower, lower.count + many)?;
        let Some(left) = upper.count.checked_sub(many) else { return Ok(()) };
        // The new key between them is the first remaining one of a leaf, or the last one moved from an inner node.
        let key = if upper.leaf { many } else { many - 1 };
        if left > 0 {
            self.copy(tx, Self::key_word(upper, key), between, Self::KEY)?;
        }
        self.copy(tx, Self::key_word(upper, many), first, left * Self::KEY)?;
        let behind = (left + u64::from(!upper.leaf)) * Self::behind_len(upper);
        self.copy(tx, Self::behind_word(upper, many), Self::behind_word(upper, 0), behind)?;
        self.set_count(tx, upper, left)
    }

    /// Moves `many` of a node's last values or children to the beginning of the next node.
    fn move_up(&self, tx: &mut Tx<'_>, pair: &Pair, many: u64) -> Result<(), Interrupt> {
        let Pair { between, lower, upper } = *pair;
        let (left, inner) = (lower.count - many, u64::from(!upper.leaf));
        self.copy(tx, Self::key_word(upper, 0), Self::key_word(upper, many), upper.count * Self::KEY)?;
        let behind = (upper.count + inner) * Self::behind_len(upper);
        self.copy(tx, Self::behind_word(upper, 0), Self::behind_word(upper, many), behind)?;
        let moved = Self::behind_word(lower, left + inner);
        self.copy(tx, moved, Self::behind_word(upper, 0), many * Self::behind_len(lower))?;
        if upper.leaf {
            self.copy(tx, Self::key_word(lower, left), Self::key_word(upper, 0), many * Self::KEY)?;
        } else {
            self.copy(tx, between, Self::key_word(upper, many - 1), Self::KEY)?;
            self.copy(tx, Self::key_word(lower, left + 1), Self::key_word(upper, 0), (many - 1) * Self::KEY)?;
        }
        self.copy(tx, Self::key_word(lower, left), between, Self::KEY)?;
        self.set_count(tx, lower, left)?;
        self.set_count(tx, upper, upper.count + many)
    }

    /// Replaces a root that has a single child by that child, and removes a root without keys.
    fn lower_root(&self, tx: &mut Tx<'_>) -> Result<(), Interrupt> {
        while let (first, Some(root)) = self.root(tx)?
            && root.count == 0
        {
            let child = if root.leaf { 0 } else { self.0.get(tx, Self::behind_word(root, 0))? };
            self.0.set(tx, first + ROOT, child)?;
            self.0.free_block(tx, root.at)?;
        }
        Ok(())
    }

    /// Returns the number of keys. The read conflicts with every concurrent insertion and removal of a key.
    ///
    /// # Errors
    /// The map was removed; a conflict.
    pub fn len(&self, tx: &mut Tx<'_>) -> Result<u64, Interrupt> {
        let first = self.0.first(tx)?;
        let mut sum = 0u64;
        for cell in 0..CELLS {
            sum = sum.wrapping_add(self.0.get(tx, first + APART + cell * APART)?);
        }
        Ok(sum)
    }

    /// Returns whether there are no keys.
    ///
    /// # Errors
    /// The map was removed; a conflict.
    pub fn is_empty(&self, tx: &mut Tx<'_>) -> Result<bool, Interrupt> {
        Ok(self.root(tx)?.1.is_none())
    }

    // ---- in order ---------------------------------------------------------------------------------------------

    /// Calls `see` with the keys of a range and their values, in order, as long as it returns `true`.
    ///
    /// # Errors
    /// Those of `see`; the map was removed; a conflict.
    pub fn visit(
        &self,
        tx: &mut Tx<'_>,
        range: impl RangeBounds<K>,
        mut see: impl FnMut(K, V) -> Result<bool, Interrupt>,
    ) -> Result<(), Interrupt> {
        match self.root(tx)?.1 {
            Some(root) => {
                let mut steps = self.0.steps(Self::BEHIND_KEYS);
                self.visit_node(tx, root, (0, &mut steps), &range, &mut see).map(drop)
            }
            None => Ok(()),
        }
    }

    fn visit_node(
        &self,
        tx: &mut Tx<'_>,
        node: Node,
        (mut depth, steps): (u64, &mut Steps),
        range: &impl RangeBounds<K>,
        see: &mut impl FnMut(K, V) -> Result<bool, Interrupt>,
    ) -> Result<bool, Interrupt> {
        let from = match range.start_bound() {
            Bound::Included(key) => self.before(tx, node, key, !node.leaf)?,
            Bound::Excluded(key) => self.before(tx, node, key, true)?,
            Bound::Unbounded => 0,
        };
        for index in from..node.count + u64::from(!node.leaf) {
            if node.leaf {
                let key = self.key(tx, node, index)?;
                let value = self.0.load(tx, Self::behind_word(node, index))?;
                if is_behind(&key, range) || !see(key, value)? {
                    return Ok(false);
                }
            } else {
                if index > from && is_behind(&self.key(tx, node, index - 1)?, range) {
                    return Ok(false);
                }
                let child = self.below(tx, node, index, &mut depth)?;
                self.0.step(steps, child.at)?;
                if !self.visit_node(tx, child, (depth, steps), range, see)? {
                    return Ok(false);
                }
                depth -= 1;
            }
        }
        Ok(true)
    }

    /// Returns the keys of a range and their values, in order.
    ///
    /// # Errors
    /// The map was removed; a conflict.
    pub fn range(&self, tx: &mut Tx<'_>, range: impl RangeBounds<K>) -> Result<Vec<(K, V)>, Interrupt> {
        let mut all = Vec::new();
        self.visit(tx, range, |key, value| {
            all.push((key, value));
            Ok(true)
        })?;
        Ok(all)
    }

    /// Returns the first key, and its value.
    ///
    /// # Errors
    /// The map was removed; a conflict.
    pub fn first(&self, tx: &mut Tx<'_>) -> Result<Option<(K, V)>, Interrupt> {
        self.at_end(tx, |_| 0)
    }

    /// Returns the last key, and its value.
    ///
    /// # Errors
    /// The map was removed; a conflict.
    pub fn last(&self, tx: &mut Tx<'_>) -> Result<Option<(K, V)>, Interrupt> {
        self.at_end(tx, |node| if node.leaf { node.count.saturating_sub(1) } else { node.count })
    }

    fn at_end(&self, tx: &mut Tx<'_>, index: impl Fn(Node) -> u64) -> Result<Option<(K, V)>, Interrupt> {
        let (_, Some(mut node)) = self.root(tx)? else { return Ok(None) };
        let mut depth = 0;
        while !node.leaf {
            node = self.below(tx, node, index(node), &mut depth)?;
        }
        if node.count == 0 {
            return Err(self.0.corrupt(node.at, "a leaf of an ordered map has no key"));
        }
        let key = self.key(tx, node, index(node))?;
        Ok(Some((key, self.0.load(tx, Self::behind_word(node, index(node)))?)))
    }

    // ---- all of it --------------------------------------------------------------------------------------------

    /// Walks over all nodes and validates their shape; returns the number of keys.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) with the place of a node that no operation of this map leaves; the map was
    /// removed; a conflict.
    pub fn verify(&self, tx: &mut Tx<'_>) -> Result<u64, Interrupt> {
        let mut walk = Walk { leaf_depth: None, keys: 0 };
        if let (_, Some(root)) = self.root(tx)? {
            self.verify_node(tx, root, 0, 1, (None, None), &mut walk)?;
        }
        let first = self.0.first(tx)?;
        match self.len(tx)? == walk.keys {
            true => Ok(walk.keys),
            false => Err(self.0.corrupt(first, "a map counts other keys than it has")),
        }
    }

    fn verify_node(
        &self,
        tx: &mut Tx<'_>,
        node: Node,
        depth: u64,
        least: u64,
        (from, to): (Option<&K>, Option<&K>),
        walk: &mut Walk,
    ) -> Result<(), Interrupt> {
        let wrong = |what| Err(self.0.corrupt(node.at, what));
        if node.count < least {
            return wrong("a node of an ordered map has too few keys");
        }
        let mut keys = Vec::new();
        for index in 0..node.count {
            keys.push(self.key(tx, node, index)?);
        }
        let within = |key: &K| from.is_none_or(|from| from <= key) && to.is_none_or(|to| key < to);
        if !keys.is_sorted_by(|one, next| one < next) || !keys.iter().all(within) {
            return wrong("a key of an ordered map is not in its place");
        }
        if node.leaf {
            walk.keys += node.count;
            return match *walk.leaf_depth.get_or_insert(depth) == depth {
                true => Ok(()),
                false => wrong("leaves of an ordered map are not equally deep"),
            };
        }
        if depth > DEPTH_MAX {
            return wrong(TOO_DEEP);
        }
        for index in 0..=keys.len() {
            let before = index.checked_sub(1).map_or(from, |at| Some(&keys[at]));
            let child = self.child(tx, node, index as u64)?;
            self.verify_node(tx, child, depth + 1, LEAST, (before, keys.get(index).or(to)), walk)?;
        }
        Ok(())
    }

    /// Removes all keys.
    ///
    /// # Errors
    /// The map was removed; a conflict.
    pub fn clear(&self, tx: &mut Tx<'_>) -> Result<(), Interrupt> {
        tx.whole(|tx| self.clear_whole(tx))
    }

    fn clear_whole(&self, tx: &mut Tx<'_>) -> Result<(), Interrupt> {
        let (first, root) = self.root(tx)?;
        let mut nodes: Vec<Node> = root.into_iter().collect();
        while let Some(node) = nodes.pop() {
            for index in 0..if node.leaf { 0 } else { node.count + 1 } {
                nodes.push(self.child(tx, node, index)?);
            }
            self.0.free_block(tx, node.at)?;
        }
        self.0.set(tx, first + ROOT, 0)?;
        (0..CELLS).try_for_each(|cell| self.0.set(tx, first + APART + cell * APART, 0))
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
}

/// Error for a map that is deeper than any valid one.
const TOO_DEEP: &str = "an ordered map is deeper than it can be";

/// Returns whether a key is past the end of a range.
fn is_behind<K: Ord>(key: &K, range: &impl RangeBounds<K>) -> bool {
    match range.end_bound() {
        Bound::Included(end) => key > end,
        Bound::Excluded(end) => key >= end,
        Bound::Unbounded => false,
    }
}

#[cfg(all(test, not(cedrat_shuttle)))]
mod tests {
    use super::*;
    use crate::{Error, HeapOptions, Memory, MemoryOptions};

    /// A heap is the program's own memory: the program may have overwritten a map by mistake.
    #[test]
    fn lone_node_is_reported_with_place() {
        let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
        let heap = memory.create_heap("heap", &HeapOptions::new(1 << 20)).expect("a heap");
        let map: HeapOrderedMap<u64, u64> = HeapOrderedMap::open(&heap, "map").expect("room");
        let insert = |tx: &mut Tx<'_>| (0..40).try_for_each(|key| map.insert(tx, key, key * 3).map(drop));
        heap.atomically(insert).expect("room");
        let root = heap.atomically(|tx| Ok(map.root(tx)?.1)).expect("reading").expect("it has keys");
        assert!(!root.leaf && root.count > 1, "it has several leaves");
        heap.atomically(|tx| map.set_count(tx, root, 0)).expect("no other transaction writes");
        // Enough keys of the first leaf that it becomes under-full.
        let removed = heap.atomically(|tx| (0..HALF).try_for_each(|key| map.remove(tx, &key).map(drop)));
        match removed {
            Err(Error::Damaged { offset, .. }) => assert_eq!(offset, root.at * 8),
            other => panic!("a node without keys has no two nodes: {other:?}"),
        }
        let first = heap.atomically(|tx| map.get(tx, &0)).expect("reading");
        assert_eq!(first, Some(0), "nothing is left of a transaction that met damage");
        // The restored map is valid again.
        heap.atomically(|tx| map.set_count(tx, root, root.count)).expect("no other transaction writes");
        assert_eq!(heap.atomically(|tx| map.verify(tx)).expect("it makes sense"), 40);
    }

    /// A node that is its own child does not make a walk endless: the address is reported.
    #[test]
    fn node_that_leads_to_itself_is_damage() {
        let memory = Memory::volatile(MemoryOptions::small()).expect("memory");
        let heap = memory.create_heap("heap", &HeapOptions::new(1 << 20)).expect("a heap");
        let map: HeapOrderedMap<u64, u64> = HeapOrderedMap::open(&heap, "map").expect("room");
        let insert = |tx: &mut Tx<'_>| (0..40).try_for_each(|key| map.insert(tx, key, key * 3).map(drop));
        heap.atomically(insert).expect("room");
        let root = heap.atomically(|tx| Ok(map.root(tx)?.1)).expect("reading").expect("it has keys");
        let first_child = HeapOrderedMap::<u64, u64>::behind_word(root, 0);
        heap.atomically(|tx| map.0.set(tx, first_child, root.at)).expect("a word of the map");
        let walks = [
            heap.atomically(|tx| map.get(tx, &0).map(drop)),
            heap.atomically(|tx| map.first(tx).map(drop)),
            heap.atomically(|tx| map.range(tx, ..).map(drop)),
            heap.atomically(|tx| map.insert(tx, 0, 1).map(drop)),
            heap.atomically(|tx| map.remove(tx, &0).map(drop)),
            heap.atomically(|tx| map.verify(tx).map(drop)),
        ];
        for walk in walks {
            assert!(matches!(walk, Err(Error::Damaged { offset, .. }) if offset == root.at * 8), "{walk:?}");
        }
    }
}
