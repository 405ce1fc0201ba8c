package cedrat.oracle.tables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.server.cluster.Network;
import cedrat.oracle.server.cluster.Servers;
import cedrat.oracle.server.cluster.Servers.Server;
import cedrat.services.Bookies;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Semaphore;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/// Writes histories for the black-box judge of clients that go on while the server is killed or sleeps, and
/// another takes over, and the network loses frames and delivers them late and twice.
///
/// The tests wait most of their time, and run side by side, each with an oracle of its own.
@Tag("services")
@Timeout(300)
class FailOverHistoryTest {
    private static final int CLIENTS = 4;
    private static final int SOME_COMMITS = 120;
    private static final int FOR_ALL_WHO_WAIT = 1 << 20;
    private static final Duration SILENCE = Duration.ofMillis(200);
    private static final List<String> ROWS = List.of("0", "1", "2", "3", "4", "5", "6", "7");

    @TempDir
    private static Path folder;

    private static Bookies bookies;

    private final ListHistory history = new ListHistory();
    private final Semaphore committed = new Semaphore(0);
    private final ConcurrentLinkedQueue<Throwable> failures = new ConcurrentLinkedQueue<>();
    private volatile boolean isOver;

    @BeforeAll
    static void startBookies() throws IOException {
        bookies = Bookies.start(folder.resolve("services"), 3);
    }

    @AfterAll
    static void stopBookies() {
        bookies.close();
    }

    private ListClient client(int number, Tables tables, Isolation isolation) {
        List<Table> both = List.of(tables.table("rows"), tables.table("cells"));
        return new ListClient(history::add, number, isolation, both, KeyRange.ALL, ROWS);
    }

    private void run(int number, ClientOptions options, Tables tables, Isolation isolation) {
        ListClient client = client(number, tables, isolation);
        try (OracleClient oracle = OracleClient.open(options)) {
            TransactionManager manager = new TransactionManager(
                    oracle, tables, TransactionManager.Options.DEFAULTS.withCleanUp(Runnable::run));
            while (!isOver) {
                if (client.run(manager)) {
                    committed.release();
                }
            }
        } catch (Throwable problem) {
            failures.add(problem);
            committed.release(FOR_ALL_WHO_WAIT);
        }
    }

    private void await(int commits) throws InterruptedException {
        committed.acquire(commits);
        assertEquals(List.of(), List.copyOf(failures));
    }

    /// A client begins, and reads all, while the second server is silenced: so the begin goes to the first one,
    /// which then wakes. Returns when the first server has stopped, and all was read.
    ///
    /// @param quiet leads the reader alone, and loses nothing: the reader gets the first server's answers
    private void beginAndWake(Runnable reading, Network network, Network quiet, Server one, Server two)
            throws Exception {
        network.silence(two.address());
        quiet.silence(two.address());
        Thread reader = Thread.ofPlatform().start(() -> {
            try {
                reading.run();
            } catch (RuntimeException | Error problem) {
                failures.add(problem);
            }
        });
        quiet.awaitBegins(one.address(), 1);
        one.service().resume();
        one.awaitStopped();
        quiet.unsilence();
        network.unsilence();
        reader.join();
    }

    private void failOver(Isolation isolation, boolean sleeps, String fault, String name) throws Exception {
        Servers servers = new Servers(bookies, folder.resolve(name), "/cedrat/" + name);
        try (TestStore store = TestStore.memory();
                Server one = servers.startFirst("one", fault);
                Server two = servers.startSecond("two", one);
                Network network = new Network(name.hashCode());
                Network quiet = Network.lossless()) {
            store.create("rows", Granularity.ROW, true);
            store.create("cells", Granularity.CELL, true);
            ClientOptions options = Servers.options(SILENCE, network.to(one.address()), network.to(two.address()));
            ClientOptions quietly = Servers.options(SILENCE, quiet.to(one.address()), quiet.to(two.address()));
            try (OracleClient another = OracleClient.open(quietly)) {
                TransactionManager manager = new TransactionManager(another, store.tables());
                manager.begin(isolation).close(); // names the namespace, to which the sleeping server would not reply
                List<Thread> clients = new ArrayList<>();
                for (int number = 0; number < CLIENTS; number++) {
                    int client = number;
                    clients.add(
                            Thread.ofPlatform().daemon().start(() -> run(client, options, store.tables(), isolation)));
                }
                await(SOME_COMMITS);
                if (sleeps) {
                    one.service().pause();
                } else {
                    one.service().kill();
                }
                two.awaitServing();
                await(SOME_COMMITS);
                if (sleeps) {
                    ListClient reader = client(CLIENTS, store.tables(), isolation);
                    beginAndWake(() -> reader.readAll(manager), network, quiet, one, two);
                    await(SOME_COMMITS);
                }
                network.calm();
                quiet.calm();
                isOver = true;
                for (Thread client : clients) {
                    client.join();
                }
            }
            assertEquals(List.of(), List.copyOf(failures));
            assertTrue(network.hasHad(3), network.toString());
        }
    }

    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void theServerIsKilled() throws Exception {
        failOver(Isolation.SNAPSHOT, false, "NONE", "fail-over-killed");
        history.check();
        history.write("fail-over-killed", "strong-snapshot-isolation");
    }

    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void theServerSleeps() throws Exception {
        failOver(Isolation.SERIALISABLE, true, "NONE", "fail-over-slept");
        history.check();
        history.write("fail-over-slept", "strict-serializable");
    }

    /// O6.
    /// A replaced server that was suspended answers a begin when it wakes: the transaction then reads a snapshot
    /// from before the suspension.
    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void aZombieThatAnswersABeginIsFound() throws Exception {
        failOver(Isolation.SNAPSHOT, true, "STARTS_BEFORE_THE_LOG", "zombie");
        assertThrows(AssertionError.class, history::check);
        history.write("zombie", "not-strong-snapshot-isolation");
    }
}
