package cedrat.oracle.state;

/// Map from each of the newest rows to its last commit (ReTSO §3.1 and §3.2), in at most sixteen bytes a row.
///
/// A row's *position* counts all rows that were put before it. A commit timestamp is not stored: commits
/// come in the order of their timestamps. So "committed after the transaction began" means "at a position not
/// below the next position at the time when the transaction began".
///
/// Entries lie in lines of eight words. A line is one line of the processor's cache, so most rows cost one
/// cache miss:
///
/// ```text
/// line   7 entries, then a mark
/// entry  tag of the row | hop 4 | low bits of its position | which of the 7 it is 3
/// mark   32 flags | low bits of a position 32
/// ```
///
/// A row's hash determines its *home*, the line where its lookup begins, and its *tag*. An entry whose home
/// is full *spills* into a later line; its *hop* is the distance in lines. In each line that the entry passes,
/// the mark keeps the position of the newest entry that passed, and sets a flag chosen by the entry's tag.
///
/// Home and tag identify a row. Two rows that share both are one row to the map, and a writer of one may
/// conflict with a commit of the other. That abort is unnecessary, but no conflict is ever missed: the entry
/// that a lookup finds is never older than the row's newest commit. A home gets four rows in a window, so the
/// probability that a row shares home and tag with another is below 4 / 2^[#tagBits]. It is lower by as much
/// as the transaction is shorter than the window.
///
/// - M1  A row that was put within the window, and was not removed from a full line, is found at its newest
///   position, or at a newer one of a row with the same home and tag.
/// - M2  A row that is not found was never put, or only below [#forgottenBefore].
/// - M3  [#forgottenBefore] never goes back. It follows the newest row at the distance of the window, and
///   runs ahead of that only where all lines that a row may lie in are full of rows within the window.
/// - M4  An entry whose position has left the window is free, and the next put into its line may use it (the
///   paper's lazy collection). Low bits of positions repeat after eight times the map's size. Before they
///   do, a sweep that advances as rows are put has visited the line, and has freed its old entries, so that
///   an old entry never looks new.
/// - M5  One home and tag has one entry within the window, and one in a line.
///   that is not older.
///
/// For one thread at a time.
final class ConflictMap {
    static final int ROWS_LOG2_MIN = 8;
    static final int ROWS_LOG2_MAX = 27;

    /// The lines that an entry may lie in.
    static final int HOPS = 16;

    private static final int LINE = 8;
    private static final int ENTRIES = LINE - 1;
    private static final int MARK = ENTRIES;

    /// Words before the first line. A large array begins at a page, but for its header of 16 bytes; so lines
    /// lie in whole lines of the cache.
    private static final int ALIGNMENT = 6;

    private static final int SLOT_BITS = 3;
    private static final int SLOT_MASK = (1 << SLOT_BITS) - 1;
    private static final int HOP_BITS = 4;

    private static final int FLAGS_SHIFT = 32;
    private static final int FLAG_BITS = 5;
    private static final long MARK_POSITION = (1L << FLAGS_SHIFT) - 1;
    /// Flags of entries that are gone stay. When a mark has so many, they are found again from the entries.
    private static final int FLAGS_MAX = 6;

    /// How often the map comes round before low bits of positions do.
    private static final int ROUNDS_LOG2 = 3;

    /// Rows that are put between two walks of the sweep. One position in so many has its timestamp
    /// remembered.
    private static final int STRIDE_SHIFT = 7;
    private static final int STRIDE = 1 << STRIDE_SHIFT;
    /// Lines of one walk. All are swept while fewer rows are put than four times the map's size.
    private static final int WALK_LINES = 8;

    private static final int BYTES_PER_ROW = 16;

    /// Keys are kept with this bit flipped, so that comparing what differs from them compares unsigned
    /// numbers.
    private static final long FLIP = Long.MIN_VALUE;

    /// Instead of a place.
    private static final int NOWHERE = -1;

    private final long[] table;
    private final int lines;
    /// The commit timestamps of positions that are multiples of [#STRIDE].
    private final long[] samples;

