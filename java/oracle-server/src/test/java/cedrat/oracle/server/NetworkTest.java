package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.server.cluster.Load;
import cedrat.oracle.server.cluster.Network;
import cedrat.oracle.server.cluster.Servers;
import java.net.InetSocketAddress;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// O3: frames are lost, late, doubled and out of order, and clients see no difference but the time.
@Timeout(300)
class NetworkTest {
    private static final int CLIENTS = 4;
    private static final int COMMITS = 400;
    private static final int MISHAPS = 3;
    private static final Duration SILENCE = Duration.ofMillis(100);
    private static final ServerOptions OPTIONS = ServerOptions.DEFAULTS
            .withListen(new InetSocketAddress("127.0.0.1", 0))
            .withRowsLog2(12)
            .withSessionTimeout(Duration.ofDays(1));

    private static void run(Fault fault, Load.Client kind) throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS, new VolatileLog(), fault);
                Network network = new Network(1);
                OracleClient oracle = OracleClient.open(ClientOptions.of(server.address()))) {
            // By two ways: who hears nothing by the one tries the other.
            ClientOptions options =
                    Servers.options(SILENCE, network.to(server.address()), network.to(server.address()));
            try (Load load = new Load(options, CLIENTS, kind)) {
                load.await(COMMITS);
                network.calm();
                load.check(oracle);
                assertTrue(network.hasHad(MISHAPS), network.toString());
            }
        }
    }

    /// O3.
    @Test
    void answersHoldOverTheNetwork() throws Exception {
        run(Fault.NONE, Load.Client.HEARS);
    }

    @Test
    void aClientThatGuessesIsFound() {
        assertThrows(AssertionError.class, () -> run(Fault.NONE, Load.Client.GUESSES));
    }

    @Test
    void conflictingResentCommitsAreDetected() {
        assertThrows(AssertionError.class, () -> run(Fault.RESENT_COMMITS_CONFLICT, Load.Client.HEARS));
    }
}
