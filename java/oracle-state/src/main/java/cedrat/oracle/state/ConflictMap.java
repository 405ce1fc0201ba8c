package cedrat.oracle.state;

/// When each of the newest rows was last committed (ReTSO §3.1 and §3.2), in at most sixteen bytes a row.
///
/// Rows lie in the order of their commits in a *ring*; a row's *position* counts all rows that were ever put before it. An
/// *index* of lines leads from a row to the block of the ring with its newest position:
///
/// ```text
/// ring   block, block, block, …                             the oldest is overwritten
/// block  8 rows of 8 bytes                                  one line of the processor's cache
/// line   15 entries, then the newest that has spilled       one line of the processor's cache
/// entry  tag of the row | low bits of its block's number    4 bytes
/// ```
///
/// A commit timestamp is not stored: commits come in the order of their timestamps, so "committed after the transaction
/// began" is "at a position not below the one that was next when the transaction began".
///
/// - M1  What was put within the window, and was not taken from a full line, is found at its newest position.
/// - M2  What is not found was never put, or only below [#forgottenBefore].
/// - M3  [#forgottenBefore] never goes back. It follows the newest row at the distance of the window, and runs ahead of that
///   only where all lines that a row may lie in are full of rows within the window.
/// - M4  Nobody takes entries away: when its block has left the window, an entry is free, and the next put into its line may
///   use it (the paper's lazy collection). Numbers in entries come round again after four rounds of the ring; an entry that
///   is as old names a block that does not hold its row, and so nothing.
///
/// For one thread at a time.
final class ConflictMap {
    /// The position of what was not found.
    static final long ABSENT = -1;

    static final int ROWS_LOG2_MIN = 8;
    static final int ROWS_LOG2_MAX = 28;

    private static final int LINE = 16;
    private static final int ENTRIES = LINE - 1;

    /// Entries before the first line. A large array begins at a page, but for its header of 16 bytes; so lines lie in whole
    /// lines of the cache.
    private static final int ALIGNMENT = 12;

    /// The same for rows before the first block.
    private static final int RING_ALIGNMENT = 6;

    private static final int SPILLED = ENTRIES;

    private static final int BLOCK_SHIFT = 3;
    private static final int BLOCK_ROWS = 1 << BLOCK_SHIFT;

    /// How often the ring comes round before numbers of blocks do.
    private static final int ROUNDS_LOG2 = 2;

    /// Lines that a row may lie in.
    private static final int HOPS = 6;

    /// A row that comes again within this part of the window has its entry replaced.
    private static final int AGAIN = 8;

    /// Instead of an entry. Neither has a tag.
    private static final int NO_ENTRY = 0;
    private static final int SPILLED_ON = 1;

    private static final long BYTES_PER_ROW = 16;

    /// The first position. Memory that was never written is in no block.
    private static final long FIRST = BLOCK_ROWS;

    /// One position in so many has its commit timestamp remembered.
    private static final int SAMPLE_SHIFT = 7;

    private final long[] ring;
    private final int[] index;
    private final int lines;
    /// The commit timestamps of positions that are multiples of `2^SAMPLE_SHIFT`.
    private final long[] samples;

    private final int ringMask;
    private final long window;
    private final int blockBits;
    private final int blockMask;
    private final int blocksInWindow;

    /// The position of the next row that is put.
    private long next = FIRST;
    private long forgottenBefore = FIRST;
    private long newestTimestamp;

    /// Of the rows that were looked for last.
    private long[] hashes = new long[64];
    private int[] candidates = new int[64];
    private long[] found = new long[64];
    /// Keeps what is read only to have it in the cache from being optimised away.
    private int touched;

    /// A map of the newest 15/16 of `2^rowsLog2` rows.
    ConflictMap(int rowsLog2) {
        if (rowsLog2 < ROWS_LOG2_MIN || rowsLog2 > ROWS_LOG2_MAX) {
            throw new IllegalArgumentException("the conflict map is asked for 2^" + rowsLog2 + " rows; choose 2^"
                    + ROWS_LOG2_MIN + " to 2^" + ROWS_LOG2_MAX);
        }
        long slots = 1L << rowsLog2;
        ringMask = (int) slots - 1;
        window = slots - slots / 16;
        blockBits = rowsLog2 - BLOCK_SHIFT + ROUNDS_LOG2;
        blockMask = (1 << blockBits) - 1;
        blocksInWindow = (int) (window >> BLOCK_SHIFT);
        samples = new long[(int) (slots >> SAMPLE_SHIFT)];
        long rest = BYTES_PER_ROW * window - Long.BYTES * (slots + RING_ALIGNMENT + samples.length);
        lines = (int) ((rest / Integer.BYTES - ALIGNMENT) / LINE);
        ring = new long[RING_ALIGNMENT + (int) slots];
        index = new int[ALIGNMENT + lines * LINE];
    }

