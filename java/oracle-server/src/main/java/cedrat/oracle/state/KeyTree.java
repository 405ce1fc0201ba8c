package cedrat.oracle.state;

/// Kept keys of a [KeyRing] in their order: a balanced tree (AVL) of slots, one for the newest entry of each key. A
/// node knows the newest entry below it, so subtrees without a new one are passed over.
///
/// Heights of siblings differ by one at most. So no order of keys makes the tree higher than 1.44 times the
/// logarithm of their number, and a range is checked along the two paths to its ends. For one thread at a time.
final class KeyTree {
    private static final int NONE = -1;

    /// The height of a tree of 2^24 keys is less.
    private static final int PATH_MAX = 48;

    private static final int HEIGHT_MASK = (1 << Byte.SIZE) - 1;

    private final KeyRing ring;
    private int root = NONE;
    private final int[] path = new int[PATH_MAX];
    private int depth;
    private long visited;
    /// Prefixes of the ends of the range that is being checked.
    private long fromPrefix;
    private long toPrefix;

    /// Empty.
    KeyTree(KeyRing ring) {
        this.ring = ring;
    }

    void clear() {
        root = NONE;
    }

    /// Returns the number of comparisons with its keys.
    long visited() {
        return visited;
    }

    /// Whether the key in a slot of the ring is here: it was not put again.
    boolean contains(int slot) {
        return height(slot) > 0;
    }

    // ---- changes ----------------------------------------------------------------------------------------------------

    /// Inserts the newest entry of the ring, which has this key; an older entry with the same key leaves.
    void insert(int slot, long table, byte[] bytes, int at, int length) {
        long prefix = KeyRing.prefix(bytes, at, length);
        depth = 0;
        int node = root;
        while (node != NONE) {
            int order = compare(node, table, prefix, bytes, at, length);
            if (order == 0) {
                set(slot, left(node), right(node));
                relink(depth, node, slot);
                leave(node);
                return;
            }
            summarise(node, height(node), slot);
            path[depth++] = node;
            node = order > 0 ? left(node) : right(node);
            if (node == NONE) {
                link(path[depth - 1], order > 0, slot);
            }
        }
        set(slot, NONE, NONE);
        if (depth == 0) {
            root = slot;
        }
        balance();
    }

    /// Removes the oldest of its entries; its key, from the beginning of `bytes` on, says where it is.
    void remove(int slot, long table, byte[] bytes, int length) {
        long prefix = KeyRing.prefix(bytes, 0, length);
        depth = 0;
        for (int node = root; node != slot; ) {
            path[depth++] = node;
            node = compare(node, table, prefix, bytes, 0, length) > 0 ? left(node) : right(node);
        }
        if (left(slot) == NONE || right(slot) == NONE) {
            relink(depth, slot, left(slot) == NONE ? right(slot) : left(slot));
        } else {
            replaceByNext(slot);
        }
        leave(slot);
        balance();
    }

    /// Puts the next key in the place of an entry with two children.
    private void replaceByNext(int slot) {
        int place = depth;
        path[depth++] = slot;
        int next = right(slot);
        while (left(next) != NONE) {
            path[depth++] = next;
            next = left(next);
        }
        relink(depth, next, right(next));
        ring.set(next, KeyRing.LINKS, ring.get(slot, KeyRing.LINKS));
        // The entry that leaves is older than this one, so it was not the newest.
        ring.set(next, KeyRing.SUMMARY, ring.get(slot, KeyRing.SUMMARY));
        relink(place, slot, next);
        path[place] = next;
    }

    /// Puts one node, or none, in the place of another, which has so many nodes of the path above it.
    private void relink(int above, int node, int other) {
        if (above == 0) {
            root = other;
        } else {
            link(path[above - 1], left(path[above - 1]) == node, other);
        }
    }

    /// Balances the nodes of the path from the last one up, as far as a subtree has changed its height or its
    /// newest entry.
    private void balance() {
        while (depth > 0) {
            int node = path[--depth];
            long before = ring.get(node, KeyRing.SUMMARY);
            int top = balance(node, left(node), right(node));
            if (top != node) {
                relink(depth, node, top);
            }
            if (ring.get(top, KeyRing.SUMMARY) == before) {
                return;
            }
        }
    }

    /// Balances a node whose children have heights that differ by two at most. Returns the root of its subtree.
    private int balance(int node, int left, int right) {
        int difference = height(left) - height(right);
        if (difference > 1) {
            if (height(right(left)) <= height(left(left))) {
                set(node, right(left), right);
                return set(left, left(left), node);
            }
            int middle = right(left);
            set(left, left(left), left(middle));
            set(node, right(middle), right);
            return set(middle, left, node);
        }
        if (difference < -1) {
            if (height(left(right)) <= height(right(right))) {
                set(node, left, left(right));
                return set(right, node, right(right));
            }
            int middle = left(right);
            set(right, right(middle), right(right));
            set(node, left, left(middle));
            return set(middle, node, right);
        }
        return set(node, left, right);
    }

