package cedrat.oracle.tables;

import cedrat.oracle.client.ClientClosedException;
import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.UnavailableException;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.server.cluster.Links;
import cedrat.oracle.tables.AppendHistory.Entry;
import cedrat.oracle.tables.AppendHistory.Outcome;
import cedrat.oracle.tables.ListHistory.Operation;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicLong;

/// A client of a [NemesisWorld] that runs one transaction after the other, in one session after the other. One thread
/// runs it; others may call the methods that say so.
final class NemesisClient {
    private static final Duration SILENCE = Duration.ofMillis(100);
    private static final Duration SHORT_PATIENCE = Duration.ofMillis(300);
    private static final Duration LONG_PATIENCE = Duration.ofSeconds(30);
    private static final Duration RECONNECT_MIN = Duration.ofMillis(1);
    private static final Duration RECONNECT_MAX = Duration.ofMillis(20);

    /// Number of transactions after which clients use the next row.
    private static final int TRANSACTIONS_PER_ROW = 40;

    private static final int ROWS = 6;

    private final NemesisWorld world;
    private final int number;
    private final SplittableRandom random;
    private final AtomicLong commits = new AtomicLong();
    private volatile Session session;
    /// Client that was ended on purpose.
    private volatile OracleClient ended;

    /// A session and its way to the server.
    ///
    /// @param cleaner of the namespace that ends with it; `null` if it has none
    private record Session(Links.Link link, OracleClient oracle, List<TransactionManager> managers, Cleaner cleaner) {}

    NemesisClient(NemesisWorld world, int number, SplittableRandom random) {
        this.world = world;
        this.number = number;
        this.random = random;
    }

    /// Returns the options of a client of this link.
    static ClientOptions options(Links.Link link, boolean isPatient) {
        return ClientOptions.of(link.addresses())
                .withSilence(SILENCE)
                .withPatience(isPatient ? LONG_PATIENCE : SHORT_PATIENCE)
                .withReconnect(RECONNECT_MIN, RECONNECT_MAX);
    }

    /// Returns the number of committed transactions. Any thread may call.
    long commits() {
        return commits.get();
    }

    /// Returns its way to the server; `null` if it has no session. Any thread may call.
    Links.Link link() {
        Session present = session;
        return present == null ? null : present.link;
    }

    /// Ends its session: the server hears of it only if the link lets it. Any thread may call.
    void end(boolean isCut) {
        Session present = session;
        if (present != null) {
            ended = present.oracle;
            world.journal().record("client " + number + (isCut ? " is cut, and ends" : " ends"));
            if (isCut) {
                present.link.refuse();
            }
            present.oracle.close();
        }
    }

    /// Ends its last session, and its way to the server.
    void leave() throws IOException {
        Session last = session;
        last.oracle.close();
        last.link.close();
    }

    /// Lets the server hear of it. Any thread may call.
    void beHeard() {
        session.oracle.lowWaterMark();
    }

    void run() throws IOException {
        while (!world.isOver()) {
            if (session == null) {
                open();
            }
            try {
                transact();
                if (session.cleaner != null) {
                    session.cleaner.sweep();
                }
            } catch (ClientClosedException closed) {
                if (ended != session.oracle && closed.code() != ErrorCode.OTHER_ORACLE) {
                    throw closed;
                }
                forget();
            } catch (TableException refused) { // by tables of one oracle to a client of another
                session.oracle.close();
                forget();
            } catch (UnavailableException later) {
                // the next one may begin
            }
        }
    }

    /// Goes on in another session.
    private void forget() throws IOException {
        session.link.close();
        session = null;
    }

    private void open() throws IOException {
        Links.Link link = world.links().link();
        world.journal().record("client " + number + " has " + link);
        if (random.nextInt(10) == 0 && !world.isHealed()) {
            world.misdirect(link);
        }
        OracleClient oracle = OracleClient.open(options(link, number % 3 != 0));
        List<TransactionManager> managers = new ArrayList<>();
        for (Tables store : world.stores()) {
            managers.add(manager(oracle, store));
        }
        Cleaner cleaner = null;
        if (number % 8 == 0) {
            MemoryTables own = new MemoryTables(); // a namespace that ends with the session
            managers.add(manager(oracle, own));
            cleaner = new Cleaner(oracle, own);
        }
        session = new Session(link, oracle, managers, cleaner);
    }

