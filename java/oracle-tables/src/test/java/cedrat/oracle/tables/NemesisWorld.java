package cedrat.oracle.tables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.OracleException;
import cedrat.oracle.client.OracleIdentity;
import cedrat.oracle.client.StartTimestamp;
import cedrat.oracle.client.UnavailableException;
import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.server.CrashableServer;
import cedrat.oracle.server.CrashableServer.Figures;
import cedrat.oracle.server.cluster.Journal;
import cedrat.oracle.server.cluster.Links;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import java.util.random.RandomGenerator;

/// An oracle over a durable log, several namespaces of tables with cleaners and pruners, clients, and a
/// *nemesis*: a seed determines the faults, their order and the transactions of each client. Threads are scheduled by
/// the system, so that a seed repeats the faults, not each interleaving.
///
/// The verdict depends on no time: the nemesis and the checks wait only for progress.
public final class NemesisWorld implements AutoCloseable {
    private static final String SEED = "cedrat.nemesis.seed";
    private static final int STORES = 2;
    private static final int CLIENTS = 16;
    private static final int STEPS_BETWEEN_CALMS = 50;
    private static final int ROWS_LOG2_MIN = 8;
    private static final int ROWS_LOG2_MAX = 14;

    /// Time after which a wait for progress has failed.
    private static final Duration LIMIT = Duration.ofSeconds(60);

    private static final long POLL_NANOS = 1_000_000;

    private final SplittableRandom random;
    private final Setting setting;
    private final int rowsLog2;
    /// Number of the faults of servers, of ten drawn ones, that are injected: outcomes are forgotten only where servers
    /// last.
    private final int serverFaults;
    private final Plan plan;
    private final Isolation isolation;
    private final Interference interference;
    /// The faults and sessions of the run, for the case that it fails.
    private final Journal journal = new Journal();
    private final Links links;
    /// Client that opens the stores. Its link has no faults.
    private final OracleClient founder;
    private final AppendHistory history = new AppendHistory();
    private final AtomicLong transactions = new AtomicLong();
    private final List<Tables> stores = new ArrayList<>();
    private final List<Table> tables = new ArrayList<>();
    private final List<NemesisClient> clients = new ArrayList<>();
    private final List<Keeper> keepers = new ArrayList<>();
    private final List<Thread> threads = new ArrayList<>();
    private final ConcurrentLinkedQueue<Throwable> failures = new ConcurrentLinkedQueue<>();
    private final List<CrashableServer> replaced = new ArrayList<>();
    private CrashableServer server;
    /// Server of another oracle, as if the log of the first was wiped.
    private final CrashableServer other;
    /// Why a server has failed to start; `null` if none has.
    private IOException startProblem;
    private final AtomicLong forgotten = new AtomicLong();
    private int crashes;
    private int stops;
    private int replacements;
    private volatile boolean isHealed;
    private volatile boolean isOver;

    /// Parts of a world.
    ///
    /// @param test runs the history
    /// @param stores fresh, each of a namespace of its own
    /// @param logs returns an instance of the same log each time
    /// @param polls number of milliseconds within which some transactions commit, if there are no faults
    /// @param others faults of the stores and of the log
    @SuppressWarnings("exports") // the servers are those of tests
    public record Setting(Class<?> test, List<TestStore> stores, Supplier<Log> logs, int polls, OtherFaults others) {
        /// Returns the command that repeats the faults of a seed.
        private String command(long seed) {
            return "mvn --file java/pom.xml --projects "
                    + Path.of("").toAbsolutePath().getFileName()
                    + " --also-make -DexcludedGroups= -Dcedrat.library=" + System.getProperty("cedrat.library")
                    + " -Dtest=" + test.getSimpleName() + "#historiesHoldUnderRandomFaults"
                    + " -Dsurefire.failIfNoSpecifiedTests=false -D" + SEED + "=" + seed + " test";
        }
    }

