package cedrat.oracle.hbase;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.tables.Bytes;
import cedrat.oracle.tables.Isolation;
import cedrat.oracle.tables.KeyRange;
import cedrat.oracle.tables.ListClient;
import cedrat.oracle.tables.ListHistory;
import cedrat.oracle.tables.Table;
import cedrat.oracle.tables.TransactionManager;
import java.net.InetSocketAddress;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Queue;

/// A client of lists that goes on until it is killed, and says what it does before and after it does it.
final class ListProcess {
    private ListProcess() {}

    /// Lists of their own for each isolation level, among the other rows, and in different regions.
    private static String prefix(Isolation isolation) {
        return isolation == Isolation.SNAPSHOT ? "4s" : "8s";
    }

    static List<String> rows(Isolation isolation) {
        return List.of(prefix(isolation) + "0", prefix(isolation) + "1", prefix(isolation) + "2");
    }

    static ListClient client(ListHistory.Recorder recorder, int number, Isolation isolation, List<Table> tables) {
        KeyRange range = new KeyRange(Bytes.of(prefix(isolation)), Bytes.of(prefix(isolation) + "~"));
        return new ListClient(recorder, number, isolation, tables, range, rows(isolation));
    }

    /// The oracle's port, ZooKeeper's port, the namespace, its number, and how isolated it is.
    public static void main(String[] arguments) {
        InetSocketAddress server = new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0]));
        try (OracleClient oracle = OracleClient.open(ClientOptions.of(server));
                HBaseTables tables =
                        HBaseTables.open(Cluster.configuration(Integer.parseInt(arguments[1])), oracle, arguments[2])) {
            ListClient client = client(
                    System.out::println, Integer.parseInt(arguments[3]), Isolation.valueOf(arguments[4]), tables.all());
            // A process that is killed before it has reported a transaction's outcome has not cleaned up after
            // it, and so the oracle still knows the outcome.
            Queue<Runnable> cleanUps = new ArrayDeque<>();
            TransactionManager manager = new TransactionManager(
                    oracle,
                    tables,
                    TransactionManager.Options.DEFAULTS.withWriteBufferBytes(0).withCleanUp(cleanUps::add));
            while (true) {
                client.run(manager);
                while (!cleanUps.isEmpty()) {
                    cleanUps.remove().run();
                }
            }
        }
    }
}
