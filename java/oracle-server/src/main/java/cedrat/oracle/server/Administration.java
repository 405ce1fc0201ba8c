package cedrat.oracle.server;

import cedrat.oracle.log.Log;
import cedrat.oracle.protocol.AdminKind;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.state.Namespace;
import cedrat.oracle.state.StatusOracle;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Iterator;
import java.util.List;

/// Answers to administrators' requests (O6e): the work for a page is bounded, and so is its reply.
///
/// Lives on the decide thread.
final class Administration {
    private static final int IPV4_BYTES = 4;
    /// Bits of an IPv4 address within IPv6, above its 32 bits.
    private static final long IPV4_IN_IPV6 = 0xffffL << Integer.SIZE;

    private final StatusOracle oracle;
    private final Sessions sessions;
    private final Persister persister;
    private final Log.Kind log;
    private final Duration sessionTimeout;

    private final long[] values = new long[Protocol.ADMIN_VALUES_MAX];
    private int count;

    Administration(StatusOracle oracle, Sessions sessions, Persister persister, Log.Kind log, Duration sessionTimeout) {
        this.oracle = oracle;
        this.sessions = sessions;
        this.persister = persister;
        this.log = log;
        this.sessionTimeout = sessionTimeout;
    }

    /// Appends a page to the replies of a connection.
    void page(Connection connection, long id, AdminKind kind, long from) {
        begin(kind);
        switch (kind) {
            case STATE -> state();
            case SESSIONS -> sessions(from);
            case OPEN -> open(from);
            case NAMESPACES -> namespaces(from);
            case BACKUP -> backup(connection, from);
            case END_SESSION -> throw new AssertionError("the end of a session is no page");
        }
        reply(connection, id);
    }

    /// Appends the answer to the end of a session.
    void ended(Connection connection, long id, boolean wasThere, int aborted) {
        begin(AdminKind.END_SESSION);
        put(wasThere ? 1 : 0);
        put(aborted);
        reply(connection, id);
    }

    private void begin(AdminKind kind) {
        count = 0;
        put(kind.number());
        put(0);
        put(0);
    }

    private void put(long value) {
        values[count++] = value;
    }

    private void more(long next) {
        values[1] = 1;
        values[2] = next;
    }

    private void reply(Connection connection, long id) {
        int at = connection.replies.values(Protocol.ADMIN, id, count);
        for (int index = 0; index < count; index++) {
            connection.replies.putValue(at, index, values[index]);
        }
        persister.replied(connection);
    }

    private void backup(Connection connection, long from) {
        count += persister.backup().part(connection, from == 0, values, count);
    }

    private void state() {
        put(log.ordinal());
        put(sessionTimeout.toMillis());
        put(Sessions.TICKS);
        put(sessions.count());
        put(oracle.newest());
        put(oracle.forgottenTimestamp());
        put(oracle.lowWaterMark());
        put(oracle.open());
        put(oracle.halfAborted());
        put(oracle.halfCommitted());
        put(oracle.transactionBytes());
        put(oracle.spilledOutcomes());
        put(oracle.namespaces());
        put(persister.appended() - persister.acknowledged());
    }

    private void sessions(long from) {
        int first = Math.clamp(from, 0, Integer.MAX_VALUE);
        Iterator<Session> all = sessions.from(first);
        for (int entries = 0; all.hasNext(); entries++) {
            Session session = all.next();
            if (entries == AdminKind.SESSIONS.entriesMax()) {
                more(session.number);
                return;
            }
            put(session.number);
            put(session.token);
            address(session.connection);
            put(session.silentTicks);
        }
    }

    private void address(Connection connection) {
        if (connection == null || !(connection.channel.remoteAddress() instanceof InetSocketAddress address)) {
            put(0);
            put(0);
            put(0);
            return;
        }
        InetAddress host = address.getAddress();
        ByteBuffer bytes = ByteBuffer.wrap(host.getAddress());
        boolean isShort = bytes.remaining() == IPV4_BYTES;
        put(isShort ? 0 : bytes.getLong());
        put(isShort ? IPV4_IN_IPV6 | Integer.toUnsignedLong(bytes.getInt()) : bytes.getLong());
        put(address.getPort());
    }

    private void open(long from) {
        long next = oracle.forEachOpen(from, AdminKind.OPEN.entriesMax(), (start, session) -> {
            put(start);
            put(sessions.token(session));
        });
        if (next > 0) {
            more(next);
        }
    }

    private void namespaces(long from) {
        int max = AdminKind.NAMESPACES.entriesMax();
        List<Namespace> page = oracle.namespaces(from, max + 1);
        for (Namespace each : page.subList(0, Math.min(max, page.size()))) {
            put(each.number());
            put(each.mark());
            put(each.sessions());
        }
        if (page.size() > max) {
            more(page.getLast().number());
        }
    }
}
