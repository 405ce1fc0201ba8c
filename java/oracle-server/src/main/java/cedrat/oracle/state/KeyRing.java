package cedrat.oracle.state;

import java.util.Arrays;

/// The newest keys of a [KeyHistory] in the order in which they were put: a ring of entries and a ring of bytes.
///
/// Entries are numbered; each lies in the *slot* of its number modulo the capacity. It has six words side by side,
/// two of them for a [KeyTree], so that a visit takes few cache lines. Memory is allocated in chunks, when the rings
/// first get there. For one thread at a time.
final class KeyRing {
    /// Bytes for each key of the ring. Where keys are longer, there are fewer of them.
    static final int BYTES_PER_KEY = 64;

    /// Number of entries of a chunk. Its allocation takes the deciding thread less than a millisecond.
    static final int CHUNK_KEYS = 1 << 13;

    /// Words of an entry that a tree uses.
    static final int LINKS = 4;
    static final int SUMMARY = 5;

    private static final int POSITION = 0;
    private static final int TABLE = 1;
    private static final int PREFIX = 2;
    /// Offset of its bytes, and their number.
    private static final int PLACE = 3;
    private static final int WORDS = 6;

    private final int capacity;
    private final int chunkKeys;
    private final int chunkBytes;
    private final int chunkShift;
    private final int byteShift;
    private final long[][] chunks;
    private final byte[][] blocks;
    private long allocated;

    private long first;
    private long end;
    /// The bytes that are kept end here; it only increases.
    private long endByte;
    private long keptBytes;

    /// Of at most so many keys, allocated so many at a time; both are powers of two.
    KeyRing(int capacity, int chunkMax) {
        this.capacity = capacity;
        chunkKeys = Math.min(capacity, chunkMax);
        chunkBytes = chunkKeys * BYTES_PER_KEY;
        chunkShift = Integer.numberOfTrailingZeros(chunkKeys);
        byteShift = Integer.numberOfTrailingZeros(chunkBytes);
        chunks = new long[capacity / chunkKeys][];
        blocks = new byte[chunks.length][];
    }

    /// The number of the oldest entry; [#end] if there is none.
    long first() {
        return first;
    }

    /// The number of the next entry.
    long end() {
        return end;
    }

    int slot(long entry) {
        return (int) entry & capacity - 1;
    }

    /// The number of the entry in a slot.
    long entry(int slot) {
        return first + (slot - first & capacity - 1);
    }

    /// The memory it takes.
    long bytes() {
        return allocated;
    }

    void clear() {
        first = end;
        keptBytes = 0;
    }

    // ---- changes ----------------------------------------------------------------------------------------------------

    /// Whether another key of this length has room.
    boolean fits(int length) {
        return end - first < capacity && keptBytes + length <= capacity * (long) BYTES_PER_KEY;
    }

    /// Adds a key, which fits. Returns its slot.
    int add(Keys keys, int index, long position) {
        int slot = slot(end++);
        if (chunks[slot >> chunkShift] == null) {
            chunks[slot >> chunkShift] = new long[chunkKeys * WORDS];
            allocated += chunkKeys * (long) WORDS * Long.BYTES;
        }
        int length = keys.length(index);
        set(slot, POSITION, position);
        set(slot, TABLE, keys.table(index));
        set(slot, PREFIX, prefix(keys.bytes(), keys.begin(index), length));
        set(slot, PLACE, (long) wrap(endByte) << Integer.SIZE | length);
        for (int done = 0; done < length; ) {
            int offset = wrap(endByte + done);
            int piece = Math.min(length - done, chunkBytes - (offset & chunkBytes - 1));
            if (blocks[offset >> byteShift] == null) {
                blocks[offset >> byteShift] = new byte[chunkBytes];
                allocated += chunkBytes;
            }
            System.arraycopy(
                    keys.bytes(),
                    keys.begin(index) + done,
                    blocks[offset >> byteShift],
                    offset & chunkBytes - 1,
                    piece);
            done += piece;
        }
        endByte += length;
        keptBytes += length;
        return slot;
    }

    void removeFirst() {
        keptBytes -= length(slot(first++));
    }

    private int wrap(long offset) {
        return (int) (offset & capacity * (long) BYTES_PER_KEY - 1);
    }

    // ---- entries ----------------------------------------------------------------------------------------------------

    /// The number of the first entry that was put at this position or later; [#end] if there is none.
    long firstSince(long position) {
        long low = first;
        long high = end;
        while (low < high) {
            long middle = low + high >>> 1;
            if (position(slot(middle)) < position) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    long get(int slot, int word) {
        return chunks[slot >> chunkShift][(slot & chunkKeys - 1) * WORDS + word];
    }

    void set(int slot, int word, long value) {
        chunks[slot >> chunkShift][(slot & chunkKeys - 1) * WORDS + word] = value;
    }

    long position(int slot) {
        return get(slot, POSITION);
    }

    long table(int slot) {
        return get(slot, TABLE);
    }

    int length(int slot) {
        return (int) get(slot, PLACE);
    }

    /// Copies a key; there is room.
    void copy(int slot, byte[] to) {
        int begin = (int) (get(slot, PLACE) >>> Integer.SIZE);
        int length = length(slot);
        for (int done = 0; done < length; ) {
            int offset = wrap(begin + (long) done);
            int piece = Math.min(length - done, chunkBytes - (offset & chunkBytes - 1));
            System.arraycopy(blocks[offset >> byteShift], offset & chunkBytes - 1, to, done, piece);
            done += piece;
        }
    }

    /// The first eight bytes of a key as a number; bytes that it lacks are zero. Where the numbers of two keys
    /// differ, compared unsigned, they are in the order of the keys.
    static long prefix(byte[] bytes, int at, int length) {
        long prefix = 0;
        for (int index = 0; index < Long.BYTES; index++) {
            prefix = prefix << Byte.SIZE | (index < length ? bytes[at + index] & 0xff : 0);
        }
        return prefix;
    }

    /// Compares a key with another one, of this prefix: by the numbers of their tables first.
    int compare(int slot, long table, long prefix, byte[] bytes, int at, int length) {
        long[] chunk = chunks[slot >> chunkShift];
        int words = (slot & chunkKeys - 1) * WORDS;
        if (chunk[words + TABLE] != table) {
            return Long.compare(chunk[words + TABLE], table);
        }
        if (chunk[words + PREFIX] != prefix) {
            return Long.compareUnsigned(chunk[words + PREFIX], prefix);
        }
        return compare(chunk[words + PLACE], bytes, at, length);
    }

    private int compare(long place, byte[] bytes, int at, int length) {
        int own = (int) place;
        if (own == 0) {
            return length == 0 ? 0 : -1; // there may be no block yet
        }
        long begin = place >>> Integer.SIZE;
        for (int done = 0; ; ) {
            int offset = wrap(begin + done);
            int within = offset & chunkBytes - 1;
            int piece = Math.min(own - done, chunkBytes - within);
            boolean isLast = done + piece == own;
            int other = isLast ? length - done : Math.min(piece, length - done);
            int result = Arrays.compareUnsigned(
                    blocks[offset >> byteShift], within, within + piece, bytes, at + done, at + done + other);
            if (isLast || result != 0) {
                return result;
            }
            done += piece;
        }
    }
}
