package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.StartTimestamp;
import cedrat.oracle.log.embedded.EmbeddedLog;
import cedrat.oracle.server.cluster.Load;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// O6o: rolling upgrades. Clients and servers that speak different versions of the protocol, during a fail-over.
@Timeout(120)
class MixedVersionsTest {
    private static final int CLIENTS = 4;
    private static final int COMMITS = 300;
    private static final int TOGETHER = 100;

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

    /// Begins and commits transactions at the same time, which share frames where both sides know batches.
    private static Map<StartTimestamp, Outcome> commitTogether(OracleClient client, long firstRow) {
        List<CompletableFuture<StartTimestamp>> begun = new ArrayList<>();
        for (int count = 0; count < TOGETHER; count++) {
            begun.add(client.beginAsync());
        }
        Map<StartTimestamp, CompletableFuture<Outcome>> commits = new HashMap<>();
        for (CompletableFuture<StartTimestamp> each : begun) {
            StartTimestamp start = each.join();
            commits.put(start, client.commitAsync(start, firstRow + commits.size()));
        }
        Map<StartTimestamp, Outcome> outcomes = new HashMap<>();
        commits.forEach((start, outcome) -> outcomes.put(start, outcome.join()));
        outcomes.values().forEach(outcome -> assertEquals(Outcome.Kind.COMMITTED, outcome.kind()));
        return outcomes;
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
            ClientOptions both = options(one.address(), other.address());
            OracleClient sharing = OracleClient.open(both);
            Load load = new Load(both, CLIENTS);
            load.await(COMMITS);
            Map<StartTimestamp, Outcome> outcomes = commitTogether(sharing, 1_000);
            one.refuse(true);
            one.cut();
            first.crash(new Random(7));
            try (CrashableServer second = start()) {
                other.leadTo(second.address());
                other.refuse(false);
                load.await(COMMITS);
                outcomes.putAll(commitTogether(sharing, 2_000));
                outcomes.forEach((start, outcome) -> assertEquals(outcome, sharing.resolve(start), "O6o"));
                assertEquals(0, one.unknown() + other.unknown(), "requests of later versions");
                sharing.close();
                try (OracleClient client = OracleClient.open(options(other.address()))) {
                    load.check(client);
                }
            }
        }
    }
}