    private final long window;
    /// An entry's key is its tag and hop; it begins here, and above it the tag.
    private final int keyShift;
    private final int tagShift;
    /// Ages count positions, and lie where entries have theirs.
    private final long ageMask;
    private final long ageOfWindow;

    private final long first;
    /// The position of the next row that is put.
    private long next;
    private long forgottenBefore;
    private long newestTimestamp;
    /// The next line to be swept.
    private int sweep = ALIGNMENT;

    /// The homes of rows that are soon looked for.
    private final int[] expected = new int[512];
    private int expectedCount;
    /// Keeps what is read only to have it in the cache from being optimised away.
    private long touched;

    /// Indexes, among the rows of the last lookup, of the rows that lie in their home.
    private int[] places = new int[64];
    private long newestFound;
    private boolean isOneAbsent;

    /// A map of the newest 15/16 of `2^rowsLog2` rows.
    ConflictMap(int rowsLog2) {
        if (rowsLog2 < ROWS_LOG2_MIN || rowsLog2 > ROWS_LOG2_MAX) {
            throw new IllegalArgumentException("invalid size of the conflict map, 2^" + rowsLog2 + " rows: choose 2^"
                    + ROWS_LOG2_MIN + " to 2^" + ROWS_LOG2_MAX);
        }
        long slots = 1L << rowsLog2;
        window = slots - slots / 16;
        ageOfWindow = window << SLOT_BITS;
        int positionBits = rowsLog2 + ROUNDS_LOG2;
        keyShift = positionBits + SLOT_BITS;
        tagShift = keyShift + HOP_BITS;
        ageMask = (1L << positionBits) - 1 << SLOT_BITS;
        samples = new long[(int) (slots >> STRIDE_SHIFT)];
        long words = BYTES_PER_ROW * window / Long.BYTES - samples.length - ALIGNMENT;
        lines = (int) (words / LINE);
        table = new long[ALIGNMENT + lines * LINE];
        first = 2 * slots; // so that what lies before the window has a position as well
        restart(0, 0);
    }

    /// Begins anew, as if so many rows had been put and forgotten, the newest of them with a commit at
    /// `timestamp`.
    void restart(long rows, long timestamp) {
        next = first + rows;
        forgottenBefore = next;
        newestTimestamp = timestamp;
        sample(next - 1);
        long old = next - 2 * window;
        for (int line = ALIGNMENT; line < table.length; line += LINE) {
            for (int slot = 0; slot < ENTRIES; slot++) {
                // With keys of their own, so that no two of a line have the same (M5).
                table[line + slot] = (long) (slot + 1) << keyShift | old << SLOT_BITS & ageMask | slot;
            }
            table[line + MARK] = old & MARK_POSITION;
        }
    }

    /// Returns the number of the newest rows that are kept.
    long window() {
        return window;
    }

    /// Returns the memory of the map in bytes.
    long bytes() {
        return (long) Long.BYTES * (table.length + samples.length);
    }

    /// Returns the number of bits of a row's hash that distinguish it from other rows with the same home.
    int tagBits() {
        return Long.SIZE - tagShift;
    }

    /// Returns the number of lines.
    int lines() {
        return lines;
    }

    /// The number of a row's home.
    int line(long row) {
        return (home(mix(row)) - ALIGNMENT) / LINE;
    }

    /// The position that the next row will have.
    long next() {
        return next;
    }

    /// The position of the first row that was ever put.
    long first() {
        return first;
    }

    /// When the newest row was committed; 0 if none was put.
    long newestTimestamp() {
        return newestTimestamp;
    }

    /// Above the position of every row that was forgotten.
    long forgottenBefore() {
        return forgottenBefore;
    }

    /// The paper's T_max: no forgotten row was committed later. A little above the newest such row's
    /// timestamp, for not each is remembered; 0 if nothing was forgotten.
    long forgottenTimestamp() {
        if (forgottenBefore == first) {
            return 0;
        }
        long sample = forgottenBefore - 1 + STRIDE - 1 >> STRIDE_SHIFT;
        return sample << STRIDE_SHIFT < next ? samples[(int) sample & samples.length - 1] : newestTimestamp;
    }