    /// How many of the newest rows are kept.
    long window() {
        return window;
    }

    /// How much memory it takes.
    long bytes() {
        return (long) Long.BYTES * (ring.length + samples.length) + (long) Integer.BYTES * index.length;
    }

    /// The position that the next row will have.
    long next() {
        return next;
    }

    /// Above the position of every row that was forgotten.
    long forgottenBefore() {
        return forgottenBefore;
    }

    /// The paper's T_max: no forgotten row was committed later. A little above the newest such row's timestamp, for not each
    /// is remembered; 0 if nothing was forgotten.
    long forgottenTimestamp() {
        if (forgottenBefore == FIRST) {
            return 0;
        }
        long sample = forgottenBefore - 1 + (1 << SAMPLE_SHIFT) - 1 >> SAMPLE_SHIFT;
        return sample << SAMPLE_SHIFT < next ? samples[(int) sample & samples.length - 1] : newestTimestamp;
    }

    /// Looks for rows; [#found] then says where each is. All at once, so that their cache misses overlap: first the lines of the
    /// index are touched, then the blocks that they lead to.
    void look(Rows rows) {
        int count = rows.count();
        if (count > found.length) {
            hashes = new long[2 * count];
            found = new long[2 * count];
            candidates = new int[2 * count];
        }
        int touched = 0;
        for (int at = 0; at < count; at++) {
            long hash = mix(rows.get(at));
            hashes[at] = hash;
            touched += index[line(hash)];
        }
        for (int at = 0; at < count; at++) {
            int entry = newestCandidate(hashes[at]);
            candidates[at] = entry;
            touched += (int) ring[place(firstOfBlock(entry))];
        }
        this.touched = touched;
        for (int at = 0; at < count; at++) {
            found[at] = verify(candidates[at], rows.get(at));
        }
    }

    /// The newest position of a row whose newest candidate this is.
    private long verify(int candidate, long row) {
        if (candidate == NO_ENTRY) {
            return ABSENT;
        }
        long position = candidate == SPILLED_ON ? ABSENT : inBlock(candidate, row);
        return position == ABSENT ? find(row) : position;
    }

    /// The newest position of the row with this index of those that were looked for last, or [#ABSENT].
    long found(int at) {
        return found[at];
    }

    /// The newest entry that may be that of a row with this hash, if all of them are in the first line: what is found there is
    /// newer than what any other leads to. [#NO_ENTRY] if there is none, [#SPILLED_ON] if there may be some in other lines.
    private int newestCandidate(long hash) {
        int tag = tag(hash);
        int line = line(hash);
        if (isWithin(entry(line, SPILLED))) {
            return SPILLED_ON;
        }
        int newest = NO_ENTRY;
        for (int at = 0; at < ENTRIES; at++) {
            int entry = entry(line, at);
            if (entry >>> blockBits == tag && isWithin(entry) && (newest == NO_ENTRY || age(entry) < age(newest))) {
                newest = entry;
            }
        }
        return newest;
    }

    /// The newest position of a row, or [#ABSENT].
    long find(long row) {
        long hash = mix(row);
        int tag = tag(hash);
        int line = line(hash);
        long newest = ABSENT;
        for (int hop = 0; hop < HOPS; hop++) {
            for (int at = 0; at < ENTRIES; at++) {
                int entry = entry(line, at);
                if (entry >>> blockBits == tag && isWithin(entry)) {
                    newest = Math.max(newest, inBlock(entry, row));
                }
            }
            if (!isWithin(entry(line, SPILLED))) {
                break;
            }
            line = after(line);
        }
        return newest;
    }

    /// Puts rows that commit at `timestamp`, later than all before. They were just looked for.
    void put(Rows rows, long timestamp) {
        for (int at = 0; at < rows.count(); at++) {
            put(rows.get(at), hashes[at], found[at], timestamp);
        }
    }

    private void put(long row, long hash, long found, long timestamp) {
        long position = next++;
        ring[place(position)] = row;
        newestTimestamp = timestamp;
        if ((position & (1 << SAMPLE_SHIFT) - 1) == 0) {
            samples[(int) (position >> SAMPLE_SHIFT) & samples.length - 1] = timestamp;
        }
        forgottenBefore = Math.max(forgottenBefore, next - window);
        int entry = tag(hash) << blockBits | (int) (position >> BLOCK_SHIFT) & blockMask;
        // An older entry may as well stay: there is room for one of each position of the window. But a row that is put again and
        // again would fill its lines.
        boolean again = found != ABSENT && position - found < window / AGAIN;
        if (!again || !replace(row, line(hash), found, entry)) {
            add(line(hash), (int) position, entry);
        }
    }