    /// Faults of a particular store or log.
    public interface OtherFaults {
        /// Injects one.
        void inject(RandomGenerator random) throws Exception;

        /// Ends all.
        void heal() throws Exception;

        /// No faults.
        OtherFaults NONE = new OtherFaults() {
            @Override
            public String toString() {
                return "no others";
            }

            @Override
            public void inject(RandomGenerator random) {
                // none
            }

            @Override
            public void heal() {
                // none
            }
        };
    }

    /// Planted faults, and the time after which a wait for progress has failed.
    record Plan(Fault fault, String serverFault, Duration limit) {
        static final Plan NONE = new Plan(Fault.NONE, "NONE", LIMIT);

        Plan(Fault fault) {
            this(fault, "NONE", Duration.ofSeconds(10));
        }

        Plan(String serverFault) {
            this(Fault.NONE, serverFault, Duration.ofSeconds(10));
        }

        @Override
        public String toString() {
            return fault + "/" + serverFault;
        }
    }

    /// Starts a server, the clients and what keeps the tables.
    private NemesisWorld(long seed, Setting setting, Plan plan, Isolation isolation)
            throws IOException, DamagedEntryException {
        random = new SplittableRandom(seed);
        this.setting = setting;
        rowsLog2 = random.nextInt(ROWS_LOG2_MIN, ROWS_LOG2_MAX + 1);
        serverFaults = random.nextInt(11);
        this.plan = plan;
        this.isolation = isolation;
        interference = new Interference(random.nextLong());
        links = new Links(random.nextLong(), journal);
        startServer();
        other = CrashableServer.start(new VolatileLog(), rowsLog2, plan.serverFault);
        founder = OracleClient.open(NemesisClient.options(links.link(), true));
        setting.stores.forEach(this::addStore);
        for (int number = 0; number < CLIENTS; number++) {
            NemesisClient client = new NemesisClient(this, number, random.split());
            clients.add(client);
            start(client::run);
        }
        for (Tables store : stores) {
            Keeper keeper = new Keeper(store);
            keepers.add(keeper);
            start(keeper::run);
        }
    }

    private void addStore(TestStore store) {
        String prefix = (char) ('a' + stores.size()) + "-";
        store.open(founder);
        store.tables().bind(founder.identity().orElseThrow()); // before a client that is misdirected does
        store.create(prefix + "rows", Granularity.ROW, true);
        store.create(prefix + "cells", Granularity.CELL, true);
        Tables hooked = new HookedTables(new Lasting(store.tables()), interference);
        stores.add(hooked);
        tables.addAll(hooked.all());
    }

    /// Tables whose rows outlive the sessions of their clients.
    private record Lasting(Tables tables) implements Tables {
        @Override
        public Table table(String name) {
            return tables.table(name);
        }

        @Override
        public long namespace() {
            return tables.namespace();
        }

        @Override
        public void bind(OracleIdentity oracle) {
            tables.bind(oracle);
        }

        @Override
        public List<Table> all() {
            return tables.all();
        }

        @Override
        public Duration writesLast() {
            return Duration.ZERO;
        }
    }

    /// Returns a new seed, or the one that `-Dcedrat.nemesis.seed=` repeats.
    public static long seed() {
        return Long.getLong(SEED, new SecureRandom().nextLong());
    }

    /// Whether a seed is repeated.
    public static boolean isRepeated() {
        return System.getProperty(SEED) != null;
    }

    /// Fails if the history of this seed, or what follows it, is not as promised. Odd seeds are of serialisable
    /// transactions.
    ///
    /// @param name of the history that is judged
    public static void run(long seed, Setting setting, int steps, String name) throws Exception {
        run(seed, setting, Plan.NONE, steps, name);
    }

