package cedrat.oracle.hbase;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.tables.Bytes;
import cedrat.oracle.tables.Column;
import cedrat.oracle.tables.HookedTables;
import cedrat.oracle.tables.Isolation;
import cedrat.oracle.tables.Table;
import cedrat.oracle.tables.Tables;
import cedrat.oracle.tables.Transaction;
import cedrat.oracle.tables.TransactionManager;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.locks.LockSupport;

/// A client that writes one row, and waits on the way until the file `go` is in its folder.
final class ClientProcess {
    static final Bytes ROW = Bytes.of("a");
    static final Column VALUE = Column.of("f", "value");

    /// Another place than a [HookedTables.Point]: before the commit timestamp is written.
    static final String BEFORE_CLEAN_UP = "BEFORE_CLEAN_UP";

    private static final long LOOK_AGAIN_NS = 10_000_000;

    private ClientProcess() {}

    /// The oracle's port, ZooKeeper's port, the namespace, and where it waits.
    public static void main(String[] arguments) {
        InetSocketAddress server = new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0]));
        String place = arguments[3];
        try (OracleClient oracle = OracleClient.open(ClientOptions.of(server));
                HBaseTables store =
                        HBaseTables.open(Cluster.configuration(Integer.parseInt(arguments[1])), oracle, arguments[2])) {
            Tables tables = new HookedTables(store, (point, table, row, mutation) -> {
                boolean isStamp = point == HookedTables.Point.BEFORE_MUTATE
                        && !mutation.stamps().isEmpty();
                if (place.equals(isStamp ? BEFORE_CLEAN_UP : point.name())) {
                    System.out.println("there");
                    while (!Files.exists(Path.of("go"))) {
                        LockSupport.parkNanos(LOOK_AGAIN_NS);
                    }
                }
            });
            Table table = tables.all().getFirst();
            Transaction transaction = new TransactionManager(
                            oracle, tables, TransactionManager.Options.DEFAULTS.withCleanUp(Runnable::run))
                    .begin(Isolation.SNAPSHOT);
            transaction.put(table, ROW, VALUE, Bytes.of("new"));
            try {
                transaction.commit();
            } catch (RuntimeException problem) {
                System.out.println(problem);
            }
            System.out.println("ended " + transaction.state());
        }
    }
}
