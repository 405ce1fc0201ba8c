package cedrat.oracle.server;

import static cedrat.oracle.server.FilledLogs.entries;
import static cedrat.oracle.server.FilledLogs.isServed;
import static cedrat.oracle.server.FilledLogs.move;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.LogExistsException;
import cedrat.oracle.log.OpenMode;
import cedrat.oracle.log.Restoration;
import cedrat.oracle.server.cluster.RawClient;
import cedrat.oracle.state.StatusOracle;
import cedrat.services.Bookies;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/// O5g, O5h and O5i with logs in BookKeeper.
@Tag("services")
@Timeout(600)
class BookKeeperBackupTest {
    private static final int ENTRIES = 3;
    private static final int OUTCOMES = 5000;

    @TempDir
    private static Path folder;

    private static Bookies bookies;

    @BeforeAll
    static void start() throws IOException {
        bookies = Bookies.start(folder.resolve("bookies"), 3);
    }

    @AfterAll
    static void stop() {
        bookies.close();
    }

    private static String zooKeeper() {
        return bookies.zooKeeper().address();
    }

    /// Settings as the command has them.
    private static LogSettings settings() {
        LogSettings settings = new LogSettings();
        new CommandLine(CommandLine.Model.CommandSpec.create()
                        .addMixin("settings", CommandLine.Model.CommandSpec.forAnnotatedObject(settings)))
                .parseArgs("--zookeeper-session-ms", "60000");
        return settings;
    }

    private static LogPlace shared(String name) {
        return LogPlace.of("bookkeeper:" + zooKeeper() + "/backup/" + name, settings());
    }

    private static LogPlace embedded(String name) {
        return LogPlace.of("embedded:" + folder.resolve(name), settings());
    }

    private static BackupTest.Result run(String name, String... command) {
        List<String> arguments = new ArrayList<>(List.of(command));
        arguments.addAll(List.of("--log", "bookkeeper", "--zookeeper", zooKeeper(), "--path", "/backup/" + name));
        return BackupTest.run(arguments.toArray(String[]::new));
    }

    private static OracleServer serve(LogPlace place) throws Exception {
        return OracleServer.start(
                ServerOptions.DEFAULTS
                        .withListen(new InetSocketAddress("127.0.0.1", 0))
                        .withRowsLog2(8),
                place.make(OpenMode.EXISTING, "test"));
    }

    @Test
    void servingOracleIsBackedUpAndRestored() throws Exception {
        String file = folder.resolve("backup").toString();
        FilledLogs.initialise(shared("one"), 7, ENTRIES);
        long start;
        long commit;
        try (OracleServer server = serve(shared("one"));
                RawClient client = new RawClient(server, 1)) {
            start = client.begin();
            commit = client.commit(start, 7);
            String address = "127.0.0.1:" + server.address().getPort();
            BackupTest.Result made = BackupTest.run("backup", file, "--oracle", address);
            assertEquals(0, made.code(), made.err());
            assertEquals(Main.EXIT_EXISTS, run("one", "restore", file).code(), "a server has it");
        }
        assertEquals(
                0,
                run("one", "log", "backup", folder.resolve("stopped").toString())
                        .code());
        BackupTest.Result restored = run("two", "restore", file);
        assertEquals(0, restored.code(), restored.err());
        assertEquals(Main.EXIT_EXISTS, run("two", "restore", file).code());
        try (OracleServer server = serve(shared("two"));
                RawClient client = new RawClient(server, 1)) {
            long reader = client.begin();
            assertTrue(reader > Restoration.PER_SECOND);
            assertEquals(commit, client.status(reader, start));
        }
    }

    @Test
    void restoreKilledAtAnyStepIsRepeated() throws Exception {
        StatusOracle continued = FilledLogs.restored(7, OUTCOMES);
        for (int appends = 0; appends < 2; appends++) {
            LogPlace place = shared("restored" + appends);
            int[] left = {appends};
            assertThrows(
                    FilledLogs.Killed.class, () -> RestoreCommand.fill(new FilledLogs.Dying(place, left), continued));
            assertFalse(isServed(place), appends + " parts");
            RestoreCommand.fill(place, continued);
            assertThrows(LogExistsException.class, () -> RestoreCommand.fill(place, continued));
            serve(place).close();
        }
    }

    @Test
    void migrationKilledAtAnyStepIsRepeated() throws Exception {
        int all = ENTRIES + 3;
        for (int appends = 0; appends <= all; appends++) {
            LogPlace first = embedded("from" + appends);
            LogPlace second = shared("to" + appends);
            LogPlace third = embedded("back" + appends);
            FilledLogs.initialise(first, 7, ENTRIES);
            List<String> entries = entries(first);
            for (LogPlace from : List.of(first, second)) {
                LogPlace to = from == first ? second : third;
                assertEquals(appends == all, move(from, to, appends));
                assertFalse(appends < all && isServed(to), appends + " appends");
                assertTrue(move(from, to, all));
                assertTrue(move(from, to, 0), "it has moved");
                assertFalse(isServed(from));
            }
            assertEquals(entries, entries(third));
            assertTrue(isServed(third));
        }
    }
}
