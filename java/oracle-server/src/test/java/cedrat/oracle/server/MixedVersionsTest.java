package cedrat.oracle.server;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.log.embedded.EmbeddedLog;
import cedrat.oracle.server.cluster.Load;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Random;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// O6o: rolling upgrades. Clients and servers that speak different versions of the protocol, during a fail-over.
@Timeout(120)
class MixedVersionsTest {
    private static final int CLIENTS = 4;
    private static final int COMMITS = 300;

    @TempDir
    private Path folder;

    private CrashableServer start() throws Exception {
        EmbeddedLog.Options log = EmbeddedLog.Options.keeping(folder.resolve("log"), CrashableServer.LOG_BYTES_MAX);
        return CrashableServer.start(new EmbeddedLog(log), ServerOptions.DEFAULTS.withRowsLog2(12), "NONE");
    }

    private static ClientOptions options(InetSocketAddress... servers) {
        return ClientOptions.of(servers)
                .withPatience(Duration.ofSeconds(60))
                .withReconnect(Duration.ofMillis(1), Duration.ofMillis(20));
    }

    /// The versions that clients and the server have in common, before and after the fail-over, as if one of them was
    /// upgraded. A server that does not know identities cannot follow one that does, whose log it cannot read.
    @ParameterizedTest
    @CsvSource({"1, 1", "2, 2", "3, 3", "2, 3", "2, 4", "3, 4", "4, 3"})
    void outcomesHoldAcrossVersions(int before, int after) throws Exception {
        CrashableServer first = start();
        try (Proxy one = new Proxy(first.address(), before);
                Proxy other = new Proxy(first.address(), after)) {
            other.refuse(true);
            Load load = new Load(options(one.address(), other.address()), CLIENTS);
            load.await(COMMITS);
            one.refuse(true);
            one.cut();
            first.crash(new Random(7));
            try (CrashableServer second = start()) {
                other.leadTo(second.address());
                other.refuse(false);
                load.await(COMMITS);
                try (OracleClient client = OracleClient.open(options(other.address()))) {
                    load.check(client);
                }
            }
        }
    }
}