    /// Remembers that the newest commit has put the last position up to this one that is a multiple of
    /// [#STRIDE].
    private void sample(long position) {
        samples[(int) (position >> STRIDE_SHIFT) & samples.length - 1] = newestTimestamp;
    }

    // ---- looking ----

    /// These rows are soon looked for. The lines of all that are expected are then brought into the cache
    /// together.
    void expect(Rows rows) {
        int count = rows.count();
        rows.hashedBy(this);
        int[] homes = rows.homes();
        long[] keys = rows.keys();
        for (int at = 0; at < count; at++) {
            long hash = mix(rows.get(at));
            homes[at] = home(hash);
            keys[at] = hash << tagShift ^ FLIP;
        }
        if (expectedCount + count > expected.length) {
            touch();
        }
        int noted = Math.min(count, expected.length);
        System.arraycopy(homes, 0, expected, expectedCount, noted);
        expectedCount += noted;
    }

    /// Reads of each expected row's home one word, and nothing else: the loop is so short that the processor,
    /// which looks some hundred instructions ahead, waits for many lines at a time.
    private void touch() {
        long[] table = this.table;
        int[] expected = this.expected;
        long touched = 0;
        for (int at = 0; at < expectedCount; at++) {
            touched += table[expected[at]];
        }
        this.touched = touched;
        expectedCount = 0;
    }

    /// Looks for rows; [#newestFound] and [#isOneAbsent] then tell.
    void look(Rows rows) {
        int count = rows.count();
        if (!rows.isHashedBy(this)) {
            expect(rows);
        }
        if (expectedCount > 0) {
            touch();
        }
        if (count > places.length) {
            places = new int[2 * count];
        }
        int[] homes = rows.homes();
        long[] keys = rows.keys();
        int[] places = this.places;
        long[] table = this.table;
        long now = now();
        long youngest = Long.MAX_VALUE;
        boolean isOneAbsent = false;
        for (int at = 0; at < count; at++) {
            int home = homes[at];
            long key = keys[at];
            long match = match(table, home, key);
            long age = now - match & ageMask;
            if (isMatch(match) && age <= ageOfWindow) {
                places[at] = home + (int) (match & SLOT_MASK);
            } else {
                places[at] = NOWHERE;
                int place = (table[home + MARK] & flag(key)) == 0 ? NOWHERE : placeBehind(home, key);
                isOneAbsent |= place == NOWHERE;
                age = place == NOWHERE ? Long.MAX_VALUE : age(table[place]);
            }
            youngest = Math.min(youngest, age);
        }
        newestFound = next - (youngest >>> SLOT_BITS);
        this.isOneAbsent = isOneAbsent;
    }

    /// The newest position of all rows that were looked for last; below all positions if none was found.
    long newestFound() {
        return newestFound;
    }

    /// Whether one of the rows that were looked for last was not found.
    boolean isOneAbsent() {
        return isOneAbsent;
    }

    /// The one entry of a line with this key, without it; something else where there is none ([#isMatch]).
    ///
    /// The least of all differences is that of the entry that has none in its key. To look at all costs less
    /// than to guess wrongly which one it is, for these are no branches.
    private static long match(long[] table, int line, long key) {
        long a = Math.min(table[line] ^ key, table[line + 1] ^ key);
        long b = Math.min(table[line + 2] ^ key, table[line + 3] ^ key);
        long c = Math.min(table[line + 4] ^ key, table[line + 5] ^ key);
        return Math.min(Math.min(a, b), Math.min(c, table[line + 6] ^ key)) ^ FLIP;
    }

    private boolean isMatch(long match) {
        return match >>> keyShift == 0;
    }

    /// The place of an entry within the window in one of the lines behind its home, or [#NOWHERE].
    private int placeBehind(int home, long key) {
        int line = home;
        for (int hop = 1; hop < HOPS && mayHavePassed(line, key); hop++) {
            line = after(line);
            long match = match(table, line, withHop(key, hop));
            if (isMatch(match) && isWithin(match)) {
                return line + (int) (match & SLOT_MASK);
            }
        }
        return NOWHERE;
    }

