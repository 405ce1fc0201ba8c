package cedrat.samples.transfers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.server.OracleServer;
import cedrat.oracle.server.ServerOptions;
import java.net.InetSocketAddress;
import java.util.List;
import org.junit.jupiter.api.Test;

class TransfersTest {
    private static final ServerOptions ANYWHERE =
            ServerOptions.DEFAULTS.withListen(new InetSocketAddress("127.0.0.1", 0));

    @Test
    void theTotalStays() throws Exception {
        try (OracleServer server = OracleServer.start(ANYWHERE, new VolatileLog())) {
            Transfers.Report report = new Transfers(List.of(server.address()), 3, 100, 5, 1).run();
            assertEquals(2 * 100 + 50, report.transfers());
            assertTrue(report.totals() > 2);
            assertEquals(0, report.wrong());
            assertEquals(1, report.removed(), "it died between two rows");
            assertEquals(20, report.versions(), "two of each account");
        }
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
