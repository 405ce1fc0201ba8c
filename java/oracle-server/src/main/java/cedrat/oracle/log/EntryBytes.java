package cedrat.oracle.log;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;

/// The bytes of an entry that is read, and what all kinds of entries are made of. For one thread at a time.
final class EntryBytes {
    static final VarHandle LONG = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    static final int VARINT_BYTES_MAX = 10;

    private byte[] bytes;
    private int at;
    private int end;

    /// Opens an entry: `length` bytes from `from` on, that begin with a byte `first` and are not less than
    /// `least`.
    void open(byte[] bytes, int from, int length, int least, byte first) throws DamagedEntryException {
        this.bytes = bytes;
        at = from;
        end = from + length;
        if (length < least) {
            throw damaged("an entry of " + length + " bytes; it has at least " + least);
        }
        byte version = kind();
        if (version != first) {
            throw damaged("an entry of version " + version + "; this program reads version " + first);
        }
    }

    boolean hasMore() {
        return at < end;
    }

    int left() {
        return end - at;
    }

    /// The next byte; there is one.
    byte kind() {
        return bytes[at++];
    }

    /// A number of 8 bytes; they are there.
    long number() {
        long number = (long) LONG.get(bytes, at);
        at += Long.BYTES;
        return number;
    }

    /// Passes over so many bytes, which are there; returns where they begin in [#bytes].
    int skip(int count) {
        int from = at;
        at += count;
        return from;
    }

    byte[] bytes() {
        return bytes;
    }

    long varint() throws DamagedEntryException {
        long number = 0;
        for (int shift = 0; at < end && shift < Long.SIZE; shift += 7) {
            byte next = bytes[at++];
            number |= (long) (next & 0x7f) << shift;
            if (next >= 0) {
                return number;
            }
        }
        throw damaged("a number of too many bytes");
    }

    /// Writes a varint; there is room. Returns the place behind it.
    static int putVarint(byte[] bytes, int at, long number) {
        int end = at;
        long rest = number;
        while ((rest & -0x80) != 0) {
            bytes[end++] = (byte) (rest | 0x80);
            rest >>>= 7;
        }
        bytes[end++] = (byte) rest;
        return end;
    }

    DamagedEntryException damaged(String what) {
        return new DamagedEntryException("invalid log entry: " + what + ", at byte " + at);
    }
}
