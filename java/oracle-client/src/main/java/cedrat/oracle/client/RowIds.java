package cedrat.oracle.client;

import cedrat.oracle.protocol.Protocol;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;

/// Ids of rows: 64 bits of hash (XXH64) of a table's name and a row's key. All clients of an oracle must take
/// the same.
///
/// Two rows with the same id conflict as if they were one, so that a transaction may abort that need not
/// have; with a thousand million rows in memory, one commit in about a thousand million does. No conflict is
/// ever missed for it.
public final class RowIds {
    private static final VarHandle LONG = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle INT = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);

    private static final long PRIME_1 = 0x9e3779b185ebca87L;
    private static final long PRIME_2 = 0xc2b2ae3d27d4eb4fL;
    private static final long PRIME_3 = 0x165667b19e3779f9L;
    private static final long PRIME_4 = 0x85ebca77c2b2ae63L;
    private static final long PRIME_5 = 0x27d4eb2f165667c5L;

    private static final int STRIPE = 32;

    private RowIds() {}

    /// The id of a row of a table.
    public static long of(byte[] table, byte[] row) {
        return unreserved(hash(row, hash(table, 0)));
    }

    /// The number of a table whose scans are checked.
    public static long ofTable(byte[] table) {
        return hash(table, 0);
    }

    /// The id that a hash of a caller's own stands for: the same, but for those that no row may have.
    public static long unreserved(long hash) {
        return Protocol.isReservedRow(hash) ? PRIME_1 : hash;
    }

    /// XXH64 of all bytes.
    static long hash(byte[] bytes, long seed) {
        int at = 0;
        int end = bytes.length;
        long hash;
        if (end >= STRIPE) {
            long one = seed + PRIME_1 + PRIME_2;
            long two = seed + PRIME_2;
            long three = seed;
            long four = seed - PRIME_1;
            for (; at <= end - STRIPE; at += STRIPE) {
                one = round(one, (long) LONG.get(bytes, at));
                two = round(two, (long) LONG.get(bytes, at + 8));
                three = round(three, (long) LONG.get(bytes, at + 16));
                four = round(four, (long) LONG.get(bytes, at + 24));
            }
            hash = Long.rotateLeft(one, 1)
                    + Long.rotateLeft(two, 7)
                    + Long.rotateLeft(three, 12)
                    + Long.rotateLeft(four, 18);
            hash = merge(merge(merge(merge(hash, one), two), three), four);
        } else {
            hash = seed + PRIME_5;
        }
        hash += end;
        for (; at <= end - 8; at += 8) {
            hash = Long.rotateLeft(hash ^ round(0, (long) LONG.get(bytes, at)), 27) * PRIME_1 + PRIME_4;
        }
        if (at <= end - 4) {
            hash = Long.rotateLeft(hash ^ Integer.toUnsignedLong((int) INT.get(bytes, at)) * PRIME_1, 23) * PRIME_2
                    + PRIME_3;
            at += 4;
        }
        for (; at < end; at++) {
            hash = Long.rotateLeft(hash ^ (bytes[at] & 0xff) * PRIME_5, 11) * PRIME_1;
        }
        hash = (hash ^ hash >>> 33) * PRIME_2;
        hash = (hash ^ hash >>> 29) * PRIME_3;
        return hash ^ hash >>> 32;
    }

    private static long round(long lane, long input) {
        return Long.rotateLeft(lane + input * PRIME_2, 31) * PRIME_1;
    }

    private static long merge(long hash, long lane) {
        return (hash ^ round(0, lane)) * PRIME_1 + PRIME_4;
    }
}
