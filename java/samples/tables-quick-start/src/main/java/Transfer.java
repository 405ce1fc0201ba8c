import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.tables.Bytes;
import cedrat.oracle.tables.Column;
import cedrat.oracle.tables.Granularity;
import cedrat.oracle.tables.Isolation;
import cedrat.oracle.tables.MemoryTables;
import cedrat.oracle.tables.Table;
import cedrat.oracle.tables.Transaction;
import cedrat.oracle.tables.TransactionManager;
import java.net.InetSocketAddress;

/// Moves money between two accounts, with the oracle at HOST PORT.
class Transfer {
    private static final Column BALANCE = Column.of("account", "balance");
    private static final Bytes ALICE = Bytes.of(1);
    private static final Bytes BOB = Bytes.of(2);

    public static void main(String[] arguments) {
        InetSocketAddress server = new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1]));
        MemoryTables tables = new MemoryTables();
        Table accounts = tables.create("accounts", Granularity.ROW);
        try (OracleClient oracle = OracleClient.open(ClientOptions.of(server));
                TransactionManager manager = new TransactionManager(oracle, tables)) {
            manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
                transaction.put(accounts, ALICE, BALANCE, Bytes.of(100));
                transaction.put(accounts, BOB, BALANCE, Bytes.of(0));
                return null;
            });
            manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
                add(transaction, accounts, ALICE, -30);
                add(transaction, accounts, BOB, 30);
                return null;
            });
            manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
                System.out.println(balance(transaction, accounts, ALICE) + " and " + balance(transaction, accounts, BOB));
                return null;
            });
        }
    }

    private static long balance(Transaction transaction, Table accounts, Bytes account) {
        return transaction.get(accounts, account, BALANCE).orElseThrow().toLong();
    }

    private static void add(Transaction transaction, Table accounts, Bytes account, long amount) {
        transaction.put(accounts, account, BALANCE, Bytes.of(balance(transaction, accounts, account) + amount));
    }
}