    /// The same, with planted faults.
    static void run(long seed, Setting setting, Plan plan, int steps, String name) throws Exception {
        Isolation isolation = seed % 2 == 0 ? Isolation.SNAPSHOT : Isolation.SERIALISABLE;
        try (NemesisWorld world = new NemesisWorld(seed, setting, plan, isolation)) {
            try {
                world.run(steps);
                world.heal();
                world.check();
                if (plan == Plan.NONE) {
                    world.write(name);
                }
            } catch (Exception | AssertionError problem) {
                String state = plan == Plan.NONE ? world.explain(seed) : "";
                throw new AssertionError(
                        "-D" + SEED + "=" + seed + " (" + world + "): " + problem.getMessage() + "\nto repeat: "
                                + setting.command(seed) + state,
                        problem);
            } finally {
                System.out.println("seed " + seed + ", " + plan + ", " + isolation + ": " + world);
            }
        }
    }

    /// Writes the newest events to a file. Returns its name, and the state of the server.
    private String explain(long seed) throws IOException {
        Path file = Files.createDirectories(Path.of("target", "nemesis")).resolve(seed + ".txt");
        Files.writeString(file, journal.toString());
        String events = "\nevents: " + file.toAbsolutePath() + "\n";
        try {
            return events + (server == null ? "no server" : server.describe());
        } catch (RuntimeException stopped) {
            return events + "the server has stopped: " + stopped.getMessage();
        }
    }

    private interface Work {
        void run() throws Exception;
    }

    private void start(Work work) {
        threads.add(Thread.ofPlatform().daemon().start(() -> {
            try {
                work.run();
            } catch (Throwable problem) {
                failures.add(problem);
            }
        }));
    }

    // ---- for clients ------------------------------------------------------------------------------------------------

    boolean isOver() {
        return isOver;
    }

    /// Whether all faults have ended.
    boolean isHealed() {
        return isHealed;
    }

    Isolation isolation() {
        return isolation;
    }

    AppendHistory history() {
        return history;
    }

    List<Tables> stores() {
        return stores;
    }

    List<Table> tables() {
        return tables;
    }

    Links links() {
        return links;
    }

    Journal journal() {
        return journal;
    }

    /// Leads a link to the server of another oracle. Any thread may call.
    void misdirect(Links.Link link) {
        journal.record(link + " leads to another oracle");
        link.lead(other.address());
    }

    Fault fault() {
        return plan.fault;
    }

    /// Returns the number of transactions that have begun before.
    long nextTransaction() {
        return transactions.getAndIncrement();
    }

    /// Cleans and prunes the tables of a namespace, until the world is over.
    private final class Keeper {
        private final Tables store;
        private final Links.Link link;
        private final OracleClient oracle;

        Keeper(Tables store) throws IOException {
            this.store = store;
            link = links.link();
            journal.record("a keeper has " + link);
            oracle = OracleClient.open(NemesisClient.options(link, false));
        }

        void run() {
            Cleaner cleaner = new Cleaner(oracle, store, System::nanoTime, plan.fault);
            Pruner pruner = new Pruner(oracle, store, plan.fault);
            while (!isOver) {
                try {
                    forgotten.addAndGet(cleaner.sweep().forgotten());
                    pruner.prune();
                } catch (TableException | UnavailableException again) {
                    // the next sweep cleans what this one has left
                }
                LockSupport.parkNanos(POLL_NANOS);
            }
        }
    }

    // ---- the nemesis ------------------------------------------------------------------------------------------------

    private void startServer() throws IOException, DamagedEntryException {
        server = CrashableServer.start(setting.logs.get(), rowsLog2, plan.serverFault);
        journal.record("server starts on port " + server.address().getPort() + " with " + server.figures());
        lead();
    }

    /// Starts a server as a supervisor does: a later attempt may open a log whose bookies are away now.
    private void tryToStart() throws DamagedEntryException {
        try {
            startServer();
        } catch (IOException problem) {
            startProblem = problem;
            journal.record("server does not start: " + problem);
            server = null;
            lead();
        }
    }

    /// Ends a server that has stopped by itself.
    private void endStopped() throws IOException {
        if (server != null && server.isStopped()) {
            stops++;
            journal.record("server has stopped by itself");
            server.close();
            server = null;
            lead();
        }
    }

