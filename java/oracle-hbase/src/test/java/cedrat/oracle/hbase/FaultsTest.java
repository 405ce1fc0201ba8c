package cedrat.oracle.hbase;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.server.OracleServer;
import cedrat.oracle.server.ServerOptions;
import cedrat.oracle.tables.AbortedException;
import cedrat.oracle.tables.Bytes;
import cedrat.oracle.tables.Cleaner;
import cedrat.oracle.tables.Column;
import cedrat.oracle.tables.Contents;
import cedrat.oracle.tables.Granularity;
import cedrat.oracle.tables.History;
import cedrat.oracle.tables.Isolation;
import cedrat.oracle.tables.Pruner;
import cedrat.oracle.tables.Row;
import cedrat.oracle.tables.Rows;
import cedrat.oracle.tables.Scan;
import cedrat.oracle.tables.Table;
import cedrat.oracle.tables.TableException;
import cedrat.oracle.tables.Tables;
import cedrat.oracle.tables.Transaction;
import cedrat.oracle.tables.TransactionManager;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.hadoop.hbase.HRegionLocation;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// Transfers between two tables, and readers of the total, while regions of HBase move, split, are compacted and
/// lose their server. The oracle remembers fewer rows than there are: T_max moves all the time.
@Tag("services")
@Timeout(300)
class FaultsTest {
    private static final int ACCOUNTS = 150;
    private static final int CLIENTS = 3;
    private static final long BALANCE = 1000;
    private static final int ROWS_LOG2 = 8;
    private static final Column MONEY = Column.of("f", "money");
    private static final Column WRITER = Column.of("f", "writer");

    private final HBaseStore store = new HBaseStore();
    private final History history = new History();
    private final ConcurrentLinkedQueue<Throwable> failures = new ConcurrentLinkedQueue<>();
    private final List<Thread> threads = new ArrayList<>();
    private OracleServer server;
    private OracleClient oracle;
    private Tables tables;
    private List<Table> both;
    private volatile boolean isOver;
    /// Guarded by this.
    private long committed;

    @BeforeEach
    void open() throws Exception {
        server = OracleServer.start(
                ServerOptions.DEFAULTS
                        .withListen(new InetSocketAddress("127.0.0.1", 0))
                        .withRowsLog2(ROWS_LOG2),
                new VolatileLog());
        oracle = OracleClient.open(ClientOptions.of(server.address()));
        store.open(oracle);
        store.create("left", Granularity.ROW, false);
        store.create("right", Granularity.CELL, false);
        tables = store.tables();
        both = tables.all();
        TransactionManager manager = new TransactionManager(oracle, tables);
        // As many rows as the oracle takes note of at a time.
        for (int first = 0; first < ACCOUNTS; first += 50) {
            long begunAt = history.now();
            Transaction transaction = manager.begin(Isolation.SNAPSHOT);
            Set<String> writes = new HashSet<>();
            for (Table table : both) {
                for (int account = first; account < first + 50; account++) {
                    put(transaction, table, account, BALANCE, writes);
                }
            }
            long commit = transaction.commit().value();
            history.add(new History.Transaction(
                    begunAt, history.now(), transaction.start().value(), commit, writes, Map.of()));
        }
    }

    @AfterEach
    void close() throws Exception {
        isOver = true;
        for (Thread thread : threads) {
            thread.join();
        }
        store.close();
        oracle.close();
        server.close();
    }

    private static Bytes key(int account) {
        return Bytes.of(String.format("%d%03d", account % 10, account));
    }

    private static String place(Table table, Bytes row) {
        return table.name() + "/" + row;
    }

    private static void put(Transaction transaction, Table table, int account, long balance, Set<String> writes) {
        transaction.put(table, key(account), MONEY, Bytes.of(balance));
        transaction.put(
                table, key(account), WRITER, Bytes.of(transaction.start().value()));
        writes.add(place(table, key(account)));
    }

    private static long balance(Table table, Row row, Map<String, Long> reads) {
        reads.put(place(table, row.key()), row.get(WRITER).orElseThrow().toLong());
        return row.get(MONEY).orElseThrow().toLong();
    }

