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
import cedrat.oracle.server.CrashableServer;
import cedrat.oracle.server.CrashableServer.Figures;
import cedrat.oracle.server.ServerOptions;
import cedrat.oracle.server.cluster.Journal;
import cedrat.oracle.server.cluster.Links;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import java.util.random.RandomGenerator;
import java.util.stream.Collectors;

/// An oracle over a durable log, several namespaces of tables with cleaners and pruners, clients, and a
/// *nemesis*: a seed determines the faults, their order and the transactions of each client. Threads are scheduled by
/// the system, so that a seed repeats the faults, not each interleaving.
///
/// The verdict depends on no time: the nemesis and the checks wait only for progress.
public final class NemesisWorld implements AutoCloseable {
    private static final String SEED = "cedrat.nemesis.seed";
    private static final int STORES = 2;
    /// Number of clients, from 0 on.
    static final int CLIENTS = 16;
    /// Number of clients, and of what keeps a namespace: the numbers after those of the clients.
    static final int MEMBERS = CLIENTS + STORES;
    /// Number of sessions of each client, in a part of the histories.
    private static final int SESSIONS_MANY = 13;
    /// Time for which writes may arrive late, in a part of the histories: only a clock that jumps reaches it.
    private static final Duration WRITES_LAST = Duration.ofHours(1);
    private static final int ROWS_LOG2_MIN = 8;
    private static final int ROWS_LOG2_MAX = 14;

    /// Time after which a wait for progress has failed.
    private static final Duration LIMIT = Duration.ofSeconds(60);

    private static final long POLL_NANOS = 1_000_000;
    private static final Duration SILENCE = Duration.ofMillis(100);
    private static final Duration SILENCE_OF_MANY = Duration.ofSeconds(1);

    private final Setting setting;
    private final int rowsLog2;
    private final int sessions;
    private final Duration writesLast;
    private final Plan plan;
    private final Isolation isolation;
    private final Interference interference;
    private final NemesisClock clock = new NemesisClock();
    /// The faults and sessions of the run, for the case that it fails.
    private final Journal journal = new Journal();
    private final NemesisAccess access;
    private final Links links;
    private final NemesisServers servers;
    private final Nemesis nemesis;
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
    private final AtomicLong forgotten = new AtomicLong();
    private volatile boolean isHealed;
    private volatile boolean isOver;