    private void lead() {
        links.leadTo(
                server == null ? null : server.address(),
                replaced.isEmpty() ? null : replaced.getLast().address());
    }

    /// Injects so many faults, and lets transactions run between them.
    private void run(int steps) throws Exception {
        for (int step = 1; step <= steps && failures.isEmpty(); step++) {
            endStopped();
            if (server == null && random.nextInt(3) == 0) {
                tryToStart();
            }
            inject(random.nextInt(100));
            awaitTransactions(random.nextInt(40), 1);
            if (step % STEPS_BETWEEN_CALMS == 0) {
                calm();
            }
        }
        assertEquals(List.of(), List.copyOf(failures));
    }

    /// Waits until so many more transactions have begun, or it was polled so often: clients may have no server.
    private void awaitTransactions(int count, int polls) {
        long end = transactions.get() + count;
        for (int poll = 0; poll < polls * setting.polls && transactions.get() < end; poll++) {
            LockSupport.parkNanos(POLL_NANOS);
        }
    }

    private void inject(int drawn) throws Exception {
        if (drawn < 50) {
            injectIntoLink(drawn);
        } else if (drawn < 60) {
            injectIntoServer();
        } else if (drawn < 61) {
            journal.record("the disk is full");
            server().ifPresent(CrashableServer::fillDisk);
        } else if (drawn < 65) {
            journal.record("the disk stops");
            server().ifPresent(CrashableServer::holdLog);
        } else if (drawn < 72) {
            journal.record("the disk goes on");
            server().ifPresent(CrashableServer::releaseLog);
        } else if (drawn < 80) {
            tick(1);
        } else if (drawn < 81) {
            tick(CrashableServer.TICKS + 1);
        } else if (drawn < 84) {
            suspendPastExpiry();
        } else if (drawn < 87) {
            interference.set(random.nextInt(60), random.nextInt(6));
        } else if (drawn < 90) {
            interference.set(0, random.nextInt(6));
        } else if (drawn < 91) {
            interference.deliver();
        } else if (drawn < 93) {
            interference.resume();
        } else if (drawn < 97) {
            setting.others.inject(random);
            journal.record(setting.others.toString());
        } else {
            client().end(random.nextInt(3) > 0);
        }
    }

    private Optional<CrashableServer> server() {
        return Optional.ofNullable(server);
    }

    private NemesisClient client() {
        return clients.get(random.nextInt(clients.size()));
    }

    /// Returns the link of a client, or of what keeps a namespace; `null` if it has none now.
    private Links.Link link(int number) {
        return number < CLIENTS ? clients.get(number).link() : keepers.get(number - CLIENTS).link;
    }

    private void injectIntoLink(int drawn) {
        int number = random.nextInt(CLIENTS + STORES);
        Links.Link link = link(number);
        int bytes = random.nextInt(1, 200);
        if (link == null) {
            return;
        }
        journal.record("fault " + drawn / 5 + " of " + link);
        switch (drawn / 5) {
            case 0 -> link.cut();
            case 1 -> {
                if (number < CLIENTS) {
                    misdirect(link);
                } else {
                    link.cut();
                }
            }
            case 2 -> link.cutAfter(bytes);
            case 3 -> link.hold(Links.Direction.REQUESTS);
            case 4 -> link.hold(Links.Direction.REPLIES);
            case 5 -> link.refuse();
            case 6 -> link.release();
            case 7, 8 -> link.heal();
            default -> links.heal();
        }
    }

    private void injectIntoServer() throws IOException, DamagedEntryException {
        int drawn = random.nextInt(5);
        if (server == null || random.nextInt(10) >= serverFaults) {
            return;
        }
        if (drawn < 2) {
            replace();
        } else if (drawn == 2 && !replaced.isEmpty()) {
            endReplaced();
        } else if (drawn == 3 && !replaced.isEmpty()) {
            journal.record("a replaced server hears of its log");
            replaced.getLast().wake();
        } else {
            crashes++;
            journal.record("server crashes");
            server.crash(random);
            server = null;
            lead();
        }
    }

