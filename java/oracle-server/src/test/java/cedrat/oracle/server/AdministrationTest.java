package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.Log;
import cedrat.oracle.protocol.AdminKind;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.server.cluster.RawClient;
import cedrat.oracle.state.StatusOracle;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// Requests of administrators, frame by frame.
@Timeout(120)
class AdministrationTest {
    private static final ServerOptions OPTIONS = ServerOptions.DEFAULTS
            .withListen(new InetSocketAddress("127.0.0.1", 0))
            .withRowsLog2(10)
            .withSessionTimeout(Duration.ofDays(1));

    private static void ask(RawClient admin, AdminKind kind, long from) throws Exception {
        admin.out.admin(admin.id(), kind, from);
        admin.send().receive();
        String refusal = admin.reply.kind() == Protocol.ERROR ? admin.reply.errorText() : "";
        assertEquals(Protocol.ADMIN, admin.reply.request(), refusal);
        assertEquals(kind.number(), admin.reply.value());
        assertTrue(admin.reply.values() <= Protocol.ADMIN_VALUES_MAX, "O6e");
    }

    private static List<long[]> entries(RawClient admin, AdminKind kind) {
        List<long[]> entries = new ArrayList<>();
        for (int at = AdminKind.HEAD; at < admin.reply.values(); at += kind.width()) {
            long[] entry = new long[kind.width()];
            for (int index = 0; index < entry.length; index++) {
                entry[index] = admin.reply.value(at + index);
            }
            entries.add(entry);
        }
        return entries;
    }

    /// All entries; there are `pages` pages.
    private static List<long[]> all(RawClient admin, AdminKind kind, long first, int pages) throws Exception {
        List<long[]> all = new ArrayList<>();
        long from = first;
        for (int page = 1; page <= pages; page++) {
            ask(admin, kind, from);
            all.addAll(entries(admin, kind));
            assertEquals(page < pages ? 1 : 0, admin.reply.value(1));
            from = admin.reply.value(2);
        }
        return all;
    }

    private static long[] only(RawClient admin, AdminKind kind, long from) throws Exception {
        ask(admin, kind, from);
        List<long[]> entries = entries(admin, kind);
        assertEquals(1, entries.size());
        return entries.getFirst();
    }

    private static void use(RawClient client, long namespace, int flags) throws Exception {
        client.out.namespace(client.id(), namespace, flags);
        assertEquals(Protocol.NAMESPACE, client.send().receive().request());
    }

