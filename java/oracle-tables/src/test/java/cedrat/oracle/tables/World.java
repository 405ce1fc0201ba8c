package cedrat.oracle.tables;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.server.OracleServer;
import cedrat.oracle.server.ServerOptions;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.Executor;

/// An oracle, tables of a store, and clients that may die.
public final class World implements AutoCloseable {
    static final Column VALUE = Column.of("f", "value");
    static final Column OTHER = Column.of("f", "other");

    /// Clean-ups of a client that has died before them.
    static final Executor NEVER = task -> {};

    /// The thread that commits cleans up.
    static final TransactionManager.Options PROMPT = TransactionManager.Options.DEFAULTS.withCleanUp(Runnable::run);

    volatile HookedTables.Hook hook = (point, table, row, mutation) -> {};
    final TestStore store;
    final Tables tables;
    final Table rows;
    final Table cells;
    final OracleServer server;
    final OracleClient oracle;
    private final List<OracleClient> clients = new ArrayList<>();

    World(TestStore store) {
        this(store, Protocol.ROWS_MAX, new VolatileLog());
    }

    /// With an oracle that takes so many rows of a transaction, and keeps its decisions there.
    World(TestStore store, int rowsMax, Log log) {
        this.store = store;
        try {
            server = OracleServer.start(
                    ServerOptions.DEFAULTS
                            .withListen(new InetSocketAddress("127.0.0.1", 0))
                            .withRowsLog2(16)
                            .withRowsMax(rowsMax),
                    log);
        } catch (Exception impossible) {
            throw new AssertionError(impossible);
        }
        oracle = client();
        store.open(oracle);
        store.create("rows", Granularity.ROW, true);
        store.create("cells", Granularity.CELL, true);
        tables = new HookedTables(
                new Prompt(store.tables()), (point, table, row, mutation) -> hook.reached(point, table, row, mutation));
        rows = only("rows");
        cells = only("cells");
    }

    /// A store whose writes do not outlast their clients: none does in tests, where nothing else is said.
    private record Prompt(Tables tables) implements Tables {
        @Override
        public Table table(String name) {
            return tables.table(name);
        }

        @Override
        public List<Table> all() {
            return tables.all();
        }

        @Override
        public long namespace() {
            return tables.namespace();
        }

        @Override
        public boolean isVolatile() {
            return tables.isVolatile();
        }

        @Override
        public int callsMax() {
            return tables.callsMax();
        }

        @Override
        public Duration writesLast() {
            return Duration.ZERO;
        }
    }

    Table only(String name) {
        return tables.all().stream()
                .filter(table -> table.name().contains(name))
                .findFirst()
                .orElseThrow();
    }

    Contents contents() {
        return Contents.of(store.tables());
    }

    OracleClient client() {
        return client(Duration.ofSeconds(60));
    }

    OracleClient client(Duration patience) {
        OracleClient client =
                OracleClient.open(ClientOptions.of(server.address()).withPatience(patience));
        clients.add(client);
        return client;
    }

    /// The tables, as a store of which several rows are better written at a time.
    Tables sideBySide() {
        return new Tables() {
            @Override
            public Table table(String name) {
                return tables.table(name);
            }

            @Override
            public List<Table> all() {
                return tables.all();
            }

            @Override
            public long namespace() {
                return tables.namespace();
            }

            @Override
            public boolean isVolatile() {
                return tables.isVolatile();
            }

            @Override
            public int callsMax() {
                return 3;
            }
        };
    }

    TransactionManager manager() {
        return manager(Fault.NONE);
    }

    TransactionManager manager(Fault fault) {
        return manager(Runnable::run, fault);
    }

    /// Returns a manager of clients that clean up on demand, or never. It tries no clean-up again.
    TransactionManager manager(Executor cleanUp, Fault fault) {
        return manager(cleanUp, (delay, work) -> {}, fault);
    }

    /// Returns a manager of clients that clean up on demand, and again.
    TransactionManager manager(Executor cleanUp, CleanUps.Timer again, Fault fault) {
        return manager(TransactionManager.Options.DEFAULTS.withCleanUp(cleanUp), again, fault);
    }

    private TransactionManager manager(TransactionManager.Options options, CleanUps.Timer again, Fault fault) {
        CleanUps cleanUps = new CleanUps(oracle, tables, again, System::nanoTime);
        return new TransactionManager(oracle, tables, options, cleanUps, fault);
    }

    /// The same, of clients whose transactions keep so many bytes of their writes in memory.
    TransactionManager spilling(long bytes, Executor cleanUp, CleanUps.Timer again, Fault fault) {
        return manager(spilling(bytes).withCleanUp(cleanUp), again, fault);
    }

    /// Returns options with another write buffer.
    static TransactionManager.Options spilling(long bytes) {
        return TransactionManager.Options.DEFAULTS.withWriteBufferBytes(bytes);
    }

    /// Returns options with a buffer for all writes, for a few of them, or for those into one row.
    static TransactionManager.Options anyBuffer(SplittableRandom random) {
        switch (random.nextInt(3)) {
            case 0:
                return spilling(0);
            case 1:
                return spilling(random.nextInt(1000));
            default:
                return TransactionManager.Options.DEFAULTS;
        }
    }

    /// Whether a row is about to be cleaned: a commit timestamp is written, or the marker is looked at.
    static boolean isCleanUp(HookedTables.Point point, Mutation mutation) {
        return point == HookedTables.Point.BEFORE_MUTATE_IF_MARKED
                || point == HookedTables.Point.BEFORE_MUTATE
                        && !mutation.stamps().isEmpty();
    }

    /// Writes one cell in a transaction of its own.
    static void put(TransactionManager manager, Table table, String row, String value) {
        manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
            transaction.put(table, Bytes.of(row), VALUE, Bytes.of(value));
            return null;
        });
    }

    /// Returns the value of a cell for a transaction that begins now; `null` for none.
    static String see(TransactionManager manager, Table table, String row) {
        return manager.runInTransaction(Isolation.SNAPSHOT, transaction -> get(transaction, table, row));
    }

    static String get(Transaction transaction, Table table, String row) {
        return transaction.get(table, Bytes.of(row), VALUE).map(Bytes::toText).orElse(null);
    }

    @Override
    public void close() {
        clients.forEach(OracleClient::close);
        try {
            server.close();
        } catch (IOException impossible) {
            throw new AssertionError(impossible);
        } finally {
            store.close();
        }
    }

    /// Runs tasks on demand.
    static final class Later implements Executor {
        final ArrayDeque<Runnable> tasks = new ArrayDeque<>();

        @Override
        public void execute(Runnable task) {
            tasks.add(task);
        }

        void runOne() {
            tasks.poll().run();
        }
    }
}