    /// Puts an entry in the place of the same row's older one; `false` if that cannot be told from another row's.
    private boolean replace(long row, int home, long found, int entry) {
        if (isAmbiguous(row, found, entry)) {
            return false;
        }
        int old = entry & ~blockMask | (int) (found >> BLOCK_SHIFT) & blockMask;
        int line = home;
        for (int hop = 0; hop < HOPS; hop++) {
            for (int at = 0; at < ENTRIES; at++) {
                if (entry(line, at) == old) {
                    set(line, at, entry);
                    noteSpills(home, hop, entry);
                    return true;
                }
            }
            line = after(line);
        }
        return false; // already replaced, by the same row in the same commit
    }

    /// Whether another row of the block could have an equal entry.
    private boolean isAmbiguous(long row, long found, int entry) {
        long first = found & -BLOCK_ROWS;
        for (long position = first; position < first + BLOCK_ROWS; position++) {
            long other = ring[place(position)];
            if (other != row && tag(mix(other)) == entry >>> blockBits) {
                return true;
            }
        }
        return false;
    }

    /// Adds an entry to the first line that has a free place. `seed` spreads where it is looked for first.
    private void add(int home, int seed, int entry) {
        int first = (seed & Integer.MAX_VALUE) % ENTRIES;
        int line = home;
        for (int hop = 0; hop < HOPS; hop++) {
            for (int step = 0, at = first; step < ENTRIES; step++) {
                if (!isWithin(entry(line, at))) {
                    set(line, at, entry);
                    noteSpills(home, hop, entry);
                    return;
                }
                at = at + 1 == ENTRIES ? 0 : at + 1;
            }
            line = after(line);
        }
        addInPlaceOfOldest(home, entry);
    }

    /// M3: all lines are full of newer rows than the window's oldest; one of them is forgotten early.
    private void addInPlaceOfOldest(int home, int entry) {
        int oldestAge = -1;
        int oldestAt = 0;
        int oldestHop = 0;
        int oldestLine = home;
        int line = home;
        for (int hop = 0; hop < HOPS; hop++) {
            for (int at = 0; at < ENTRIES; at++) {
                int age = age(entry(line, at));
                if (age > oldestAge) {
                    oldestAge = age;
                    oldestAt = at;
                    oldestHop = hop;
                    oldestLine = line;
                }
            }
            line = after(line);
        }
        long blockAfter = (next >> BLOCK_SHIFT) - oldestAge + 1;
        forgottenBefore = Math.max(forgottenBefore, Math.min(next - 1, blockAfter << BLOCK_SHIFT));
        set(oldestLine, oldestAt, entry);
        noteSpills(home, oldestHop, entry);
    }

    /// Notes in the lines that an entry has passed that it did.
    private void noteSpills(int home, int hops, int entry) {
        int line = home;
        for (int hop = 0; hop < hops; hop++) {
            set(line, SPILLED, entry);
            line = after(line);
        }
    }

    /// Where in the ring a position lies.
    private int place(long position) {
        return RING_ALIGNMENT + ((int) position & ringMask);
    }

    private long firstOfBlock(int entry) {
        return (next >> BLOCK_SHIFT) - age(entry) << BLOCK_SHIFT;
    }

    /// The newest position of a row in the block that an entry names, or [#ABSENT].
    private long inBlock(int entry, long row) {
        long first = firstOfBlock(entry);
        long end = Math.min(first + BLOCK_ROWS, next);
        for (long position = end - 1; position >= first; position--) {
            if (ring[place(position)] == row) {
                return position >= next - window ? position : ABSENT;
            }
        }
        return ABSENT;
    }

    /// How many blocks ago the entry's was, if that was less than four rounds ago.
    private int age(int entry) {
        return (int) (next >> BLOCK_SHIFT) - entry & blockMask;
    }

    /// Whether an entry names a block within the window. One that was never written has no tag.
    private boolean isWithin(int entry) {
        return age(entry) <= blocksInWindow && entry >>> blockBits != 0;
    }

    private int entry(int line, int at) {
        return index[line + at];
    }

    private void set(int line, int at, int entry) {
        index[line + at] = entry;
    }

    /// Where the next line begins.
    private int after(int line) {
        return line + LINE < index.length ? line + LINE : ALIGNMENT;
    }

    /// Where a row's first line begins.
    private int line(long hash) {
        return ALIGNMENT + (int) Math.unsignedMultiplyHigh(hash, lines) * LINE;
    }

    private int tag(long hash) {
        int tag = (int) hash & (1 << Integer.SIZE - blockBits) - 1;
        return tag == 0 ? 1 : tag;
    }

    /// Spreads row ids, whatever they are, over all bits (the finaliser of MurmurHash3).
    private static long mix(long row) {
        long hash = row;
        hash = (hash ^ hash >>> 33) * 0xff51afd7ed558ccdL;
        hash = (hash ^ hash >>> 33) * 0xc4ceb9fe1a85ec53L;
        return hash ^ hash >>> 33;
    }
}
