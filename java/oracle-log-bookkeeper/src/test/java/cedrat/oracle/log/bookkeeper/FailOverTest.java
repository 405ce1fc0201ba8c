package cedrat.oracle.log.bookkeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.StartTimestamp;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.server.cluster.Load;
import cedrat.oracle.server.cluster.Network;
import cedrat.oracle.server.cluster.RawClient;
import cedrat.oracle.server.cluster.Servers;
import cedrat.oracle.server.cluster.Servers.Server;
import cedrat.services.Bookies;
import cedrat.services.Service;
import java.io.IOException;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryOneTime;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.api.parallel.ResourceAccessMode;
import org.junit.jupiter.api.parallel.ResourceLock;
import org.junit.jupiter.api.parallel.ResourceLockTarget;

/// Two servers, three bookies and a ZooKeeper, each a process of its own, of which some are killed or stopped
/// while clients are at work.
///
/// The tests mostly wait: for sessions to end, for processes to start. So they run in parallel, each with an
/// oracle of its own; except for those that stop shared services.
@Tag("services")
@Timeout(300)
@ResourceLock(value = FailOverTest.SERVICES, mode = ResourceAccessMode.READ, target = ResourceLockTarget.CHILDREN)
class FailOverTest {
    static final String SERVICES = "bookies and ZooKeeper";

    private static final int CLIENTS = 4;
    private static final int SOME_COMMITS = 150;
    private static final Duration SILENCE = Duration.ofMillis(500);
    private static final Duration SHORT_SILENCE = Duration.ofMillis(200);
    private static final int MISHAPS = 3;

    /// More rows than these clients commit while a session ends.
    private static final int ROWS_OF_SECONDS_LOG2 = 20;

    @TempDir
    private static Path folder;

    private static Bookies bookies;

    private String name;
    private Servers servers;

    @BeforeAll
    static void startBookies() throws IOException {
        bookies = Bookies.start(folder.resolve("services"), 3);
    }

    @AfterAll
    static void stopBookies() {
        bookies.close();
    }

    @BeforeEach
    void place(TestInfo test) {
        place(test.getTestMethod().orElseThrow().getName());
    }

    private void place(String name) {
        this.name = name;
        servers = new Servers(bookies, folder.resolve(name), "/cedrat/" + name);
    }

    // ---- what breaks ------------------------------------------------------------------------------------------------

    private static ClientOptions options(Server one, Server two) {
        return Servers.options(SILENCE, one.address(), two.address());
    }

    private interface Breaking {
        void run(Server one, Server two) throws Exception;
    }

    /// Breaks the server that serves, or what it stands on, under load; then the other one serves, what was
    /// answered holds, and what was open may commit.
    private void failOver(Breaking breaking) throws Exception {
        try (Server one = servers.startFirst("one", "NONE");
                Server two = servers.startSecond("two", one);
                OracleClient oracle = OracleClient.open(options(one, two));
                Load load = new Load(options(one, two), CLIENTS)) {
            load.await(SOME_COMMITS);
            StartTimestamp open = oracle.begin();
            StartTimestamp given = oracle.begin();
            assertEquals(Outcome.Kind.ABORTED, oracle.abort(given).kind());
            assertFalse(two.serves());
            breaking.run(one, two);
            two.awaitServing();
            assertEquals(Outcome.Kind.COMMITTED, oracle.commit(open, 1_000_000).kind(), "O5: it was open");
            assertEquals(Outcome.Kind.ABORTED, oracle.resolve(given).kind(), "it was aborted");
            load.await(SOME_COMMITS);
            load.check(oracle);
        }
    }

    /// The same, while frames are lost, late, doubled and out of order, also over the fail-over. Then a server
    /// that was replaced may wake, with requests that others have answered meanwhile; the other server is
    /// silenced until it has replied.
    private void failOverBadly(String fault, Breaking breaking, Breaking waking) throws Exception {
        try (Server one = servers.startFirst("one", fault);
                Server two = servers.startSecond("two", one);
                Network network = new Network(name.hashCode());
                OracleClient oracle = OracleClient.open(options(one, two))) {
            ClientOptions badly = Servers.options(SHORT_SILENCE, network.to(one.address()), network.to(two.address()));
            try (OracleClient beginning = OracleClient.open(badly);
                    Load load = new Load(badly, CLIENTS)) {
                load.await(SOME_COMMITS);
                StartTimestamp open = oracle.begin();
                breaking.run(one, two);
                two.awaitServing();
                assertEquals(
                        Outcome.Kind.COMMITTED, oracle.commit(open, 1_000_000).kind(), "O5: it was open");
                load.await(SOME_COMMITS);
                if (waking != null) {
                    network.silence(two.address());
                    CompletableFuture<StartTimestamp> begun = beginning.beginAsync();
                    network.awaitBegins(one.address(), 3);
                    waking.run(one, two);
                    network.unsilence();
                    load.began(begun.join());
                    load.await(SOME_COMMITS);
                }
                network.calm();
                load.check(oracle);
                assertTrue(network.hasHad(MISHAPS), network.toString());
            }
        }
    }

    /// O3.
    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void theServerIsKilledWhileTheNetworkIsBad() throws Exception {
        failOverBadly("NONE", (one, two) -> one.service().kill(), null);
    }