    // ---- putting ----

    /// Puts rows that commit at `timestamp`, later than all before. They were just looked for.
    void put(Rows rows, long timestamp) {
        assert rows.isHashedBy(this) : "these rows were not looked for";
        newestTimestamp = timestamp;
        int count = rows.count();
        for (int from = 0; from < count; from += STRIDE) {
            long newest = next - 1;
            put(rows, from, Math.min(count, from + STRIDE));
            if ((newest ^ next - 1) >>> STRIDE_SHIFT != 0) {
                sample(next - 1);
                walk();
            }
        }
        forgottenBefore = Math.max(forgottenBefore, next - window);
    }

    private void put(Rows rows, int from, int end) {
        int[] homes = rows.homes();
        long[] keys = rows.keys();
        int[] places = this.places;
        long[] table = this.table;
        for (int at = from; at < end; at++) {
            int place = places[at];
            long key = keys[at];
            // An earlier row of the same commit may have taken the place.
            if (place != NOWHERE && isMatch(table[place] ^ key ^ FLIP)) {
                table[place] = entry(key, place);
            } else {
                add(homes[at], key);
            }
            next++;
        }
    }

    /// The entry of the next position.
    private long entry(long key, int place) {
        return key ^ FLIP | next << SLOT_BITS & ageMask | place - ALIGNMENT & SLOT_MASK;
    }

    private void add(int home, long key) {
        long match = match(table, home, key);
        int place = isMatch(match) ? home + (int) (match & SLOT_MASK) : oldest(home);
        boolean isFree = isMatch(match) || !isWithin(table[place]);
        if (isFree && (table[home + MARK] & flag(key)) == 0) {
            table[place] = entry(key, place);
        } else {
            addBehind(home, key);
        }
    }

    /// Adds an entry whose home is full, or that may lie behind it: where it is (M5), else at the first free
    /// place, else in the place of the oldest of all (M3).
    private void addBehind(int home, long key) {
        int place = placeBehind(home, key);
        int oldest = NOWHERE;
        for (int line = home, hop = 0; place == NOWHERE && hop < HOPS; line = after(line), hop++) {
            long match = match(table, line, withHop(key, hop));
            int candidate = isMatch(match) ? line + (int) (match & SLOT_MASK) : oldest(line);
            if (isMatch(match) || !isWithin(table[candidate])) {
                place = candidate;
            } else if (oldest == NOWHERE || age(table[candidate]) > age(table[oldest])) {
                oldest = candidate;
            }
        }
        if (place == NOWHERE) {
            place = oldest;
            forgottenBefore = Math.max(forgottenBefore, next - (age(table[place]) >>> SLOT_BITS) + 1);
        }
        int end = place - (place - ALIGNMENT & SLOT_MASK);
        int hops = 0;
        for (int line = home; line != end; line = after(line)) {
            pass(line, key);
            hops++;
        }
        table[place] = entry(withHop(key, hops), place);
    }

    /// The place of the oldest entry of a line.
    private int oldest(int line) {
        long now = next << SLOT_BITS;
        long mask = ageMask | SLOT_MASK;
        long a = Math.max(now - table[line] & mask, now - table[line + 1] & mask);
        long b = Math.max(now - table[line + 2] & mask, now - table[line + 3] & mask);
        long c = Math.max(now - table[line + 4] & mask, now - table[line + 5] & mask);
        long oldest = Math.max(Math.max(a, b), Math.max(c, now - table[line + 6] & mask));
        return line + (int) (-oldest & SLOT_MASK); // which of the line it is was subtracted with the rest
    }

    // ---- marks ----

    private static long flag(long key) {
        return 1L << FLAGS_SHIFT + (int) (key >>> Long.SIZE - FLAG_BITS);
    }