    @Test
    void stateIsThatOfTheServer() throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS, new HeldLog());
                RawClient admin = new RawClient(server, 99);
                RawClient client = new RawClient(server, 1)) {
            use(client, 8, 0);
            use(client, -8, Protocol.FLAG_VOLATILE);
            long open = client.begin();
            client.begin();
            client.commit(client.begin(), 5);
            client.commit(client.begin(), 6);
            client.commit(client.begin(), 7);
            client.ask(Protocol.ABORT, client.begin());
            client.ask(Protocol.ABORT, client.begin());
            long day = Duration.ofDays(1).toMillis();
            long[] state = only(admin, AdminKind.STATE, 0);
            long bytes = state[10];
            assertTrue(bytes > 0);
            assertArrayEquals(
                    new long[] {Log.Kind.OTHER.ordinal(), day, 8, 2, 10, 0, open, 2, 2, 3, bytes, 0, 2, 0}, state);
            ask(admin, AdminKind.NAMESPACES, Long.MIN_VALUE);
            assertEquals(
                    List.of("[-8, 0, 1]", "[8, 0, 0]"),
                    entries(admin, AdminKind.NAMESPACES).stream()
                            .map(Arrays::toString)
                            .toList());
        }
    }

    @Test
    void sessionsHaveAddressAndSilence() throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS, new HeldLog());
                RawClient admin = new RawClient(server, 99)) {
            try (RawClient client = new RawClient(server, -7)) {
                client.begin();
            }
            server.tick();
            server.tick();
            while (all(admin).get(1)[4] != 0) {
                Thread.onSpinWait(); // until the server knows that the connection is closed
            }
            assertArrayEquals(new long[] {2, -7, 0, 0, 0, 2}, all(admin).get(1));
            long[] own = all(admin).get(0);
            assertEquals(1, own[0]);
            assertEquals(99, own[1]);
            assertEquals(0, own[2]);
            assertEquals(0xffff_7f00_0001L, own[3], "::ffff:127.0.0.1");
            assertNotEquals(0, own[4]);
            assertEquals(0, own[5]);
        }
    }

    private static List<long[]> all(RawClient admin) throws Exception {
        return all(admin, AdminKind.SESSIONS, 0, 1);
    }

    /// However much there is, a reply is bounded, and the pages together have each entry once (O6e).
    @Test
    void pagesAreBoundedAndComplete() throws Exception {
        int sessions = AdminKind.SESSIONS.entriesMax() + 5;
        int open = 2 * AdminKind.OPEN.entriesMax();
        List<RawClient> clients = new ArrayList<>();
        try (OracleServer server = OracleServer.start(OPTIONS, new HeldLog());
                RawClient admin = new RawClient(server, 9999)) {
            for (int number = 2; number <= sessions; number++) {
                clients.add(new RawClient(server, number));
            }
            RawClient client = clients.getFirst();
            for (int count = 0; count < open; count++) {
                client.begin();
            }
            for (int number = 1; number <= StatusOracle.NAMESPACES_MAX; number++) {
                use(client, number % 2 == 0 ? number : -number, 0);
            }
            List<long[]> shown = all(admin, AdminKind.SESSIONS, 0, 2);
            assertEquals(sessions, shown.size());
            assertEquals(
                    sessions,
                    shown.stream().mapToLong(session -> session[1]).distinct().count());
            List<long[]> transactions = all(admin, AdminKind.OPEN, 1, 2);
            assertEquals(open, transactions.size());
            for (int index = 0; index < open; index++) {
                assertArrayEquals(new long[] {index + 1, 2}, transactions.get(index));
            }
            List<long[]> namespaces = all(admin, AdminKind.NAMESPACES, Long.MIN_VALUE, 2);
            assertEquals(StatusOracle.NAMESPACES_MAX, namespaces.size());
            assertTrue(namespaces.getFirst()[0] < 0);
            for (long from : new long[] {Long.MAX_VALUE, open + 1, Protocol.TIMESTAMP_MAX}) {
                ask(admin, AdminKind.OPEN, from);
                assertEquals(AdminKind.HEAD, admin.reply.values(), "none began so late");
            }
            ask(admin, AdminKind.OPEN, Long.MIN_VALUE);
            assertEquals(1, entries(admin, AdminKind.OPEN).getFirst()[0]);
            ask(admin, AdminKind.SESSIONS, Long.MAX_VALUE);
            assertEquals(AdminKind.HEAD, admin.reply.values());
        } finally {
            for (RawClient client : clients) {
                client.close();
            }
        }
    }

    /// Ended by an administrator, a session is over as after silence (O8d).
    @Test
    void endedSessionIsOver() throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS, new HeldLog());
                RawClient admin = new RawClient(server.address(), 99, Protocol.VERSION);
                RawClient other = new RawClient(server, 2)) {
            long kept = other.begin();
            long first;
            long second;
            try (RawClient client = new RawClient(server, 1)) {
                use(client, 5, Protocol.FLAG_VOLATILE);
                first = client.begin();
                second = client.begin();
                client.commit(client.begin(), 7);
                assertArrayEquals(new long[] {1, 2}, only(admin, AdminKind.END_SESSION, 1));
                client.refused(ErrorCode.EXPIRED, true);
                assertTrue(client.reply.errorText().startsWith("an administrator has ended the session"));
                client.awaitClosed();
            }
            assertEquals(Protocol.ABORTED_EXPIRED, admin.status(kept, first));
            assertEquals(Protocol.ABORTED_EXPIRED, admin.status(kept, second));
            assertEquals(Protocol.OPEN, admin.status(kept, kept));
            assertEquals(0, only(admin, AdminKind.STATE, 0)[12], "the namespace has ended with it");
            assertArrayEquals(new long[] {0, 0}, only(admin, AdminKind.END_SESSION, 1), "it is over");
            assertArrayEquals(new long[] {0, 0}, only(admin, AdminKind.END_SESSION, 0));
            try (RawClient again = new RawClient(server, 1)) {
                assertEquals(Protocol.ABORTED, again.commit(first, 8));
                assertTrue(again.commit(again.begin(), 9) > 0, "it has begun anew");
            }
            assertArrayEquals(new long[] {1, 1}, only(admin, AdminKind.END_SESSION, 2));
            assertArrayEquals(new long[] {1, 0}, only(admin, AdminKind.END_SESSION, 99), "its own");
            admin.awaitClosed();
        }
    }

    /// A session without a connection can be ended, too.
    @Test
    void lonelySessionIsEnded() throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS, new HeldLog());
                RawClient admin = new RawClient(server, 99)) {
            try (RawClient client = new RawClient(server, 1)) {
                client.begin();
            }
            while (all(admin).get(1)[4] != 0) {
                Thread.onSpinWait(); // until the server knows that the connection is closed
            }
            assertArrayEquals(new long[] {1, 1}, only(admin, AdminKind.END_SESSION, 1));
            assertEquals(1, all(admin).size());
        }
    }

    /// As every reply (O6).
    @Test
    void adminReplyWaitsForTheLog() throws Exception {
        HeldLog log = new HeldLog();
        try (OracleServer server = OracleServer.start(OPTIONS, log);
                RawClient client = new RawClient(server, 1);
                RawClient admin = new RawClient(server, 99)) {
            client.begin();
            log.hold();
            long before = log.appends();
            admin.out.admin(admin.id(), AdminKind.END_SESSION, 1);
            admin.send();
            log.awaitAppends(before + 1);
            server.settle();
            assertTrue(admin.nothingArrived(), "O6: the aborts are not durable yet");
            assertTrue(client.nothingArrived(), "O6");
            log.go();
            assertEquals(Protocol.ADMIN, admin.receive().request());
            client.refused(ErrorCode.EXPIRED, true);
        }
    }

    @Test
    void invalidAdminRequestsAreRefused() throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS, new HeldLog());
                RawClient admin = new RawClient(server, 99)) {
            admin.out.admin(admin.id(), AdminKind.STATE, 0);
            byte[] unknown = Arrays.copyOf(admin.out.bytes(), admin.out.length());
            admin.out.clear();
            unknown[Protocol.HEADER_BYTES] = 77;
            admin.send(unknown).refused(ErrorCode.UNSUPPORTED, false);
            unknown[Protocol.HEADER_BYTES] = 1;
            unknown[Protocol.HEADER_BYTES + 5] = 1;
            admin.send(unknown).refused(ErrorCode.UNSUPPORTED, false);
            assertTrue(only(admin, AdminKind.STATE, -1).length > 0, "the connection goes on");
            try (RawClient stranger = new RawClient(server)) {
                stranger.out.admin(1, AdminKind.STATE, 0);
                stranger.send().refused(ErrorCode.HELLO, true);
                stranger.awaitClosed();
            }
            admin.out.start(Protocol.ADMIN, admin.id(), 1);
            admin.send().refused(ErrorCode.MALFORMED, true);
            admin.awaitClosed();
        }
    }
}
