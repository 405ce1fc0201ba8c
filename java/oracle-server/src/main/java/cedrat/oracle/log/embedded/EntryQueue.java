package cedrat.oracle.log.embedded;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.atomic.AtomicReference;

/// Entries on their way from the thread that puts them to the one that takes them; neither waits for the
/// other.
///
/// ```text
/// buffer   entry * | -1 4            the next buffer follows
/// entry    length 4 | bytes | zeros up to a multiple of 8
/// ```
///
/// Two buffers outside of the heap take turns, and nothing is allocated, as long as the taker keeps up by and
/// large; where it does not, or an entry is long, there are more. So memory is bounded by what the putter
/// lets be under way, not here.
final class EntryQueue {
    static final int BUFFER_BYTES = 1 << 20;
    private static final int LENGTH_BYTES = Integer.BYTES;
    private static final int ENDS = -1;
    private static final VarHandle PUT;

    static {
        try {
            PUT = MethodHandles.lookup().findVarHandle(EntryQueue.class, "put", long.class);
        } catch (ReflectiveOperationException impossible) {
            throw new ExceptionInInitializerError(impossible);
        }
    }

    private static final class Buffer {
        final MemorySegment bytes;
        /// Set before the entry that is put into the next buffer can be seen.
        Buffer next;

        Buffer(long size) {
            bytes = Arena.ofAuto().allocate(size, Long.BYTES);
        }
    }

    /// One that the taker is through with.
    private final AtomicReference<Buffer> spare = new AtomicReference<>();
    /// Number of entries that were put; a reader of this number sees the entries that it counts.
    private volatile long put;

    // The putter's.
    private Buffer putting = new Buffer(BUFFER_BYTES);
    private long putAt;
    private long putCount;

    // The taker's.
    private Buffer taking = putting;
    private long takeAt;
    private long taken;

    /// Puts an entry.
    void put(byte[] bytes, int from, int length) {
        long needed = needed(length);
        if (putAt + needed + LENGTH_BYTES > putting.bytes.byteSize()) {
            putting.bytes.set(JAVA_INT, putAt, ENDS);
            putting.next = fresh(needed + LENGTH_BYTES);
            putting = putting.next;
            putAt = 0;
        }
        putting.bytes.set(JAVA_INT, putAt, length);
        MemorySegment.copy(bytes, from, putting.bytes, JAVA_BYTE, putAt + LENGTH_BYTES, length);
        putAt += needed;
        putCount++;
        PUT.setRelease(this, putCount);
    }

    /// Takes the next entry; null if there is none. It is overwritten after the next call.
    MemorySegment take() {
        if (taken == (long) PUT.getAcquire(this)) {
            return null;
        }
        int length = taking.bytes.get(JAVA_INT, takeAt);
        if (length == ENDS) {
            Buffer done = taking;
            taking = done.next;
            takeAt = 0;
            if (done.bytes.byteSize() == BUFFER_BYTES) {
                done.next = null;
                spare.set(done);
            }
            length = taking.bytes.get(JAVA_INT, 0);
        }
        MemorySegment entry = taking.bytes.asSlice(takeAt + LENGTH_BYTES, length);
        takeAt += needed(length);
        taken++;
        return entry;
    }

    /// Whether there is nothing to take. For the taker.
    boolean isEmpty() {
        return taken == put;
    }

    private static long needed(int length) {
        return (long) LENGTH_BYTES + length + Long.BYTES - 1 & -Long.BYTES;
    }

    private Buffer fresh(long needed) {
        if (needed <= BUFFER_BYTES) {
            Buffer used = spare.getAndSet(null);
            return used != null ? used : new Buffer(BUFFER_BYTES);
        }
        return new Buffer(needed);
    }
}