    /// One transfer, and what it has seen. A store that fails aborts it.
    private void transfer(TransactionManager manager, SplittableRandom random) {
        Table from = both.get(random.nextInt(2));
        Table to = from == both.get(0) ? both.get(1) : both.get(0);
        int payer = random.nextInt(ACCOUNTS);
        int payee = random.nextInt(ACCOUNTS);
        Map<String, Long> reads = new HashMap<>();
        Set<String> writes = new HashSet<>();
        long begunAt = history.now();
        long commit = 0;
        Transaction transaction = manager.begin(Isolation.SNAPSHOT);
        try (transaction) {
            long there = balance(from, transaction.get(from, key(payer)), reads);
            long here = balance(to, transaction.get(to, key(payee)), reads);
            put(transaction, from, payer, there - 1, writes);
            put(transaction, to, payee, here + 1, writes);
            commit = transaction.commit().value();
        } catch (AbortedException | TableException aborted) {
            reads.clear(); // whatever it has read, it was not told that this holds
        }
        history.add(new History.Transaction(
                begunAt, history.now(), transaction.start().value(), commit, writes, reads));
        note(commit > 0 ? 1 : 0);
    }

    private synchronized void note(int more) {
        committed += more;
        notifyAll();
    }

    private void readTotal(TransactionManager manager) {
        Map<String, Long> reads = new HashMap<>();
        long begunAt = history.now();
        try (Transaction transaction = manager.begin(Isolation.SNAPSHOT)) {
            long total = 0;
            for (Table table : both) {
                try (Rows rows = transaction.scan(table, Scan.ALL)) {
                    while (rows.hasNext()) {
                        total += balance(table, rows.next(), reads);
                    }
                }
            }
            assertEquals(2 * ACCOUNTS * BALANCE, total);
            long commit = transaction.commit().value();
            history.add(new History.Transaction(
                    begunAt, history.now(), transaction.start().value(), commit, Set.of(), reads));
        }
    }

    private void start(Runnable work) {
        threads.add(Thread.ofPlatform().start(() -> {
            try {
                while (!isOver) {
                    work.run();
                }
            } catch (RuntimeException | Error failure) {
                failures.add(failure);
                note(0);
            }
        }));
    }

    private void startAll() {
        for (int number = 0; number < CLIENTS; number++) {
            SplittableRandom random = new SplittableRandom(number);
            TransactionManager manager = new TransactionManager(oracle, tables);
            start(() -> transfer(manager, random));
        }
        TransactionManager reader = new TransactionManager(oracle, tables);
        start(() -> readTotal(reader));
        start(() -> {
            new Cleaner(oracle, tables).sweep();
            new Pruner(oracle, tables).prune();
        });
    }

    /// Goes on when so many transfers more have committed.
    private synchronized void awaitCommits(long more) throws InterruptedException {
        long until = committed + more;
        while (committed < until && failures.isEmpty()) {
            wait();
        }
        failures.forEach(failure -> {
            throw new AssertionError(failure);
        });
    }

    private void endAll() throws InterruptedException {
        isOver = true;
        for (Thread thread : threads) {
            thread.join();
        }
        assertEquals(List.of(), List.copyOf(failures));
        new Cleaner(oracle, tables).sweep();
        new Pruner(oracle, tables).prune();
        readTotal(new TransactionManager(oracle, tables));
        assertEquals(new Contents(2 * ACCOUNTS, 4 * ACCOUNTS, 0), Contents.of(tables));
        history.check();
        assertTrue(history.committed() > history.aborted(), history.committed() + " and " + history.aborted());
    }

    private static TableName name(Table table) {
        return TableName.valueOf(table.name());
    }

    private static List<HRegionLocation> regions(Table table) {
        return HBaseStore.connection()
                .getRegionLocator(name(table))
                .getAllRegionLocations()
                .join();
    }

    @Test
    void regionsMoveSplitAndAreCompacted() throws Exception {
        startAll();
        awaitCommits(50);
        for (Table table : both) {
            HRegionLocation region = regions(table).getFirst();
            ServerName other = HBaseStore.admin().getRegionServers().join().stream()
                    .filter(each -> !each.equals(region.getServerName()))
                    .findFirst()
                    .orElseThrow();
            HBaseStore.admin()
                    .move(region.getRegion().getEncodedNameAsBytes(), other)
                    .join();
        }
        awaitCommits(50);
        int before = regions(both.get(0)).size();
        HBaseStore.admin().split(name(both.get(0)), key(2).toArray()).join();
        while (HBaseStore.admin().getRegions(name(both.get(0))).join().size() == before) {
            Thread.onSpinWait();
        }
        awaitCommits(50);
        both.forEach(table -> HBaseStore.compact(name(table)));
        awaitCommits(50);
        endAll();
    }

    @Test
    void aRegionServerIsKilled() throws Exception {
        startAll();
        awaitCommits(50);
        Cluster.get().killRegionServer(0);
        awaitCommits(50);
        Cluster.get().hbase.restartRegionServer(0);
        awaitCommits(50);
        endAll();
    }
}