    private void sleepAndWake(String fault) throws Exception {
        failOverBadly(fault, (one, two) -> one.service().pause(), (one, two) -> {
            one.service().resume();
            one.awaitStopped();
        });
    }

    /// O3, O6.
    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void theServerSleepsWhileTheNetworkIsBad() throws Exception {
        sleepAndWake("NONE");
    }

    /// Fail-over by clients alone, where a client receives one transaction twice.
    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void aZombieThatAnswersIsFoundByItsClients() {
        assertThrows(AssertionError.class, () -> sleepAndWake("REPLIES_BEFORE_THE_LOG"));
    }

    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void theServerIsKilled() throws Exception {
        failOver((one, two) -> one.service().kill());
    }

    /// O6h, also in another process.
    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void electionNamesTheLivenessSocket() throws Exception {
        String election = "/cedrat/" + name + "/election";
        try (Server one = servers.startFirst("one", "NONE");
                CuratorFramework zooKeeper =
                        CuratorFrameworkFactory.newClient(bookies.zooKeeper().address(), new RetryOneTime(100))) {
            zooKeeper.start();
            String node = zooKeeper.getChildren().forPath(election).getFirst();
            String id = new String(zooKeeper.getData().forPath(election + "/" + node), StandardCharsets.UTF_8);
            Matcher matcher = Pattern.compile("127\\.0\\.0\\.1:(\\d+) liveness 127\\.0\\.0\\.1:(\\d+)")
                    .matcher(id);
            assertTrue(matcher.matches(), id);
            assertEquals(one.address().getPort(), Integer.parseInt(matcher.group(1)));
            try (Socket socket = new Socket("127.0.0.1", Integer.parseInt(matcher.group(2)))) {
                one.service().kill();
                assertTrue(hasEnded(socket));
            }
        }
    }

    /// Waits for the end of a connection over which nothing is sent.
    private static boolean hasEnded(Socket socket) {
        try {
            return socket.getInputStream().read() < 0;
        } catch (IOException reset) {
            return true;
        }
    }

    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void theServerEndsByASignal() throws Exception {
        failOver((one, two) -> one.service().stop());
    }

    /// With two bookies left, the second server makes ledgers on these.
    @Test
    @ResourceLock(SERVICES)
    void aBookieIsKilledAndThenTheServer() throws Exception {
        try {
            failOver((one, two) -> {
                bookies.get(1).service().kill();
                one.service().kill();
            });
        } finally {
            bookies.restart(1);
        }
    }

    /// Both servers lose their sessions: the one that serves stops before ZooKeeper is back, and the other
    /// takes over then.
    ///
    /// Until its session is over the first one goes on serving, for seconds. If it forgot rows meanwhile, what
    /// is open would abort, and should (T_max).
    @Test
    @ResourceLock(SERVICES)
    void theSessionsOfZooKeeperAreLost() throws Exception {
        servers = servers.withRowsLog2(ROWS_OF_SECONDS_LOG2);
        failOver((one, two) -> {
            bookies.zooKeeper().service().pause();
            try {
                one.awaitStopped();
            } finally {
                bookies.zooKeeper().service().resume();
            }
        });
    }

    /// While it serves; and nothing is said of what BookKeeper, ZooKeeper and Netty have to say.
    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void aDumpShowsTheLogAndNothingElse() throws Exception {
        try (Server one = servers.startFirst("one", "NONE");
                OracleClient oracle = OracleClient.open(ClientOptions.of(one.address()))) {
            one.awaitServing();
            for (int row = 1; row < 100; row++) {
                assertEquals(
                        Outcome.Kind.COMMITTED,
                        oracle.commit(oracle.begin(), row).kind());
            }
            try (Service dump = servers.startDump("--json")) {
                int code = dump.awaitEnd();
                List<String> lines = Files.readAllLines(dump.log());
                assertEquals(0, code, () -> String.join("\n", lines));
                assertTrue(lines.size() > 90, lines.size() + " entries");
                for (String line : lines) {
                    assertTrue(line.startsWith("{\"entry\":"), line);
                }
            }
        }
    }

    /// O6: the server sleeps, perhaps while it rolls a ledger, and is replaced. When it wakes it answers
    /// nothing, and ends.
    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void aServerThatWasReplacedWhileItSleptAnswersNothing() throws Exception {
        failOver((one, two) -> assertThrows(IOException.class, () -> askWhenItWakes(one, two)));
    }

    /// The test before would have noticed: two servers that answer a begin at once, or by an append from
    /// before.
    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void aZombieThatAnswersIsFound() throws Exception {
        for (String fault : List.of("STARTS_BEFORE_THE_LOG", "REPLIES_BEFORE_THE_LOG")) {
            place(name + "-" + fault);
            try (Server one = servers.startFirst("one", fault);
                    Server two = servers.startSecond("two", one)) {
                askWhenItWakes(one, two);
            }
        }
    }

    /// Stops a server until another serves, asks it for a start timestamp, and lets it go on.
    ///
    /// @throws IOException if it does not answer, as it must not
    private static void askWhenItWakes(Server zombie, Server successor) throws Exception {
        try (RawClient client = new RawClient(zombie.address(), 77)) {
            client.begin();
            zombie.service().pause();
            successor.awaitServing();
            client.out.plain(Protocol.BEGIN, client.id());
            client.send();
            zombie.service().resume();
            try {
                client.receive();
            } finally {
                zombie.awaitStopped();
            }
        }
    }
}
