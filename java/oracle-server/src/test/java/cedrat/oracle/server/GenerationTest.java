package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientClosedException;
import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.StartTimestamp;
import cedrat.oracle.log.Identities;
import cedrat.oracle.log.OracleReplay;
import cedrat.oracle.log.Restoration;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.server.cluster.RawClient;
import cedrat.oracle.state.NoDecisions;
import cedrat.oracle.state.StatusOracle;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// O5j and O6i: a restore begins a generation of its oracle, which clients of earlier ones cannot use.
@Timeout(300)
class GenerationTest {
    private static final long SESSION = 11;
    private static final long IDENTITY = 0x7172737475767778L;
    private static final long GENERATION = 0x6162636465666768L;
    private static final long ABOVE = 1000;
    private static final int ROWS_LOG2 = 8;

    private static final ServerOptions OPTIONS = ServerOptions.DEFAULTS
            .withListen(new InetSocketAddress("127.0.0.1", 0))
            .withRowsLog2(ROWS_LOG2)
            .withSessionTimeout(Duration.ofDays(1));

    private static HeldLog initialised() {
        return new HeldLog(1, List.of(Identities.firstEntry(IDENTITY)));
    }

    /// The log of an oracle that is restored from these entries.
    private static HeldLog restored(List<byte[]> entries, long above, long generation) throws Exception {
        StatusOracle before = new StatusOracle(ROWS_LOG2, new NoDecisions());
        OracleReplay replay = new OracleReplay(before);
        for (byte[] entry : entries) {
            replay.entry(entry, 0, entry.length);
        }
        StatusOracle continued = new StatusOracle(ROWS_LOG2, new NoDecisions());
        Restoration.continueAbove(before, above, generation, continued);
        List<byte[]> written = new ArrayList<>();
        Restoration.write(
                continued, (bytes, from, length) -> written.add(Arrays.copyOfRange(bytes, from, from + length)));
        return new HeldLog(1, written);
    }

    private static HeldLog restored() throws Exception {
        return restored(initialised().kept(), ABOVE, GENERATION);
    }

    private static RawClient hello(OracleServer server, int lowest, int highest, long generation) throws Exception {
        RawClient client = new RawClient(server);
        client.out.hello(client.id(), lowest, highest, SESSION, IDENTITY, generation);
        return client.send();
    }

    private static void assertGeneration(long generation, HeldLog log) throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS, log);
                RawClient client = new RawClient(server.address(), SESSION, Protocol.VERSION)) {
            assertEquals(IDENTITY, client.reply.identity());
            assertEquals(generation, client.reply.generation());
        }
    }

    @Test
    void generationWithoutRestoreIsIdentity() throws Exception {
        HeldLog log = initialised();
        assertGeneration(IDENTITY, log);
        assertGeneration(IDENTITY, new HeldLog(1, log.kept()));
    }

    /// O5j.
    @Test
    void generationOutlivesForgottenEntriesAndRestarts() throws Exception {
        HeldLog log = restored();
        assertGeneration(GENERATION, log);
        HeldLog again = new HeldLog(1, log.kept());
        try (OracleServer server = OracleServer.start(OPTIONS, again);
                RawClient client = new RawClient(server, SESSION + 1)) {
            while (again.kept().size() == again.everything().size()) {
                client.commit(client.begin(), client.id());
            }
        }
        assertGeneration(GENERATION, new HeldLog(1, again.kept()));
        assertGeneration(GENERATION + 1, restored(again.kept(), 1 << 20, GENERATION + 1));
    }

    /// O6i.
    @Test
    void helloOfEarlierGenerationDecidesNothing() throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS, restored())) {
            // The second has learned the identity alone, from a server of version 3.
            for (int lowest : new int[] {1, Protocol.VERSION_IDENTITY}) {
                try (RawClient client = hello(server, lowest, Protocol.VERSION, IDENTITY)) {
                    client.out.plain(Protocol.BEGIN, client.id());
                    client.send().refused(ErrorCode.RESTORED, true);
                    String said = client.reply.errorText();
                    assertTrue(said.contains(HexFormat.of().toHexDigits(IDENTITY)), said);
                    assertTrue(said.contains(HexFormat.of().toHexDigits(GENERATION)), said);
                    client.awaitClosed();
                }
            }
            assertEquals(0, server.reading().sessions());
            try (RawClient client = hello(server, 4, Protocol.VERSION, GENERATION)) {
                assertEquals(GENERATION, client.receive().generation());
                assertEquals(ABOVE + 1, client.begin(), "nothing had begun");
            }
        }
    }

    /// Clients of versions without generations are served, as before.
    @Test
    void earlierVersionsAreServedAfterRestore() throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS, restored())) {
            for (int version = 1; version < Protocol.VERSION_GENERATION; version++) {
                try (RawClient client = hello(server, 1, version, IDENTITY)) {
                    client.receive();
                    assertEquals(version, client.reply.version());
                    assertEquals(version < 3 ? Protocol.IDENTITY_NONE : IDENTITY, client.reply.identity());
                    assertEquals(Protocol.IDENTITY_NONE, client.reply.generation());
                    assertEquals(ABOVE + version, client.begin());
                }
            }
        }
    }

    /// O6i: also with requests outstanding, and transactions open.
    @Test
    void clientOfRestoredOracleCloses() throws Exception {
        HeldLog log = initialised();
        OracleServer first = OracleServer.start(OPTIONS, log);
        InetSocketAddress address = first.address();
        try (OracleClient client = OracleClient.open(
                ClientOptions.of(address).withReconnect(Duration.ofMillis(1), Duration.ofMillis(20)))) {
            StartTimestamp open;
            CompletableFuture<?> outstanding;
            List<byte[]> backup;
            try (first) {
                open = client.begin();
                client.confirm();
                backup = log.kept();
                log.die();
                outstanding = client.commitAsync(open, 7);
                log.awaitAppends(log.appends());
            }
            try (OracleServer again =
                    OracleServer.start(OPTIONS.withListen(address), restored(backup, ABOVE, GENERATION))) {
                ExecutionException failed = assertThrows(ExecutionException.class, outstanding::get);
                assertRefused((ClientClosedException) failed.getCause());
                assertRefused(assertThrows(ClientClosedException.class, client::confirm));
                assertRefused(assertThrows(ClientClosedException.class, () -> client.resolve(open)));
                try (OracleClient fresh = OracleClient.open(ClientOptions.of(again.address()))) {
                    assertEquals(ABOVE + 1, fresh.begin().value());
                    fresh.confirm();
                }
            }
        }
    }

    private static void assertRefused(ClientClosedException refused) {
        assertEquals(ErrorCode.RESTORED, refused.code(), refused::toString);
    }
}
