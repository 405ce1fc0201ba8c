package cedrat.oracle.transport;

import io.netty.buffer.ByteBuf;

/// Bytes that have arrived and were not read as frames yet, in an array that grows to the longest frame and
/// one read more. For one thread at a time.
public final class Input {
    private static final int FIRST_BYTES = 4 << 10;

    /// Of one frame in thousands an array as long shall not be kept.
    private static final int KEPT_BYTES_MAX = 256 << 10;

    private byte[] bytes = new byte[FIRST_BYTES];
    private int from;
    private int end;

    /// Without a byte.
    public Input() {}

    /// Adds what has arrived. The buffer stays the caller's.
    public void add(ByteBuf arrived) {
        int count = arrived.readableBytes();
        if (bytes.length - end < count) {
            makeRoom(count);
        }
        arrived.readBytes(bytes, end, count);
        end += count;
    }

    private void makeRoom(int count) {
        int rest = end - from;
        byte[] target = bytes.length - rest >= count ? bytes : new byte[Math.max(2 * bytes.length, rest + count)];
        System.arraycopy(bytes, from, target, 0, rest);
        bytes = target;
        from = 0;
        end = rest;
    }

    /// The array, of which the bytes from [#from] to [#end] count.
    public byte[] bytes() {
        return bytes;
    }

    /// Returns the index of the first byte.
    public int from() {
        return from;
    }

    /// Behind the last byte.
    public int end() {
        return end;
    }

    /// Returns the number of bytes.
    public int length() {
        return end - from;
    }

    /// The first bytes were read.
    public void skip(int count) {
        from += count;
        if (from == end) {
            clear();
        }
    }

    /// Discards the remaining bytes.
    public void clear() {
        from = 0;
        end = 0;
        if (bytes.length > KEPT_BYTES_MAX) {
            bytes = new byte[FIRST_BYTES];
        }
    }
}
