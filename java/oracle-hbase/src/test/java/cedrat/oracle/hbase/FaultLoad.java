package cedrat.oracle.hbase;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.StartTimestamp;
import cedrat.oracle.tables.AbortedException;
import cedrat.oracle.tables.Bytes;
import cedrat.oracle.tables.Cleaner;
import cedrat.oracle.tables.Column;
import cedrat.oracle.tables.Contents;
import cedrat.oracle.tables.History;
import cedrat.oracle.tables.Isolation;
import cedrat.oracle.tables.ListClient;
import cedrat.oracle.tables.ListHistory;
import cedrat.oracle.tables.Pruner;
import cedrat.oracle.tables.Row;
import cedrat.oracle.tables.Rows;
import cedrat.oracle.tables.Scan;
import cedrat.oracle.tables.Table;
import cedrat.oracle.tables.TableException;
import cedrat.oracle.tables.Tables;
import cedrat.oracle.tables.Transaction;
import cedrat.oracle.tables.TransactionManager;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;

/// Clients of two tables, and what they have seen: some move money between accounts, one of them between many
/// at a time, two slowly, one of which others overtake; one adds all balances up; others read lists and append
/// to them, under snapshot isolation and serialisable. There are more accounts than the oracle remembers rows:
/// T_max moves all the time, and passes the slow ones.
final class FaultLoad {
    /// The oracle is to remember so many rows: fewer than there are accounts.
    static final int ROWS_LOG2 = 8;

    /// In each table. Transfers between many are between the first of them, then come those of the payers,
    /// then those of the slow one and of the overtaken one: they meet those of their own kind.
    private static final int ACCOUNTS = 200;

    private static final int OF_MANY = 140;
    private static final int OF_THE_SLOW = 180;
    private static final int OF_THE_OVERTAKEN = 190;

    private static final int PAYERS = 2;
    private static final long BALANCE = 1000;

    /// Number of accounts of each table in a transfer between many.
    private static final int MANY = 20;

    /// Number of these that commit while a slow transfer is open: they write more rows than the oracle remembers,
    /// each once.
    private static final int SLOWNESS = OF_MANY / MANY;

    static {
        assertTrue(2 * OF_MANY > 1 << ROWS_LOG2);
    }

    private static final Column MONEY = Column.of("f", "money");
    private static final Column WRITER = Column.of("f", "writer");

    private static final Map<Isolation, String> MODELS =
            Map.of(Isolation.SNAPSHOT, "strong-snapshot-isolation", Isolation.SERIALISABLE, "strict-serializable");

    private final OracleClient oracle;
    private final Tables tables;
    private final List<Table> both;
    private final History history = new History();
    /// Transactions that the oracle has aborted: not for a store that did not answer.
    private final Set<Long> refused = ConcurrentHashMap.newKeySet();

    private final Map<Isolation, ListHistory> lists = new EnumMap<>(Isolation.class);
    private final ConcurrentLinkedQueue<Throwable> failures = new ConcurrentLinkedQueue<>();
    private final List<Thread> threads = new ArrayList<>();
    private volatile boolean isOver;
    /// Guarded by this.
    private long committed;
    /// Guarded by this.
    private long committedByMany;
    /// Number of transfers that aborted because of T_max. Guarded by this.
    private long overtaken;

    /// Opens all accounts.
    FaultLoad(OracleClient oracle, Tables tables) {
        this.oracle = oracle;
        this.tables = tables;
        both = tables.all();
        for (Isolation isolation : Isolation.values()) {
            lists.put(isolation, new ListHistory());
        }
        TransactionManager manager = new TransactionManager(oracle, tables);
        // Fewer rows than the oracle remembers, at a time.
        for (int first = 0; first < ACCOUNTS; first += 40) {
            Set<String> writes = new HashSet<>();
            long begunAt = history.now();
            Transaction transaction = manager.begin(Isolation.SNAPSHOT);
            for (Table table : both) {
                for (int account = first; account < first + 40; account++) {
                    put(transaction, table, account, BALANCE, writes);
                }
            }
            long commit = transaction.commit().value();
            history.add(new History.Transaction(
                    begunAt, history.now(), transaction.start().value(), commit, writes, Map.of()));
        }
    }

