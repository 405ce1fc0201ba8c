package cedrat.persist.branch;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HexFormat;
import javax.transaction.xa.XAException;
import javax.transaction.xa.Xid;

/// The name of a branch, as a transaction manager knows it, and as the store does:
///
/// ```text
/// | format i32, big endian | length of the global part u8 | global part | branch part, to the end |
/// ```
///
/// At most 133 bytes, of the 140 that the store takes.
public final class BranchId implements Xid {
    private static final int HEAD_BYTES = 5;

    private final byte[] bytes;

    private BranchId(byte[] bytes) {
        this.bytes = bytes;
    }

    /// @throws XAException `XAER_INVAL` if it is none
    static BranchId of(Xid xid) throws XAException {
        if (xid instanceof BranchId same) {
            return same;
        }
        byte[] global = xid == null ? null : xid.getGlobalTransactionId();
        byte[] branch = xid == null ? null : xid.getBranchQualifier();
        boolean isOne = global != null
                && branch != null
                && xid.getFormatId() != -1
                && global.length != 0
                && global.length <= MAXGTRIDSIZE
                && branch.length <= MAXBQUALSIZE;
        if (!isOne) {
            throw BranchResource.failure(XAException.XAER_INVAL, "invalid branch identifier", null);
        }
        ByteBuffer buffer = ByteBuffer.allocate(HEAD_BYTES + global.length + branch.length);
        buffer.putInt(xid.getFormatId());
        buffer.put((byte) global.length).put(global).put(branch);
        return new BranchId(buffer.array());
    }

    /// Returns the identifier with this name in the store, or null: the transaction was not prepared by XA.
    public static BranchId stored(byte[] bytes) {
        if (bytes.length <= HEAD_BYTES) {
            return null;
        }
        int global = bytes[HEAD_BYTES - 1];
        int branch = bytes.length - HEAD_BYTES - global;
        boolean isOne = global > 0 && global <= MAXGTRIDSIZE && branch >= 0 && branch <= MAXBQUALSIZE;
        return isOne ? new BranchId(bytes.clone()) : null;
    }

    public byte[] stored() {
        return bytes.clone();
    }

    @Override
    public int getFormatId() {
        return ByteBuffer.wrap(bytes).getInt();
    }

    @Override
    public byte[] getGlobalTransactionId() {
        return Arrays.copyOfRange(bytes, HEAD_BYTES, HEAD_BYTES + bytes[HEAD_BYTES - 1]);
    }

    @Override
    public byte[] getBranchQualifier() {
        return Arrays.copyOfRange(bytes, HEAD_BYTES + bytes[HEAD_BYTES - 1], bytes.length);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof BranchId id && Arrays.equals(bytes, id.bytes);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(bytes);
    }

    /// As `cedrat info` shows it.
    public static String show(byte[] stored) {
        return HexFormat.of().formatHex(stored);
    }

    @Override
    public String toString() {
        return show(bytes);
    }
}
