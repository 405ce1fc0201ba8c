package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.Outcome.Aborted;
import cedrat.oracle.client.Outcome.Committed;
import cedrat.oracle.client.StartTimestamp;
import cedrat.oracle.protocol.Protocol;
import cedrat.services.Bookies;
import cedrat.services.Command;
import cedrat.services.FreePorts;
import cedrat.services.Service;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// Two servers, three bookies and a ZooKeeper, each a process of its own, of which some are killed or stopped
/// while clients are at work.
@Tag("services")
@Timeout(300)
class FailOverTest {
    private static final int CLIENTS = 4;
    private static final int SOME_COMMITS = 150;
    private static final int SESSION_MS = 2000;

    /// So short that ledgers are rolled all the time.
    private static final int LEDGER_BYTES = 8000;

    @TempDir
    private static Path folder;

    private static Bookies bookies;
    private static int tests;

    private String path;
    private Path own;

    @BeforeAll
    static void startBookies() throws IOException {
        bookies = Bookies.start(folder.resolve("services"), 3);
    }

    @AfterAll
    static void stopBookies() {
        bookies.close();
    }

    @BeforeEach
    void place() {
        path = "/cedrat/test-" + ++tests;
        own = folder.resolve("test-" + tests);
    }

    // ---- servers ----------------------------------------------------------------------------------------------------

    /// A running `cedrat-oracle serve`.
    private record Server(Service service, InetSocketAddress address) implements AutoCloseable {
        void awaitServing() throws IOException {
            service.awaitReady(() -> {
                new Socket(address.getAddress(), address.getPort()).close();
                return true;
            });
        }

        boolean serves() throws IOException {
            return Files.readString(service.log()).contains("listening on ");
        }

        void awaitStopped() throws IOException {
            assertEquals(Main.EXIT_LOG_FAILED, service.awaitEnd(), () -> service.problem("has not stopped")
                    .getMessage());
        }

        @Override
        public void close() {
            service.close();
        }
    }

    private Server start(String name, Fault fault) throws IOException {
        int port = FreePorts.next();
        List<String> arguments = new ArrayList<>();
        if (fault != Fault.NONE) {
            arguments.add(fault.name());
        }
        arguments.addAll(List.of(
                "serve",
                "--log",
                "bookkeeper",
                "--zookeeper",
                bookies.zooKeeper().address(),
                "--zookeeper-session-ms",
                "" + SESSION_MS,
                "--path",
                path,
                "--ledger-bytes-max",
                "" + LEDGER_BYTES,
                "--rows-log2",
                "12",
                "--session-timeout-ms",
                "60000",
                "--port",
                "" + port));
        Service service = Command.of(
                        "the server " + name,
                        own.resolve(name),
                        List.of(
                                "-Xmx128m",
                                "-XX:+UseSerialGC",
                                "-XX:TieredStopAtLevel=1",
                                "--enable-native-access=ALL-UNNAMED"),
                        System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                        (fault == Fault.NONE ? Main.class : FaultyMain.class).getName(),
                        arguments)
                .start();
        return new Server(service, new InetSocketAddress("127.0.0.1", port));
    }

    private Server startAndServe(String name) throws IOException {
        Server server = start(name, Fault.NONE);
        server.awaitServing();
        return server;
    }

    private Server startAndStandBy(String name) throws IOException {
        Server server = start(name, Fault.NONE);
        server.service().awaitReady(() -> bookies.zooKeeper().ephemeralsBelow(path + "/election") == 2);
        return server;
    }

    private static ClientOptions options(Server... servers) {
        InetSocketAddress[] addresses = new InetSocketAddress[servers.length];
        for (int number = 0; number < servers.length; number++) {
            addresses[number] = servers[number].address();
        }
        return ClientOptions.of(addresses)
                .withPatience(Duration.ofMinutes(4))
                .withSilence(Duration.ofMillis(500))
                .withReconnect(Duration.ofMillis(5), Duration.ofMillis(100));
    }

    // ---- what breaks ------------------------------------------------------------------------------------------------

    private interface Breaking {
        void run(Server one, Server two) throws Exception;
    }

    /// Breaks the server that serves, or what it stands on, under load; then the other one serves, what was
    /// answered holds, and what was open may commit.
    private void failOver(Breaking breaking) throws Exception {
        try (Server one = startAndServe("one");
                Server two = startAndStandBy("two");
                OracleClient oracle = OracleClient.open(options(one, two));
                Load load = new Load(options(one, two), CLIENTS)) {
            load.await(SOME_COMMITS);
            StartTimestamp open = oracle.begin();
            StartTimestamp given = oracle.begin();
            assertInstanceOf(Aborted.class, oracle.abort(given));
            assertFalse(two.serves());
            breaking.run(one, two);
            two.awaitServing();
            assertInstanceOf(Committed.class, oracle.commit(open, 1_000_000), "O5: it was open");
            assertInstanceOf(Aborted.class, oracle.resolve(given), "it was aborted");
            load.await(SOME_COMMITS);
            load.check(oracle);
        }
    }

    @Test
    void theServerIsKilled() throws Exception {
        failOver((one, two) -> one.service().kill());
    }

    @Test
    void theServerEndsByASignal() throws Exception {
        failOver((one, two) -> one.service().stop());
    }

    /// With two bookies left, the second server makes ledgers on these.
    @Test
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
    @Test
    void theSessionsOfZooKeeperAreLost() throws Exception {
        failOver((one, two) -> {
            bookies.zooKeeper().service().pause();
            try {
                one.awaitStopped();
            } finally {
                bookies.zooKeeper().service().resume();
            }
        });
    }

    /// O6: the server sleeps, perhaps while it rolls a ledger, and is replaced. When it wakes it answers
    /// nothing, and ends.
    @Test
    void aServerThatWasReplacedWhileItSleptAnswersNothing() throws Exception {
        failOver((one, two) -> assertThrows(IOException.class, () -> askWhenItWakes(one, two)));
    }

    /// The test before would have noticed: two servers that answer a begin at once, or by an append from
    /// before.
    @Test
    void aZombieThatAnswersIsFound() throws Exception {
        for (Fault fault : List.of(Fault.STARTS_BEFORE_THE_LOG, Fault.REPLIES_BEFORE_THE_LOG)) {
            place();
            try (Server one = start("one", fault)) {
                one.awaitServing();
                try (Server two = startAndStandBy("two")) {
                    askWhenItWakes(one, two);
                }
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
