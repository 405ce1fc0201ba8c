package cedrat.oracle.bench;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.OptionalLong;

/// A system with tables that is measured, as its clients see it. Found by the name of its class, which may be on the
/// class path of its own processes alone; it has a constructor without parameters. HBase's configuration is on the
/// class path.
///
/// A table has accounts: one row each, with one value, which begins with the balance.
public interface TableSystem extends AutoCloseable {
    /// The only column family.
    String FAMILY = "a";

    /// The only column.
    String QUALIFIER = "balance";

    /// Number of bytes of a value.
    int VALUE_BYTES = 100;

    /// Connects to the system, and opens the table. Other methods are called after this one.
    ///
    /// @param server the server that decides transactions; `null` if there is none
    /// @param create whether the table is created, and is empty
    void open(InetSocketAddress server, String table, boolean create) throws Exception;

    /// Writes the accounts from `first` on, `count` of them, each with this balance.
    void load(long first, int count, long balance) throws Exception;

    /// Returns what one worker uses, by one thread.
    Worker worker() throws Exception;

    /// Returns the sum of all balances, read from one snapshot; empty if the system has none.
    OptionalLong total() throws Exception;

    @Override
    void close() throws IOException;

    /// Runs transactions, one after the other.
    @FunctionalInterface
    interface Worker {
        /// Reads two accounts, and writes both with their new balances.
        ///
        /// @return whether it has committed; else it has aborted
        boolean transfer(long from, long to, long amount) throws Exception;
    }

    /// Returns the key of a row: neighbouring accounts are far apart.
    static byte[] row(long account) {
        long mixed = account * 0x9E3779B97F4A7C15L;
        return ByteBuffer.allocate(2 * Long.BYTES)
                .putLong(mixed)
                .putLong(account)
                .array();
    }

    /// Returns a value with this balance.
    static byte[] value(long balance) {
        return ByteBuffer.allocate(VALUE_BYTES).putLong(balance).array();
    }

    /// Returns the balance in a value.
    ///
    /// @param value `null` if the account was not found
    /// @throws IllegalStateException if the account was not found, or has another length
    static long balance(byte[] value) {
        if (value == null || value.length != VALUE_BYTES) {
            throw new IllegalStateException(value == null ? "no account" : "an account of another length");
        }
        return ByteBuffer.wrap(value).getLong();
    }
}
