package cedrat.persist.bench.bank;

import java.io.IOException;
import java.nio.file.Path;

/// A system that stores the bank.
public interface Engine {
    /// Returns its name in `--only system=…`.
    String name();

    /// Opens the bank, which is made if it is not there.
    ///
    /// @param directory its own, existing
    /// @param isDurable whether a transaction that has returned survives the end of the machine's power
    Bank open(Path directory, boolean isDurable) throws Exception;

    /// Whether what was committed is there when the bank is opened again.
    default boolean isLasting() {
        return true;
    }

    /// An open bank.
    ///
    /// **Threads:** any, all at once.
    interface Bank extends AutoCloseable {
        /// One transaction, committed when this returns.
        void transact(Transfer transfer) throws Exception;

        /// Returns the present sums; no transaction runs meanwhile.
        Balances balances() throws Exception;

        @Override
        void close() throws IOException;
    }
}
