package cedrat.oracle.tables;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/// Bytes that do not change, ordered as unsigned numbers, left to right: keys and values. **Threads:** any.
public final class Bytes implements Comparable<Bytes> {
    /// No bytes at all: before every other key.
    public static final Bytes EMPTY = new Bytes(new byte[0]);

    private final byte[] bytes;

    private Bytes(byte[] bytes) {
        this.bytes = bytes;
    }

    /// A copy of these.
    public static Bytes of(byte[] bytes) {
        return new Bytes(bytes.clone());
    }

    /// A copy of `length` of these.
    public static Bytes of(byte[] bytes, int from, int length) {
        return new Bytes(Arrays.copyOfRange(bytes, from, from + length));
    }

    /// A text, as UTF-8.
    public static Bytes of(String text) {
        return new Bytes(text.getBytes(StandardCharsets.UTF_8));
    }

    /// A number, as eight bytes, highest first. Numbers that are not negative keep their order.
    public static Bytes of(long number) {
        return new Bytes(ByteBuffer.allocate(Long.BYTES).putLong(number).array());
    }

    /// Wraps an array that is not changed any more.
    static Bytes own(byte[] bytes) {
        return new Bytes(bytes);
    }

    /// Returns the number of bytes.
    public int length() {
        return bytes.length;
    }

    /// The one at `index`.
    public byte at(int index) {
        return bytes[index];
    }

    /// A copy.
    public byte[] toArray() {
        return bytes.clone();
    }

    /// These bytes without a copy, for those of this package who only read.
    /// The first of all that come behind it.
    Bytes next() {
        return own(Arrays.copyOf(raw(), length() + 1));
    }

    byte[] raw() {
        return bytes;
    }

    /// Reads [#of(long)] back.
    ///
    /// @throws IllegalStateException if these are not eight bytes
    public long toLong() {
        if (bytes.length != Long.BYTES) {
            throw new IllegalStateException("cannot read " + bytes.length + " bytes as a long, which has 8 bytes");
        }
        return ByteBuffer.wrap(bytes).getLong();
    }

    /// Reads [#of(String)] back.
    public String toText() {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    /// Whether it begins with these.
    public boolean startsWith(Bytes prefix) {
        return length() >= prefix.length()
                && Arrays.equals(bytes, 0, prefix.length(), prefix.bytes, 0, prefix.length());
    }

    @Override
    public int compareTo(Bytes other) {
        return Arrays.compareUnsigned(bytes, other.bytes);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Bytes && Arrays.equals(bytes, ((Bytes) other).bytes);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(bytes);
    }

    /// Printable characters as they are, others as `\xNN`.
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder();
        for (byte each : bytes) {
            if (each > ' ' && each < 0x7f && each != '\\') {
                text.append((char) each);
            } else {
                text.append(String.format("\\x%02x", each & 0xff));
            }
        }
        return text.toString();
    }
}