    private boolean mayHavePassed(int line, long key) {
        long mark = table[line + MARK];
        return (mark & flag(key)) != 0 && isWithin(mark << SLOT_BITS);
    }

    /// Notes that the entry of the next position passes a line (M6).
    private void pass(int line, long key) {
        long mark = table[line + MARK];
        long flags = isWithin(mark << SLOT_BITS) ? mark & ~MARK_POSITION : 0;
        if (Long.bitCount(flags) >= FLAGS_MAX) {
            flags = flagsOf(line);
        }
        table[line + MARK] = flags | flag(key) | next & MARK_POSITION;
    }

    /// The flags of all entries within the window that have passed a line.
    private long flagsOf(int line) {
        long flags = 0;
        int behind = line;
        for (int distance = 1; distance < HOPS && isWithin(table[behind + MARK] << SLOT_BITS); distance++) {
            behind = after(behind);
            for (int place = behind; place < behind + ENTRIES; place++) {
                if (hop(table[place]) >= distance && isWithin(table[place])) {
                    flags |= flag(table[place] ^ FLIP);
                }
            }
        }
        return flags;
    }

    // ---- within ----

    /// Sweeps some lines (M4).
    private void walk() {
        for (int count = 0; count < WALK_LINES; count++) {
            long old = next - 2 * window;
            for (int place = sweep; place < sweep + ENTRIES; place++) {
                if (!isWithin(table[place])) {
                    table[place] = table[place] & ~ageMask | old << SLOT_BITS & ageMask;
                }
            }
            if (!isWithin(table[sweep + MARK] << SLOT_BITS)) {
                table[sweep + MARK] = old & MARK_POSITION;
            }
            sweep = after(sweep);
        }
    }

    /// The next position where entries have theirs, and behind it ones: to subtract an entry borrows nothing
    /// there.
    private long now() {
        return next << SLOT_BITS | SLOT_MASK;
    }

    private long age(long entry) {
        return now() - entry & ageMask;
    }

    private boolean isWithin(long entry) {
        return age(entry) <= ageOfWindow;
    }

    private int hop(long entry) {
        return (int) (entry >>> keyShift) & HOPS - 1;
    }

    private long withHop(long key, int hop) {
        return key | (long) hop << keyShift;
    }

    private int after(int line) {
        return line + LINE < table.length ? line + LINE : ALIGNMENT;
    }

    private int home(long hash) {
        return ALIGNMENT + (int) Math.unsignedMultiplyHigh(hash, lines) * LINE;
    }

    /// Spreads row ids, whatever they are, over all bits (the finaliser of MurmurHash3).
    private static long mix(long row) {
        long hash = row;
        hash = (hash ^ hash >>> 33) * 0xff51afd7ed558ccdL;
        hash = (hash ^ hash >>> 33) * 0xc4ceb9fe1a85ec53L;
        return hash ^ hash >>> 33;
    }

    /// Looks at all entries and marks whether they keep to M5 and M6; for tests.
    void check() {
        for (int home = ALIGNMENT; home < table.length; home += LINE) {
            java.util.Set<Long> keys = new java.util.HashSet<>();
            long passed = 0;
            for (int line = home, hop = 0; hop < HOPS; line = after(line), hop++) {
                for (int place = line; place < line + ENTRIES; place++) {
                    long entry = table[place];
                    if ((entry & SLOT_MASK) != place - line) {
                        throw new AssertionError("an entry of another place at " + place);
                    }
                    if (isWithin(entry) && hop(entry) == hop && !keys.add(entry >>> tagShift)) {
                        throw new AssertionError("M5: a second entry at " + place);
                    }
                    if (isWithin(entry) && hop > 0 && hop(entry) >= hop) {
                        passed |= flag(entry ^ FLIP);
                        if (age(table[home + MARK] << SLOT_BITS) > age(entry)) {
                            throw new AssertionError("M6: the mark is older than what has passed to " + place);
                        }
                    }
                }
            }
            if ((passed & ~table[home + MARK]) != 0) {
                throw new AssertionError("M6: a flag is missing in the line at " + home);
            }
        }
    }
}
