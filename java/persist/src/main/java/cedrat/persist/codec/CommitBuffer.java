package cedrat.persist.codec;

import cedrat.persist.StoreException;
import cedrat.persist.record.Context;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.Arrays;

/// The entries of one commit, as [cedrat.persist.GraphStore] has them.
///
/// **Threads:** one at a time.
public final class CommitBuffer {
    public static final int OBJECT_HEADER = 8;

    private static final int NEW = 1;
    private static final int PATCH = 2;
    private static final int PUT = 3;
    private static final int ROOT = 4;
    private static final int CLASS = 5;
    private static final int ENTRY_HEADER = 8;

    private static final VarHandle SHORT = MethodHandles.byteArrayViewVarHandle(short[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle INT = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle LONG = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    /// Maximum length of a buffer that is kept for the next commit.
    private static final int KEPT_MAX = 1 << 12;

    private byte[] bytes = new byte[1 << 8];
    private int size;
    private int entry;
    private int body;
    /// Offset of the object that is being written.
    private int object;

    public int size() {
        return size;
    }

    public byte[] bytes() {
        return bytes;
    }

    /// One for the next commit of a thread: its last one, emptied, or a new one.
    public static CommitBuffer take(Context context) {
        if (context == null || !(context.spare instanceof CommitBuffer spare)) {
            return new CommitBuffer();
        }
        context.spare = null;
        spare.size = 0;
        return spare;
    }

    /// Its commit has ended.
    public void give(Context context) {
        if (context != null && bytes.length <= KEPT_MAX) {
            context.spare = this;
        }
    }

    /// Drops the entries.
    public void clear() {
        size = 0;
    }

    private void ensure(int more) {
        if (bytes.length - size >= more) {
            return;
        }
        long wanted = Math.max((long) size + more, 2L * bytes.length);
        if (wanted > Integer.MAX_VALUE - 64) {
            wanted = (long) size + more;
        }
        if (wanted > Integer.MAX_VALUE - 64) {
            throw new StoreException("the transaction stores more than 2 GiB: divide it into several transactions");
        }
        bytes = Arrays.copyOf(bytes, (int) wanted);
    }

    // ---- entries

    private void begin(int kind) {
        entry = size;
        putInt(kind);
        putInt(0);
    }

    public void beginNew() {
        begin(NEW);
        body = size;
    }

    public void beginPatch(long identity, long offset) {
        begin(PATCH);
        putLong(identity);
        putInt((int) offset);
        putInt(0);
        body = size;
    }

    public void beginPut(long identity) {
        begin(PUT);
        putLong(identity);
        body = size;
    }

    public void beginRoot(long reference) {
        begin(ROOT);
        putLong(reference);
        body = size;
    }

    public void beginClass(int number) {
        begin(CLASS);
        putInt(number);
        putInt(0);
        body = size;
    }

    /// The entry ends here.
    public void end() {
        INT.set(bytes, entry + 4, size - body);
        align();
    }

    // ---- objects

    public void beginObject(int classNumber) {
        object = size;
        putInt(classNumber);
        putInt(0);
    }

    /// The data of the object end here, its references follow.
    void endData() {
        align();
        INT.set(bytes, object + 4, size - object - OBJECT_HEADER);
    }

    /// Returns the number of data bytes that the object has so far.
    public int dataSize() {
        return size - object - OBJECT_HEADER;
    }

    void align() {
        int more = -size & 7;
        ensure(more);
        Arrays.fill(bytes, size, size + more, (byte) 0);
        size += more;
    }

    // ---- values

    public void putLong(long value) {
        ensure(8);
        LONG.set(bytes, size, value);
        size += 8;
    }

    public void putInt(int value) {
        ensure(4);
        INT.set(bytes, size, value);
        size += 4;
    }

    /// Replaces four bytes.
    public void setInt(int at, int value) {
        INT.set(bytes, at, value);
    }

    /// Replaces eight bytes.
    public void setLong(int at, long value) {
        LONG.set(bytes, at, value);
    }

    void putShort(int value) {
        ensure(2);
        SHORT.set(bytes, size, (short) value);
        size += 2;
    }

    public void putByte(int value) {
        ensure(1);
        bytes[size++] = (byte) value;
    }

    public void putBytes(byte[] value, int from, int length) {
        ensure(length);
        System.arraycopy(value, from, bytes, size, length);
        size += length;
    }

    /// As many bytes as the type has.
    void putBits(char kind, long bits) {
        switch (kind) {
            case 'J', 'D' -> putLong(bits);
            case 'I', 'F' -> putInt((int) bits);
            case 'S', 'C' -> putShort((int) bits);
            default -> putByte((int) bits);
        }
    }
}