    List<Table> both() {
        return both;
    }

    static Bytes key(int account) {
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

    /// Moves one from each payer in one table to the payee beside it in the other, and says whether it has. A
    /// store that fails aborts it.
    private boolean transfer(
            TransactionManager manager, Table from, List<Integer> payers, List<Integer> payees, Runnable before) {
        Table to = from == both.get(0) ? both.get(1) : both.get(0);
        Map<String, Long> reads = new HashMap<>();
        Set<String> writes = new HashSet<>();
        long begunAt = history.now();
        long commit = 0;
        Transaction transaction = manager.begin(Isolation.SNAPSHOT);
        try (transaction) {
            for (int index = 0; index < payers.size(); index++) {
                int payer = payers.get(index);
                int payee = payees.get(index);
                long there = balance(from, transaction.get(from, key(payer)), reads);
                long here = balance(to, transaction.get(to, key(payee)), reads);
                put(transaction, from, payer, there - 1, writes);
                put(transaction, to, payee, here + 1, writes);
            }
            before.run();
            commit = transaction.commit().value();
        } catch (AbortedException aborted) {
            refused.add(transaction.start().value());
        } catch (TableException lost) {
            reads.clear(); // its reads were never confirmed
        }
        history.add(new History.Transaction(
                begunAt, history.now(), transaction.start().value(), commit, writes, reads));
        return commit > 0;
    }

    /// Between two of the accounts from one on and before another.
    private void transferSome(TransactionManager manager, SplittableRandom random, int from, int to, Runnable before) {
        List<Integer> payer = List.of(random.nextInt(from, to));
        List<Integer> payee = List.of(random.nextInt(from, to));
        note(transfer(manager, both.get(random.nextInt(2)), payer, payee, before), false);
    }

    /// Between many accounts, others each time until all have had their turn.
    private void transferMany(TransactionManager manager, int turn) {
        List<Integer> accounts = new ArrayList<>();
        for (int index = 0; index < MANY; index++) {
            accounts.add((turn * MANY + index) % OF_MANY);
        }
        note(transfer(manager, both.get(turn % 2), accounts, accounts, () -> {}), true);
    }

    /// Transfers slowly, between accounts that other transfers change meanwhile. At its commit the oracle has
    /// forgotten their rows: only T_max shows that a row it has read was written.
    private void transferOvertaken(TransactionManager manager, SplittableRandom random) {
        Table from = both.get(random.nextInt(2));
        List<Integer> account = List.of(random.nextInt(OF_THE_OVERTAKEN, ACCOUNTS));
        boolean hasCommitted = transfer(manager, from, account, account, () -> {
            boolean isOvertaken = transfer(manager, from, account, account, () -> {});
            note(isOvertaken, false);
            boolean isPassed = awaitMany();
            noteOvertaken(isOvertaken && isPassed);
        });
        note(hasCommitted, false);
    }

    private synchronized void noteOvertaken(boolean isSo) {
        overtaken += isSo ? 1 : 0;
        notifyAll();
    }

    private synchronized void awaitOvertaken() throws InterruptedException {
        while (overtaken == 0 && failures.isEmpty()) {
            wait();
        }
    }

    private synchronized void note(boolean hasCommitted, boolean ofMany) {
        committed += hasCommitted ? 1 : 0;
        committedByMany += hasCommitted && ofMany ? 1 : 0;
        notifyAll();
    }

    /// Returns whether so many have committed; not if all is over before.
    private synchronized boolean awaitMany() {
        long until = committedByMany + SLOWNESS;
        try {
            while (committedByMany < until && !isOver && failures.isEmpty()) {
                wait();
            }
            return committedByMany >= until;
        } catch (InterruptedException unexpected) {
            throw new AssertionError(unexpected);
        }
    }

    private void readTotal(TransactionManager manager) {
        Map<String, Long> reads = new HashMap<>();
        long begunAt = history.now();
        try (Transaction transaction = manager.begin(Isolation.SNAPSHOT)) {
            long total = 0;
            for (Table table : both) {
                try (Rows rows = transaction.scan(table, Scan.ALL.withColumns(Set.of(MONEY, WRITER)))) {
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
                note(false, false);
            }
        }));
    }

