package cedrat.persist.codec;

import cedrat.persist.StoreException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/// The bytes of an object, as [cedrat.persist.GraphStore] has them, and how far its data have been read.
///
/// **Threads:** one at a time.
public final class ObjectBytes {
    private static final VarHandle SHORT = MethodHandles.byteArrayViewVarHandle(short[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle INT = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle LONG = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    private final long identity;
    private final byte[] bytes;
    private final int references;
    private int at = CommitBuffer.OBJECT_HEADER;

    /// @throws StoreException if these are no object's bytes
    public ObjectBytes(long identity, byte[] bytes) {
        this.identity = identity;
        this.bytes = bytes;
        int dataLength = bytes.length < CommitBuffer.OBJECT_HEADER ? -1 : (int) INT.get(bytes, 4);
        if (dataLength < 0
                || (dataLength & 7) != 0
                || (bytes.length & 7) != 0
                || dataLength > bytes.length - CommitBuffer.OBJECT_HEADER) {
            throw damaged("its length does not fit");
        }
        references = CommitBuffer.OBJECT_HEADER + dataLength;
    }

    /// The same bytes, to be read from their beginning.
    public ObjectBytes copy() {
        return new ObjectBytes(identity, bytes);
    }

    /// Returns the identity, as messages show it.
    public String show() {
        return Words.show(identity);
    }

    public StoreException damaged(String how) {
        return new StoreException("the object " + Words.show(identity) + " is damaged, " + how
                + ": run `cedrat verify`, and restore the store from a copy");
    }

    public int classNumber() {
        return (int) INT.get(bytes, 0);
    }

    /// Returns the number of bytes of the object.
    public int length() {
        return bytes.length;
    }

    int dataLength() {
        return references - CommitBuffer.OBJECT_HEADER;
    }

    public int referenceCount() {
        return (bytes.length - references) / Long.BYTES;
    }

    public long reference(int index) {
        return (long) LONG.get(bytes, references + index * Long.BYTES);
    }

    /// A primitive value at an offset of the data, as bits.
    public long bits(int offset, char kind) {
        int from = CommitBuffer.OBJECT_HEADER + offset;
        return switch (kind) {
            case 'J', 'D' -> (long) LONG.get(bytes, from);
            case 'I', 'F' -> (int) INT.get(bytes, from);
            case 'S' -> (short) SHORT.get(bytes, from);
            case 'C' -> (char) (short) SHORT.get(bytes, from);
            default -> bytes[from];
        };
    }

    private int take(int length) {
        int from = at;
        if (length < 0 || length > references - from) {
            throw damaged("its data end early");
        }
        at = from + length;
        return from;
    }

    public long getLong() {
        return (long) LONG.get(bytes, take(8));
    }

    public int getInt() {
        return (int) INT.get(bytes, take(4));
    }

    /// A number of bytes or elements.
    public int getCount() {
        int count = getInt();
        if (count < 0) {
            throw damaged("it has " + count + " elements");
        }
        return count;
    }

    /// Returns a short text of the data: its length in one byte, and a byte for each character.
    ///
    /// @param offset where it begins in the data
    public String shortText(long offset) {
        int length =
                offset < 0 || offset >= dataLength() ? -1 : bytes[CommitBuffer.OBJECT_HEADER + (int) offset] & 0xff;
        if (length < 0 || length >= dataLength() - offset) {
            throw damaged("a text of it is not within its data");
        }
        int from = CommitBuffer.OBJECT_HEADER + (int) offset + 1;
        return new String(bytes, from, length, StandardCharsets.ISO_8859_1);
    }

    /// As [ObjectWriter#putText] has put it.
    public String getText() {
        return new String(getBytes(getCount()), StandardCharsets.UTF_8);
    }

    public byte[] getBytes(int length) {
        int from = take(length);
        return java.util.Arrays.copyOfRange(bytes, from, from + length);
    }
}
