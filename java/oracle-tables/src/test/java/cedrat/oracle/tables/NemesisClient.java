package cedrat.oracle.tables;

import cedrat.oracle.authentication.Credentials;
import cedrat.oracle.client.ClientClosedException;
import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.StartTimestamp;
import cedrat.oracle.client.UnavailableException;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.server.cluster.Links;
import cedrat.oracle.tables.AppendHistory.Entry;
import cedrat.oracle.tables.AppendHistory.Outcome;
import cedrat.oracle.tables.ListHistory.Operation;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.random.RandomGenerator;

/// A client of a [NemesisWorld] that runs one transaction after the other, each in one of its sessions, which are
/// replaced as they end. One thread runs it; others may call the methods that say so.
final class NemesisClient {
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
    private final AtomicReferenceArray<Session> sessions;
    /// Whether sessions without a commit have their turn first.
    private volatile boolean isCounting;

    /// A session and its way to the server.
    private static final class Session {
        final Links.Link link;
        final OracleClient oracle;
        final List<TransactionManager> managers = new ArrayList<>();
        /// Cleaner of the namespace that ends with it; `null` if it has none.
        Cleaner cleaner;
        /// Whether it has committed since the counting began.
        volatile boolean hasCommitted;
        /// Whether it was ended on purpose.
        volatile boolean isEnded;

        Session(Links.Link link, OracleClient oracle) {
            this.link = link;
            this.oracle = oracle;
        }
    }

    /// A client with so many sessions.
    NemesisClient(NemesisWorld world, int number, int sessions, SplittableRandom random) {
        this.world = world;
        this.number = number;
        this.random = random;
        this.sessions = new AtomicReferenceArray<>(sessions);
    }

    /// Returns the options of a client with a way to the server over these addresses.
    static ClientOptions options(
            InetSocketAddress[] addresses, Duration silence, boolean isPatient, Optional<Credentials> credentials) {
        ClientOptions options = ClientOptions.of(addresses)
                .withSilence(silence)
                .withPatience(isPatient ? LONG_PATIENCE : SHORT_PATIENCE)
                .withReconnect(RECONNECT_MIN, RECONNECT_MAX);
        return credentials.isPresent() ? options.withCredentials(credentials.get()) : options;
    }

    /// Forgets which sessions have committed. Any thread may call.
    void beginCounting() {
        for (int index = 0; index < sessions.length(); index++) {
            Session session = sessions.get(index);
            if (session != null) {
                session.hasCommitted = false;
            }
        }
        isCounting = true;
    }

    /// Whether each of its sessions has committed since the counting began. Any thread may call.
    boolean hasCommittedAgain() {
        isCounting = without() < sessions.length();
        return !isCounting;
    }

    /// Returns the number of the first session without a commit; the number of all if there is none.
    private int without() {
        int index = 0;
        while (index < sessions.length() && sessions.get(index) != null && sessions.get(index).hasCommitted) {
            index++;
        }
        return index;
    }

    /// Returns the way of one of its sessions to the server; `null` if there is none now. Any thread may call.
    Links.Link link(RandomGenerator choice) {
        Session session = sessions.get(choice.nextInt(sessions.length()));
        return session == null ? null : session.link;
    }

    /// Ends one of its sessions: the server hears of it only if the link lets it. Any thread may call.
    void end(RandomGenerator choice) {
        Session session = sessions.get(choice.nextInt(sessions.length()));
        boolean isCut = choice.nextInt(3) > 0;
        if (session != null) {
            world.journal()
                    .record("the session of client " + number + " over " + session.link
                            + (isCut ? " is cut, and ends" : " ends"));
            end(session, isCut);
        }
    }

    private static void end(Session session, boolean isCut) {
        session.isEnded = true;
        if (isCut) {
            session.link.refuse();
        }
        session.oracle.close();
    }

    /// Ends all its sessions without a word to the server. Any thread may call.
    void endAll() {
        for (int index = 0; index < sessions.length(); index++) {
            Session session = sessions.get(index);
            if (session != null) {
                end(session, true);
            }
        }
    }

    /// Ends its last sessions, and their ways to the server.
    void leave() throws IOException {
        for (int index = 0; index < sessions.length(); index++) {
            Session last = sessions.get(index);
            last.oracle.close();
            last.link.close();
        }
    }

    /// Lets the server hear of its sessions. Any thread may call.
    void beHeard() {
        List<CompletableFuture<StartTimestamp>> heard = new ArrayList<>();
        for (int index = 0; index < sessions.length(); index++) {
            heard.add(sessions.get(index).oracle.lowWaterMarkAsync());
        }
        heard.forEach(CompletableFuture::join);
    }

    void run() throws IOException {
        while (!world.isOver()) {
            int drawn = random.nextInt(sessions.length());
            int first = isCounting ? without() : drawn;
            int index = first < sessions.length() ? first : drawn;
            Session session = sessions.get(index);
            if (session == null) {
                session = open();
                sessions.set(index, session);
            }
            try {
                transact(session);
                if (session.cleaner != null) {
                    session.cleaner.sweep();
                }
            } catch (ClientClosedException closed) {
                if (!session.isEnded && !mayHappen(closed.code())) {
                    throw closed;
                }
                forget(index);
            } catch (TableException refused) { // by tables of one oracle to a client of another
                session.oracle.close();
                forget(index);
            } catch (UnavailableException later) {
                // the next one may begin
            }
        }
    }

    /// Whether a session may have been refused for this reason.
    private boolean mayHappen(ErrorCode code) {
        return code == ErrorCode.OTHER_ORACLE
                || code == ErrorCode.AUTHENTICATION && world.access().isFaulty();
    }

    /// Goes on in another session.
    private void forget(int index) throws IOException {
        sessions.get(index).link.close();
        sessions.set(index, null);
    }

    private Session open() throws IOException {
        Links.Link link = world.links().link();
        world.journal().record("client " + number + " has " + link);
        if (random.nextInt(10) == 0 && !world.isHealed()) {
            world.misdirect(link);
        }
        ClientOptions options = options(
                link.addresses(),
                world.silence(),
                number % 3 != 0,
                world.access().credentials(number));
        Session session = new Session(link, OracleClient.open(options));
        for (Tables store : world.stores()) {
            session.managers.add(manager(session.oracle, store));
        }
        if (number % 8 == 0) {
            MemoryTables own = new MemoryTables(); // a namespace that ends with the session
            session.managers.add(manager(session.oracle, own));
            session.cleaner = new Cleaner(session.oracle, own);
        }
        return session;
    }

    private TransactionManager manager(OracleClient oracle, Tables store) {
        Executor cleanUp = random.nextInt(4) == 0 ? World.NEVER : Runnable::run;
        CleanUps again = new CleanUps(oracle, store, CleanUps.Timer.BACKGROUND, world.clock());
        return new TransactionManager(
                oracle, store, World.anyBuffer(random).withCleanUp(cleanUp), again, world.fault());
    }

    /// Runs one transaction, which may write rows of all namespaces: each is named before.
    private void transact(Session present) {
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
            present.hasCommitted = true;
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
