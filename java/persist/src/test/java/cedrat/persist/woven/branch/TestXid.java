package cedrat.persist.woven.branch;

import java.util.Arrays;
import javax.transaction.xa.Xid;

/// Identifier of a branch of a transaction.
public record TestXid(int format, byte[] global, byte[] branch) implements Xid {
    @Override
    public int getFormatId() {
        return format;
    }

    @Override
    public byte[] getGlobalTransactionId() {
        return global.clone();
    }

    @Override
    public byte[] getBranchQualifier() {
        return branch.clone();
    }

    boolean is(Xid other) {
        return other.getFormatId() == format
                && Arrays.equals(other.getGlobalTransactionId(), global)
                && Arrays.equals(other.getBranchQualifier(), branch);
    }
}