    /// Replaces the server, while an append of it may be under way. Its acknowledgement may come late: when others have
    /// committed by the next server, and clients wait for answers of both.
    private void replace() throws IOException, DamagedEntryException {
        if (random.nextBoolean()) {
            server.holdLog();
            awaitTransactions(2, 1);
        }
        journal.record("server is replaced");
        server.fence(random);
        replaced.add(server);
        replacements++;
        tryToStart();
        if (random.nextBoolean()) {
            awaitTransactions(100, 20);
            replaced.getLast().wake();
        }
    }

    /// Suspends a client, or what cleans and prunes a namespace, until its session has expired and others have gone on.
    private void suspendPastExpiry() {
        int number = random.nextInt(CLIENTS + STORES);
        Links.Link link = link(number);
        if (link == null) {
            return;
        }
        journal.record("suspends the thread of " + link + " past the expiry of its session");
        interference.suspend(threads.get(number));
        link.hold(Links.Direction.REQUESTS);
        link.hold(Links.Direction.REPLIES);
        for (int tick = 0; tick <= CrashableServer.TICKS; tick++) {
            awaitTransactions(10, 1);
            tick(1);
        }
        awaitTransactions(60, 6);
        if (number < CLIENTS && random.nextBoolean()) {
            clients.get(number).end(true);
        }
        if (random.nextBoolean()) {
            link.release();
            interference.resume();
        }
    }

    private void endReplaced() throws IOException {
        journal.record("a replaced server ends");
        replaced.removeLast().close();
        lead();
    }

    /// Ends the faults of the network and the disk for a moment, so that sessions expire and sweeps end.
    private void calm() throws IOException, DamagedEntryException {
        journal.record("a calm begins");
        links.heal();
        interference.set(0, 0);
        interference.resume();
        if (server == null) {
            tryToStart();
        }
        server().ifPresent(CrashableServer::releaseLog);
        for (int tick = 0; tick <= CrashableServer.TICKS; tick++) {
            awaitTransactions(CLIENTS, 1);
            tick(1);
        }
        awaitTransactions(4 * CLIENTS, 2);
    }

    private void tick(int count) {
        journal.record(count + " ticks");
        for (int tick = 0; tick < count; tick++) {
            server().ifPresent(CrashableServer::tick);
            replaced.forEach(CrashableServer::tick);
        }
    }

    // ---- afterwards -------------------------------------------------------------------------------------------------

    /// Ends all faults, and fails if not all goes on: each client commits, the low-water mark passes all transactions
    /// there were, and the oracle forgets all outcomes and sessions. Then the tables are judged.
    private void heal() throws Exception {
        journal.record("all faults end");
        isHealed = true;
        interference.calm();
        setting.others.heal();
        endStopped();
        while (!replaced.isEmpty()) {
            endReplaced();
        }
        await("server starts", () -> server != null);
        server.releaseLog();
        links.heal();
        for (NemesisClient client : clients) {
            long before = client.commits();
            await("client commits again", () -> client.commits() > before + 1);
        }
        isOver = true;
        for (Thread thread : threads) {
            thread.join(plan.limit);
            assertTrue(!thread.isAlive(), "a client waits for an answer");
        }
        assertEquals(List.of(), List.copyOf(failures));
        interference.deliver();
        try (OracleClient probe = OracleClient.open(ClientOptions.of(server.address()))) {
            journal.record("the low-water mark is to pass");
            awaitLowWaterMark(probe);
            journal.record("all clients end");
            for (NemesisClient client : clients) {
                client.leave();
            }
            for (Keeper keeper : keepers) {
                keeper.oracle.close();
                keeper.link.close();
            }
            journal.record("sweeps begin");
            checkMemory(probe);
            assertEquals(0, other.figures().newest(), "timestamps are issued by another oracle");
        }
    }