    private int set(int node, int left, int right) {
        ring.set(node, KeyRing.LINKS, (long) left << Integer.SIZE | right & 0xffff_ffffL);
        int newest = newer(node, newer(newest(left), newest(right)));
        summarise(node, 1 + Math.max(height(left), height(right)), newest);
        return node;
    }

    private void link(int node, boolean isLeft, int child) {
        int left = isLeft ? child : left(node);
        int right = isLeft ? right(node) : child;
        ring.set(node, KeyRing.LINKS, (long) left << Integer.SIZE | right & 0xffff_ffffL);
    }

    private void summarise(int node, int height, int newest) {
        ring.set(node, KeyRing.SUMMARY, (long) newest << Byte.SIZE | height);
    }

    private void leave(int node) {
        ring.set(node, KeyRing.SUMMARY, 0);
    }

    private int newer(int one, int other) {
        if (one == NONE || other == NONE) {
            return one == NONE ? other : one;
        }
        return ring.entry(one) > ring.entry(other) ? one : other;
    }

    // ---- ranges -----------------------------------------------------------------------------------------------------

    /// Whether a key in this range has an entry with this number or a higher one.
    boolean hasSince(long entry, KeyRanges ranges, int range) {
        fromPrefix = prefix(ranges.from(), range);
        toPrefix = prefix(ranges.to(), range);
        int node = root;
        while (isSince(entry, newest(node))) {
            if (isBelow(node, ranges, range)) {
                node = right(node);
            } else if (isAbove(node, ranges, range)) {
                node = left(node);
            } else {
                return isSince(entry, node)
                        || hasSinceFrom(entry, left(node), ranges, range)
                        || hasSinceTo(entry, right(node), ranges, range);
            }
        }
        return false;
    }

    /// The same of a subtree whose keys end before the range does.
    private boolean hasSinceFrom(long entry, int subtree, KeyRanges ranges, int range) {
        int node = subtree;
        while (isSince(entry, newest(node))) {
            if (isBelow(node, ranges, range)) {
                node = right(node);
            } else if (isSince(entry, node) || isSince(entry, newest(right(node)))) {
                return true;
            } else {
                node = left(node);
            }
        }
        return false;
    }

    /// The same of a subtree whose keys begin behind the begin of the range.
    private boolean hasSinceTo(long entry, int subtree, KeyRanges ranges, int range) {
        int node = subtree;
        while (isSince(entry, newest(node))) {
            if (isAbove(node, ranges, range)) {
                node = left(node);
            } else if (isSince(entry, node) || isSince(entry, newest(left(node)))) {
                return true;
            } else {
                node = right(node);
            }
        }
        return false;
    }

    private boolean isSince(long entry, int slot) {
        return slot != NONE && ring.entry(slot) >= entry;
    }

    private static long prefix(Keys keys, int index) {
        return KeyRing.prefix(keys.bytes(), keys.begin(index), keys.length(index));
    }

    private boolean isBelow(int node, KeyRanges ranges, int range) {
        return compare(node, ranges.from(), range, fromPrefix) < 0;
    }

    private boolean isAbove(int node, KeyRanges ranges, int range) {
        Keys to = ranges.to();
        if (to.length(range) == 0) {
            visited++;
            return ring.table(node) > to.table(range);
        }
        return compare(node, to, range, toPrefix) >= 0;
    }

    private int compare(int node, Keys keys, int index, long prefix) {
        return compare(node, keys.table(index), prefix, keys.bytes(), keys.begin(index), keys.length(index));
    }

    private int compare(int node, long table, long prefix, byte[] bytes, int at, int length) {
        visited++;
        return ring.compare(node, table, prefix, bytes, at, length);
    }

    // ---- nodes ------------------------------------------------------------------------------------------------------

    private int left(int node) {
        return (int) (ring.get(node, KeyRing.LINKS) >> Integer.SIZE);
    }

    private int right(int node) {
        return (int) ring.get(node, KeyRing.LINKS);
    }

    private int newest(int node) {
        return node == NONE ? NONE : (int) (ring.get(node, KeyRing.SUMMARY) >> Byte.SIZE);
    }

    private int height(int node) {
        return node == NONE ? 0 : (int) ring.get(node, KeyRing.SUMMARY) & HEIGHT_MASK;
    }
}
