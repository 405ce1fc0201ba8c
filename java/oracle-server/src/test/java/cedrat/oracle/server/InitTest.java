package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.Identities;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.LogAbsentException;
import cedrat.oracle.log.LogExistsException;
import cedrat.oracle.log.OpenMode;
import cedrat.oracle.log.embedded.EmbeddedLog;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.server.cluster.RawClient;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// O5f: `init` alone creates an oracle, and `serve` serves only what was initialised.
@Timeout(300)
class InitTest {
    private static final long SESSION = 11;
    private static final int LOG_BYTES_MAX = 1 << 20;

    @TempDir
    Path folder;

    private static int init(Path data) {
        return Main.run("init", "--log", "embedded", "--data", data.toString(), "--log-bytes-max", "" + LOG_BYTES_MAX);
    }

    /// Serves on a port that is taken: the command ends also where it opens the log.
    private static int serve(Path data) throws IOException {
        try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
            String port = "" + taken.getLocalPort();
            return Main.run("serve", "--log", "embedded", "--data", data.toString(), "--port", port);
        }
    }

    private static Log log(Path data, OpenMode mode) {
        return new EmbeddedLog(EmbeddedLog.Options.keeping(data, LOG_BYTES_MAX).withMode(mode));
    }

    private static OracleServer start(Path data, OpenMode mode) throws Exception {
        return OracleServer.start(
                ServerOptions.DEFAULTS
                        .withListen(new InetSocketAddress("127.0.0.1", 0))
                        .withRowsLog2(8),
                log(data, mode));
    }

    private static long identity(OracleServer server) throws Exception {
        try (RawClient client = new RawClient(server.address(), SESSION, Protocol.VERSION)) {
            return client.reply.identity();
        }
    }

    private static List<Path> files(Path of) throws IOException {
        try (Stream<Path> all = Files.walk(of)) {
            return all.toList();
        }
    }

    @Test
    void serveRefusesMissingLogAndCreatesNothing() throws Exception {
        Path mistyped = folder.resolve("mistyped").resolve("oracle");
        List<Path> before = files(folder);
        assertEquals(Main.EXIT_CANNOT_START, serve(mistyped));
        assertEquals(Main.EXIT_CANNOT_START, serve(folder), "an empty directory");
        assertEquals(before, files(folder));
        for (Path missing : List.of(mistyped, folder)) {
            String said = assertThrows(LogAbsentException.class, () -> start(missing, OpenMode.EXISTING))
                    .getMessage();
            assertTrue(said.contains(missing + ", because it does not exist") && said.contains("init"), said);
        }
    }

    @Test
    void serveRefusesLogWithoutEntries() throws Exception {
        try (Log empty = log(folder, OpenMode.CREATE)) {
            empty.open((bytes, from, length) -> {}, new Deaf());
        }
        assertEquals(Main.EXIT_CANNOT_START, serve(folder));
        String said = assertThrows(LogAbsentException.class, () -> start(folder, OpenMode.EXISTING))
                .getMessage();
        assertTrue(said.contains("in " + folder + ", because it has no entry"), said);
        assertEquals(0, init(folder), "an initialisation that has failed is finished");
    }

    /// Listens to nothing.
    private static final class Deaf implements Log.Listener {
        @Override
        public void acknowledged(long number) {}

        @Override
        public void failed(Exception cause) {}
    }

    @Test
    void initialisedLogHasOneIdentity() throws Exception {
        Path data = folder.resolve("oracle");
        assertEquals(0, init(data));
        long identity;
        try (OracleServer server = start(data, OpenMode.EXISTING)) {
            identity = identity(server);
        }
        try (OracleServer again = start(data, OpenMode.EXISTING)) {
            assertEquals(identity, identity(again));
        }
        Path other = folder.resolve("other");
        assertEquals(0, init(other));
        try (OracleServer server = start(other, OpenMode.EXISTING)) {
            assertNotEquals(identity, identity(server));
        }
    }

    @Test
    void initRefusesExistingLog() throws Exception {
        long identity;
        try (OracleServer server = start(folder, OpenMode.CREATE)) {
            identity = identity(server);
            assertEquals(Main.EXIT_CANNOT_START, init(folder), "a server has it open");
        }
        assertEquals(Main.EXIT_EXISTS, init(folder));
        String said = assertThrows(LogExistsException.class, () -> start(folder, OpenMode.CREATE_NEW))
                .getMessage();
        assertTrue(said.contains("in " + folder + ", because this log has entries already"), said);
        try (OracleServer server = start(folder, OpenMode.EXISTING)) {
            assertEquals(identity, identity(server), "it was not changed");
        }
        assertEquals(Main.EXIT_USAGE, Main.run("init", "--log", "none"));
        assertEquals(Main.EXIT_USAGE, Main.run("init", "--log", "embedded"));
    }

    /// O5e.
    @Test
    void embeddedLogKeepsIdentityBehindForgottenSegments() throws Exception {
        assertEquals(0, init(folder));
        long identity;
        try (OracleServer server = start(folder, OpenMode.EXISTING);
                RawClient client = new RawClient(server, SESSION + 1)) {
            identity = identity(server);
            for (int commit = 0; commit < 4000; commit++) {
                client.commit(client.begin(), 1 + commit);
            }
        }
        boolean[] hasFirst = {false};
        try (Log log = log(folder, OpenMode.EXISTING)) {
            log.open(
                    (bytes, from, length) -> hasFirst[0] |= Arrays.equals(
                            Identities.firstEntry(identity), Arrays.copyOfRange(bytes, from, from + length)),
                    new Deaf());
        }
        assertFalse(hasFirst[0], "the entry is still there");
        try (OracleServer server = start(folder, OpenMode.EXISTING)) {
            assertEquals(identity, identity(server));
        }
    }
}
