package cedrat.oracle.maintenance;

import cedrat.oracle.client.OracleClient;
import cedrat.oracle.tables.Table;
import cedrat.oracle.tables.TableException;
import cedrat.oracle.tables.Tables;
import java.util.List;
import java.util.function.Consumer;

/// Tables to be maintained, with the client of their oracle. **Threads:** one at a time.
interface Store extends AutoCloseable {
    /// The tables of one namespace.
    interface Part {
        /// Returns the name of the namespace.
        String name();

        /// Returns all tables of the namespace.
        Tables tables();

        /// Whether all tables are to be visited, not only some that the user has named.
        boolean isWhole();

        /// Returns those to be visited, without the refused ones, and hands their refusals out.
        List<Table> usable(Consumer<TableException> refusals);

        /// Whether a failure is a refusal: it does not end by itself.
        boolean isRefusal(TableException problem);
    }

    /// Makes a store.
    interface Opener {
        /// Returns the names of the namespaces that it has.
        List<String> namespaces();

        /// Connects.
        ///
        /// @throws TableException if the tables cannot be reached
        /// @throws cedrat.oracle.client.OracleException if the oracle cannot be reached
        /// @throws java.io.UncheckedIOException if a file cannot be used
        Store open();

        /// Whether a failure is a refusal: it does not end by itself.
        boolean isRefusal(TableException problem);
    }

    OracleClient oracle();

    /// Returns its namespaces, the same at each call.
    List<Part> parts();

    @Override
    void close();
}
