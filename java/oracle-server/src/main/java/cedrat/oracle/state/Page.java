package cedrat.oracle.state;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.Arrays;

/// States of transactions with neighbouring start timestamps. For one thread at a time.
///
/// The decided ones can be encoded as bytes, little endian:
///
/// ```text
/// page    number 8 | count 4 | outcome *
/// outcome slot 2 | state 8 | session 4
/// ```
final class Page {
    private static final int HEADER_BYTES = Long.BYTES + Integer.BYTES;
    private static final int OUTCOME_BYTES = Short.BYTES + Long.BYTES + Integer.BYTES;
    private static final VarHandle SHORT = MethodHandles.byteArrayViewVarHandle(short[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle INT = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle LONG = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    /// As [Transactions] says.
    final long[] states;
    /// The complement of the session's number where an open transaction is unclaimed.
    final int[] sessions;
    int open;
    int decided;
    /// Whether it is not what was read from the store any more.
    boolean isChanged;

    Page(int size) {
        states = new long[size];
        sessions = new int[size];
    }

    /// The most memory that a page takes.
    static long bytesMax(int size) {
        return (long) size * (Long.BYTES + Integer.BYTES);
    }

    /// The most bytes that [#write] writes.
    static int writtenMax(int size) {
        return HEADER_BYTES + size * OUTCOME_BYTES;
    }

    /// Writes it, which has no open transaction; returns how many bytes that takes.
    int write(long number, byte[] bytes) {
        assert open == 0 : "open transactions stay in memory";
        LONG.set(bytes, 0, number);
        INT.set(bytes, Long.BYTES, decided);
        int at = HEADER_BYTES;
        for (int slot = 0; slot < states.length; slot++) {
            if (states[slot] != Transactions.NOTHING) {
                SHORT.set(bytes, at, (short) slot);
                LONG.set(bytes, at + 2, states[slot]);
                INT.set(bytes, at + 10, sessions[slot]);
                at += OUTCOME_BYTES;
            }
        }
        assert at == HEADER_BYTES + decided * OUTCOME_BYTES : "each outcome is counted";
        return at;
    }

    /// Reads what was written of the page with this number into this one, which is empty.
    void read(long number, byte[] bytes) {
        long found = (long) LONG.get(bytes, 0);
        if (found != number) {
            throw new IllegalStateException("the scratch file has page " + found + " in place of page " + number);
        }
        decided = (int) INT.get(bytes, Long.BYTES);
        for (int count = 0, at = HEADER_BYTES; count < decided; count++, at += OUTCOME_BYTES) {
            int slot = Short.toUnsignedInt((short) SHORT.get(bytes, at));
            states[slot] = (long) LONG.get(bytes, at + 2);
            sessions[slot] = (int) INT.get(bytes, at + 10);
        }
        isChanged = false;
    }

    /// Nothing is left in it.
    void clear() {
        Arrays.fill(states, Transactions.NOTHING);
        open = 0;
        decided = 0;
        isChanged = false;
    }
}
