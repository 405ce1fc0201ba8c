package cedrat.oracle.bench;

import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.util.Bytes;

/// Accounts of a [TableSystem] whose clients use the types of HBase.
public final class HBaseRows {
    /// The only column family.
    public static final byte[] FAMILY = Bytes.toBytes(TableSystem.FAMILY);

    private static final byte[] QUALIFIER = Bytes.toBytes(TableSystem.QUALIFIER);

    private HBaseRows() {}

    /// Returns the request for an account.
    public static Get get(long account) {
        return new Get(TableSystem.row(account)).addColumn(FAMILY, QUALIFIER);
    }

    /// Returns the write of an account.
    public static Put put(long account, long balance) {
        return new Put(TableSystem.row(account)).addColumn(FAMILY, QUALIFIER, TableSystem.value(balance));
    }

    /// Returns the balance of an account.
    ///
    /// @throws IllegalStateException if it was not found, or has another length
    public static long balance(Result found) {
        return TableSystem.balance(found.getValue(FAMILY, QUALIFIER));
    }
}