    /// Ends what no living client knows of, and waits until the mark passes the transactions that there were.
    /// What a client has sent over a connection that it had left may begin a session at any time, which
    /// expires.
    private void awaitLowWaterMark(OracleClient probe) throws Exception {
        StartTimestamp mark = probe.begin();
        probe.end(mark);
        await("low-water mark passes " + mark.value() + ", and no transaction is open", () -> {
            clients.forEach(NemesisClient::beHeard);
            tickBeside(probe);
            return probe.lowWaterMark().value() > mark.value()
                    && server.figures().open() == 0;
        });
    }

    /// Lets a part of the session timeout pass, for all but the clients without faults.
    private void tickBeside(OracleClient probe) {
        founder.lowWaterMark();
        probe.lowWaterMark();
        server.tick();
    }

    private void checkMemory(OracleClient probe) throws Exception {
        await("sweep makes the oracle forget all outcomes, and sessions end", () -> {
            tickBeside(probe);
            for (Tables store : stores) {
                new Cleaner(probe, store).sweep();
            }
            Figures figures = server.figures();
            return figures.outcomes() == 0 && figures.sessions() == 2;
        });
        for (int number = 0; number < STORES; number++) {
            new Pruner(probe, stores.get(number)).prune();
            Contents contents = Contents.of(setting.stores.get(number).tables());
            assertEquals(
                    new Contents(contents.rows(), contents.rows(), 0, 0), contents, "rows have one version, settled");
        }
    }

    /// Writes the history to where `./x test` judges it.
    private void write(String name) throws IOException {
        history.write(isolation == Isolation.SNAPSHOT ? "strong-snapshot-isolation" : "strict-serializable", name);
    }

    private void await(String what, Callable<Boolean> condition) throws Exception {
        long end = System.nanoTime() + plan.limit.toNanos();
        while (true) {
            assertEquals(List.of(), List.copyOf(failures));
            try {
                if (condition.call()) {
                    return;
                }
            } catch (OracleException later) {
                // no answer yet
            }
            endStopped();
            if (server == null) {
                tryToStart();
            }
            assertTrue(
                    System.nanoTime() - end < 0,
                    () -> "waited for " + plan.limit + " until a " + what + "; newest failed start: " + startProblem);
            LockSupport.parkNanos(POLL_NANOS);
        }
    }

    /// Fails if the history violates the isolation level.
    private void check() {
        AppendCheck.check(history, isolation, lists());
    }

    /// Returns the final lists, from the tables alone.
    private Map<String, List<Long>> lists() {
        Map<String, List<Long>> lists = new HashMap<>();
        for (TestStore store : setting.stores) {
            for (Table table : store.tables().all()) {
                try (StoredRows rows = table.scan(KeyRange.ALL, Set.of(), Long.MAX_VALUE)) {
                    while (rows.hasNext()) {
                        StoredRow row = rows.next();
                        Bytes newest =
                                row.versions().get(ListHistory.LIST).lastEntry().getValue();
                        lists.put(
                                NemesisClient.name(table, row.key().toText()), ListHistory.list(Values.value(newest)));
                    }
                }
            }
        }
        return lists;
    }

    @Override
    public String toString() {
        return history.count(AppendHistory.Outcome.OK) + " committed, "
                + history.count(AppendHistory.Outcome.FAIL) + " aborted, "
                + history.count(AppendHistory.Outcome.INFO) + " unknown; "
                + links + "; " + interference + "; " + crashes + " crashes, " + stops + " servers stopped, "
                + replacements + " servers replaced, "
                + forgotten + " outcomes forgotten; "
                + setting.others;
    }

    @Override
    public void close() throws IOException {
        isOver = true;
        interference.calm();
        clients.forEach(client -> client.end(true));
        keepers.forEach(keeper -> keeper.oracle.close());
        founder.close();
        links.close();
        while (!replaced.isEmpty()) {
            endReplaced();
        }
        other.close();
        if (server != null) {
            server.close();
        }
    }
}