    /// Parts of a world.
    ///
    /// @param test runs the history
    /// @param stores fresh, each of a namespace of its own
    /// @param logs returns an instance of the same log each time
    /// @param isShared whether an instance waits for its turn while another one has the log
    /// @param folder for files of clients
    /// @param polls number of milliseconds within which some transactions commit, if there are no faults
    /// @param others faults of the stores and of the log
    @SuppressWarnings("exports") // the servers are those of tests
    public record Setting(
            Class<?> test,
            List<TestStore> stores,
            Supplier<Log> logs,
            boolean isShared,
            Path folder,
            int polls,
            OtherFaults others) {
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
    @SuppressWarnings("exports") // logs are those of tests
    public interface OtherFaults {
        /// Injects one.
        void inject(RandomGenerator random) throws Exception;

        /// Ends all.
        void heal() throws Exception;

        /// Returns how many of a hundred faults are of these.
        default int perCent() {
            return 4;
        }

        /// Cuts the server that has a shared log off from what elects.
        default void cutOff(Log log) {
            throw new UnsupportedOperationException("the log is not shared");
        }

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
            public int perCent() {
                return 0;
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
        SplittableRandom random = new SplittableRandom(seed);
        this.setting = setting;
        rowsLog2 = random.nextInt(ROWS_LOG2_MIN, ROWS_LOG2_MAX + 1);
        boolean hasManySessions = random.nextInt(4) == 0 && plan == Plan.NONE;
        sessions = hasManySessions ? SESSIONS_MANY : 1;
        writesLast = random.nextInt(4) == 0 ? WRITES_LAST : Duration.ZERO;
        this.plan = plan;
        this.isolation = isolation;
        interference = new Interference(random.nextLong());
        links = new Links(random.nextLong(), journal);
        access = random.nextBoolean()
                ? NemesisAccess.byTokens(setting.folder.resolve("tokens-" + seed), journal)
                : NemesisAccess.none();
        ServerOptions options = ServerOptions.DEFAULTS.withRowsLog2(rowsLog2);
        servers = new NemesisServers(setting, () -> access.options(options), plan.serverFault, links, journal);
        founder = OracleClient.open(NemesisClient.options(links.link().addresses(), SILENCE, true, access.ofFounder()));
        setting.stores.forEach(this::addStore);
        for (int number = 0; number < CLIENTS; number++) {
            NemesisClient client = new NemesisClient(this, number, sessions, random.split());
            clients.add(client);
            start(client::run);
        }
        for (Tables store : stores) {
            Keeper keeper = new Keeper(store);
            keepers.add(keeper);
            start(keeper::run);
        }
        nemesis = new Nemesis(this, random.split());
    }

    private void addStore(TestStore store) {
        String prefix = (char) ('a' + stores.size()) + "-";
        store.open(founder);
        store.tables().bind(founder.identity().orElseThrow()); // before a client that is misdirected does
        store.create(prefix + "rows", Granularity.ROW, true);
        store.create(prefix + "cells", Granularity.CELL, true);
        Tables hooked = new HookedTables(new Lasting(store.tables(), writesLast), interference);
        stores.add(hooked);
        tables.addAll(hooked.all());
    }

    /// Tables whose rows outlive the sessions of their clients.
    private record Lasting(Tables tables, Duration writesLast) implements Tables {
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
                world.nemesis.run(steps);
                assertEquals(List.of(), List.copyOf(world.failures));
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
        Files.writeString(file, journal + "\n" + stacks());
        return "\nevents: " + file.toAbsolutePath() + "\n" + servers.describe();
    }

    /// Returns the stacks of the threads that run classes of Cedrat.
    private static String stacks() {
        StringBuilder text = new StringBuilder();
        Thread.getAllStackTraces().forEach((thread, stack) -> {
            if (Arrays.stream(stack).anyMatch(frame -> frame.getClassName().startsWith("cedrat."))) {
                text.append("\nthread ").append(thread.getName()).append("\n  ");
                text.append(Arrays.stream(stack).map(Object::toString).collect(Collectors.joining("\n  ")));
            }
        });
        return text.toString();
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
        link.lead(servers.other().address());
    }

    NemesisAccess access() {
        return access;
    }

    NemesisClock clock() {
        return clock;
    }

    /// Returns the time after which clients leave a silent server. Many clients say less while they are idle.
    Duration silence() {
        return sessions > 1 ? SILENCE_OF_MANY : SILENCE;
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
            oracle = OracleClient.open(NemesisClient.options(link.addresses(), silence(), false, access.ofKeeper()));
        }

        void run() {
            Cleaner cleaner = new Cleaner(oracle, store, clock, plan.fault);
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

    // ---- for the nemesis --------------------------------------------------------------------------------------------

    Setting setting() {
        return setting;
    }

    NemesisServers servers() {
        return servers;
    }

    Interference interference() {
        return interference;
    }

    boolean hasFailed() {
        return !failures.isEmpty();
    }

    NemesisClient client(int number) {
        return clients.get(number);
    }

    /// Returns the thread of a client, or of what keeps a namespace.
    Thread thread(int number) {
        return threads.get(number);
    }

    /// Returns a link of a client, or that of what keeps a namespace; `null` if it has none now.
    Links.Link link(int number, RandomGenerator random) {
        return number < CLIENTS ? clients.get(number).link(random) : keepers.get(number - CLIENTS).link;
    }

    /// Waits until so many more transactions have begun, or it was polled so often: clients may have no server.
    void awaitTransactions(int count, int polls) {
        long end = transactions.get() + count;
        for (int poll = 0; poll < polls * setting.polls && transactions.get() < end; poll++) {
            LockSupport.parkNanos(POLL_NANOS);
        }
    }

    /// Lets a part of the session timeout pass, so many times.
    void tick(int count) {
        journal.record(count + " ticks");
        for (int tick = 0; tick < count; tick++) {
            servers.tick();
        }
    }

    /// Ends the faults for a moment, and fails if not all goes on: sessions expire, each client commits again, and the
    /// low-water mark passes the transactions that there were.
    void calm() throws Exception {
        journal.record("a calm begins");
        interference.set(0, 0);
        interference.resume();
        healServices();
        for (int tick = 0; tick <= CrashableServer.TICKS; tick++) {
            awaitTransactions(CLIENTS, 1);
            tick(1);
        }
        awaitTransactions(4 * CLIENTS, 2);
        awaitCommits();
        StartTimestamp mark = founder.begin();
        founder.end(mark);
        await("the low-water mark passes " + mark.value(), () -> {
            awaitTransactions(4 * CLIENTS, 2);
            tick(1);
            return founder.lowWaterMark().value() > mark.value();
        });
    }

    /// Ends the faults of the network, the services and the servers.
    private void healServices() throws Exception {
        setting.others.heal();
        links.heal();
        await("a server serves", servers::isServing);
        servers.serving().releaseLog();
        if (access.isFaulty()) {
            access.heal(servers);
            links.cut(); // connections keep the limits that they were made with
        }
    }

    private void awaitCommits() throws Exception {
        for (NemesisClient client : clients) {
            client.beginCounting();
        }
        for (NemesisClient client : clients) {
            await("a client commits again in each session", client::hasCommittedAgain);
        }
    }

    // ---- afterwards -------------------------------------------------------------------------------------------------

    /// Ends all faults, and fails if not all goes on: each client commits, the low-water mark passes all transactions
    /// there were, and the oracle forgets all outcomes and sessions. Then the tables are judged.
    private void heal() throws Exception {
        journal.record("all faults end");
        isHealed = true;
        interference.calm();
        healServices();
        servers.endOthers();
        await("a server serves", servers::isServing);
        awaitCommits();
        isOver = true;
        for (Thread thread : threads) {
            thread.join(plan.limit);
            assertTrue(!thread.isAlive(), "a client waits for an answer");
        }
        assertEquals(List.of(), List.copyOf(failures));
        interference.deliver();
        ClientOptions options = NemesisClient.options(
                new InetSocketAddress[] {servers.serving().address()}, SILENCE, true, access.ofFounder());
        try (OracleClient probe = OracleClient.open(options)) {
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
            assertEquals(0, servers.other().figures().newest(), "timestamps are issued by another oracle");
        }
    }

    /// Ends what no living client knows of, and waits until the mark passes the transactions that there were.
    /// What a client has sent over a connection that it had left may begin a session at any time, which
    /// expires.
    private void awaitLowWaterMark(OracleClient probe) throws Exception {
        StartTimestamp mark = probe.begin();
        probe.end(mark);
        await("the low-water mark passes " + mark.value() + ", and no transaction is open", () -> {
            clients.forEach(NemesisClient::beHeard);
            tickBeside(probe);
            return probe.lowWaterMark().value() > mark.value()
                    && servers.serving().figures().open() == 0;
        });
    }

    /// Lets a part of the session timeout pass, for all but the clients without faults.
    private void tickBeside(OracleClient probe) {
        founder.lowWaterMark();
        probe.lowWaterMark();
        servers.tick();
    }

    private void checkMemory(OracleClient probe) throws Exception {
        List<Cleaner> cleaners = stores.stream()
                .map(store -> new Cleaner(probe, store, clock, Fault.NONE))
                .toList();
        await("a sweep makes the oracle forget all outcomes, and sessions end", () -> {
            tickBeside(probe);
            cleaners.forEach(Cleaner::sweep);
            clock.jump(writesLast);
            Figures figures = servers.serving().figures();
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

    /// Waits for progress. A server that is missing is started.
    void await(String what, Callable<Boolean> condition) throws Exception {
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
            servers.poll();
            if (!servers.isServing()) {
                servers.start();
            }
            assertTrue(
                    System.nanoTime() - end < 0,
                    () -> "waited for " + plan.limit + " until " + what + "; newest failed start: "
                            + servers.startProblem());
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
                + CLIENTS * sessions + " sessions, " + links + "; " + interference + "; " + servers + ", "
                + forgotten + " outcomes forgotten; " + clock + "; " + access + "; "
                + setting.others;
    }

    @Override
    public void close() throws IOException {
        isOver = true;
        interference.calm();
        clients.forEach(NemesisClient::endAll);
        keepers.forEach(keeper -> keeper.oracle.close());
        founder.close();
        links.close();
        servers.close();
    }
}
