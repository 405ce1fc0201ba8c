package cedrat.samples.transfers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.server.OracleServer;
import cedrat.oracle.server.ServerOptions;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

class TransfersTest {
    private static final ServerOptions ANYWHERE =
            ServerOptions.DEFAULTS.withListen(new InetSocketAddress("127.0.0.1", 0));

    @Test
    void theTotalStays() throws Exception {
        try (OracleServer server = OracleServer.start(ANYWHERE, new VolatileLog())) {
            Transfers.Report report = new Transfers(ClientOptions.of(server.address()), 3, 100, 5, 1).run();
            assertEquals(2 * 100 + 50, report.transfers());
            assertTrue(report.totals() > 2);
            assertEquals(0, report.wrong());
            assertEquals(1, report.removed(), "it died between two rows");
            assertEquals(20, report.versions(), "two of each account");
        }
    }

    /// Returns what a command prints as its errors.
    private static String errors(String... arguments) {
        PrintStream before = System.err;
        var errors = new ByteArrayOutputStream();
        System.setErr(new PrintStream(errors, true, StandardCharsets.UTF_8));
        try {
            assertEquals(1, Main.run(arguments));
        } finally {
            System.setErr(before);
        }
        return errors.toString(StandardCharsets.UTF_8);
    }

    @Test
    void missingOracleIsOneSentence() {
        // Nothing listens on the reserved port 1.
        String errors = errors("--oracle", "127.0.0.1:1");
        assertTrue(errors.startsWith("transfers: cannot reach the oracle at 127.0.0.1:1 ("), errors);
        assertEquals(1, errors.lines().count(), errors);
        errors = errors("--oracle", "127.0.0.1:1", "--hbase", "127.0.0.1:1");
        assertTrue(errors.startsWith("transfers: cannot reach HBase's ZooKeeper at 127.0.0.1:1 ("), errors);
        assertEquals(1, errors.lines().count(), errors);
    }

    @Test
    void theCommandRuns() throws Exception {
        try (OracleServer server = OracleServer.start(ANYWHERE, new VolatileLog())) {
            String there = "127.0.0.1:" + server.address().getPort();
            assertEquals(0, Main.run("--oracle", there, "--clients", "2", "--transfers", "10"));
        }
        assertEquals(0, Main.run("--clients", "2", "--transfers", "10"));
        assertEquals(2, Main.run("--clients", "0"));
        assertEquals(2, Main.run("--oracle", "nowhere"));
    }
}