    private TransactionManager manager(OracleClient oracle, Tables store) {
        Executor cleanUp = random.nextInt(4) == 0 ? World.NEVER : Runnable::run;
        return new TransactionManager(
                oracle, store, TransactionManager.Options.DEFAULTS.withCleanUp(cleanUp), world.fault());
    }

    /// Runs one transaction, which may write rows of all namespaces: each is named before.
    private void transact() {
        Session present = session;
        for (TransactionManager manager : present.managers) {
            manager.begin(world.isolation()).close();
        }
        long began = world.history().now();
        List<Operation> done = new ArrayList<>();
        Outcome outcome = Outcome.FAIL;
        Transaction transaction =
                present.managers.get(random.nextInt(present.managers.size())).begin(world.isolation());
        try {
            fill(transaction, done);
            if (random.nextInt(20) > 0) {
                outcome = Outcome.INFO;
                transaction.commit();
                outcome = Outcome.OK;
            }
        } catch (OutcomeUnknownException unknown) {
            outcome = random.nextBoolean() ? resolve(transaction) : Outcome.INFO;
        } catch (AbortedException | TableException aborted) {
            outcome = Outcome.FAIL;
        } finally {
            transaction.close();
            world.history().add(new Entry(number, began, world.history().now(), outcome, List.copyOf(done)));
        }
        if (outcome == Outcome.OK) {
            commits.incrementAndGet();
        }
    }

    private static Outcome resolve(Transaction transaction) {
        try {
            return transaction.resolve() == Transaction.State.COMMITTED ? Outcome.OK : Outcome.FAIL;
        } catch (OutcomeUnknownException still) {
            return Outcome.INFO;
        }
    }

    private static String key(long row) {
        return "%06d".formatted(row);
    }

    private void fill(Transaction transaction, List<Operation> done) {
        long first = world.nextTransaction() / TRANSACTIONS_PER_ROW;
        for (int read = random.nextInt(3); read > 0; read--) {
            read(transaction, table(), key(first + random.nextInt(ROWS)), done);
        }
        if (random.nextInt(4) == 0) {
            scan(transaction, table(), first, random.nextInt(1, 2 * ROWS), done);
        }
        Set<String> own = new HashSet<>();
        for (int append = random.nextInt(3); append > 0; append--) {
            Table table = table();
            String row = key(first + random.nextInt(ROWS));
            if (own.add(name(table, row))) {
                List<Long> list = read(transaction, table, row, done);
                long element = world.history().nextElement();
                transaction.put(table, Bytes.of(row), ListHistory.LIST, ListHistory.bytes(list, element));
                done.add(new Operation(name(table, row), null, element));
            }
        }
    }

    private Table table() {
        return world.tables().get(random.nextInt(world.tables().size()));
    }

    static String name(Table table, String row) {
        return table.name() + "/" + row;
    }

    private static List<Long> read(Transaction transaction, Table table, String row, List<Operation> done) {
        List<Long> list = ListHistory.list(
                transaction.get(table, Bytes.of(row), ListHistory.LIST).orElse(Bytes.EMPTY));
        done.add(new Operation(name(table, row), list, 0));
        return list;
    }

    /// Reads rows from the first one on, until the limit or the last row.
    private static void scan(Transaction transaction, Table table, long first, int limit, List<Operation> done) {
        long next = first;
        long found = 0;
        KeyRange range = new KeyRange(Bytes.of(key(first)), Bytes.of(key(first + ROWS)));
        try (Rows rows = transaction.scan(table, Scan.ALL.withRange(range).withLimit(limit))) {
            while (rows.hasNext()) {
                Row row = rows.next();
                long number = Long.parseLong(row.key().toText());
                noteMissing(table, next, number, done);
                done.add(new Operation(
                        name(table, key(number)),
                        ListHistory.list(row.get(ListHistory.LIST).orElseThrow()),
                        0));
                next = number + 1;
                found++;
            }
        }
        if (found < limit) {
            noteMissing(table, next, first + ROWS, done);
        }
    }

    private static void noteMissing(Table table, long from, long to, List<Operation> done) {
        for (long row = from; row < to; row++) {
            done.add(new Operation(name(table, key(row)), List.of(), 0));
        }
    }
}