    /// Starts all clients.
    void start() {
        TransactionManager manager = new TransactionManager(oracle, tables);
        for (int number = 0; number < PAYERS; number++) {
            SplittableRandom random = new SplittableRandom(number);
            start(() -> transferSome(manager, random, OF_MANY, OF_THE_SLOW, () -> {}));
        }
        SplittableRandom slowly = new SplittableRandom(PAYERS);
        start(() -> transferSome(manager, slowly, OF_THE_SLOW, OF_THE_OVERTAKEN, this::awaitMany));
        SplittableRandom more = new SplittableRandom(PAYERS + 1);
        start(() -> transferOvertaken(manager, more));
        int[] turn = new int[1];
        start(() -> transferMany(manager, turn[0]++));
        start(() -> readTotal(manager));
        lists.forEach((isolation, seen) -> {
            for (int number = 0; number < 2; number++) {
                ListClient client = ListProcess.client(seen::add, number, isolation, both);
                start(() -> client.run(manager));
            }
        });
        start(() -> {
            new Cleaner(oracle, tables).sweep();
            new Pruner(oracle, tables).prune();
        });
    }

    /// Goes on when so many transfers more have committed.
    synchronized void awaitCommits(long more) throws InterruptedException {
        long until = committed + more;
        while (committed < until && failures.isEmpty()) {
            wait();
        }
        failures.forEach(failure -> {
            throw new AssertionError(failure);
        });
    }

    /// Adds the list operations that a process has reported.
    void add(Isolation isolation, Path said) throws Exception {
        lists.get(isolation).addAll(said);
    }

    /// Ends all clients.
    void end() throws InterruptedException {
        isOver = true;
        note(false, false);
        for (Thread thread : threads) {
            thread.join();
        }
        threads.clear();
    }

    private long newest() {
        StartTimestamp start = oracle.begin();
        oracle.end(start);
        return start.value();
    }

    /// Judges what they have seen, and leaves what the black-box judge is to look at under this name.
    void judge(String name) throws Exception {
        awaitOvertaken();
        end();
        assertEquals(List.of(), List.copyOf(failures));
        lists.values().forEach(seen -> seen.resolve(oracle));
        // What was open when its client was killed holds the low-water mark until its session is over.
        while (oracle.lowWaterMark().value() < newest()) {
            Thread.onSpinWait();
        }
        new Cleaner(oracle, tables).sweep();
        new Pruner(oracle, tables).prune();
        TransactionManager manager = new TransactionManager(oracle, tables);
        readTotal(manager);
        long listCount = 0;
        for (Map.Entry<Isolation, ListHistory> each : lists.entrySet()) {
            Isolation isolation = each.getKey();
            ListProcess.client(each.getValue()::add, -1, isolation, both).readAll(manager);
            each.getValue().check();
            each.getValue().write(name, MODELS.get(isolation));
            listCount += (long) both.size() * ListProcess.rows(isolation).size();
        }
        assertEquals(new Contents(2 * ACCOUNTS + listCount, 4 * ACCOUNTS + listCount, 0, 0), Contents.of(tables));
        history.check();
        assertTrue(history.committed() > history.aborted(), history.committed() + " and " + history.aborted());
        assertTrue(history.abortedAlone(refused) > 0, "T_max has aborted no transaction");
    }
}
