package cedrat.oracle.server;

import cedrat.oracle.state.StatusOracle;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// Sessions, their transactions, and their expiry after silence. Runs on the decide thread.
///
/// - N1  A session has one connection at most. Transactions begun over an earlier connection belong to the
///   session only once they are announced.
/// - N2  Time is counted in ticks of a running server. A server that was suspended for a minute has received
///   nothing from its clients, and must not expire them for it.
/// - N3  Transactions that exist when the server is recovered wait for their clients as long as those of a
///   silent session.
final class Sessions {
    /// A session that was silent for so many ticks, and a part of one, expires.
    static final int TICKS = 8;

    private static final Logger RECORDS = LoggerFactory.getLogger(Sessions.class);

    private final StatusOracle oracle;
    private final Map<Long, Session> byToken = new HashMap<>();
    private final TreeMap<Integer, Session> byNumber = new TreeMap<>();
    /// Connections whose hello is awaited, and those whose end is.
    private final Set<Connection> awaited = new HashSet<>();
    private int newest = StatusOracle.NO_SESSION;
    /// Ticks until recovered transactions that no client has announced abort; 0 if there are none.
    private int recoveredTicks;

    Sessions(StatusOracle oracle) {
        this.oracle = oracle;
    }

    /// Returns the number of sessions.
    int count() {
        return byToken.size();
    }

    /// The oracle was recovered, perhaps with transactions of clients that it does not know yet.
    void begin() {
        boolean isSome = oracle.open() > 0 || oracle.halfAborted() > 0 || oracle.halfCommitted() > 0;
        recoveredTicks = isSome ? TICKS + 1 : 0;
    }

    /// Registers a connection. The time for its hello begins.
    void opened(Connection connection) {
        awaited.add(connection);
    }

    /// Nothing of a connection is decided any more. The time for its end begins.
    void finished(Connection connection) {
        connection.awaitedTicks = 0;
        awaited.add(connection);
    }

    /// A connection opens or resumes a session. Returns the connection that the session had, or `null`; it is
    /// to be finished.
    Connection hello(long token, Connection connection) {
        awaited.remove(connection);
        Session session = byToken.get(token);
        Connection before = null;
        if (session == null) {
            session = new Session(token, ++newest, connection.name);
            byToken.put(token, session);
            byNumber.put(session.number, session);
        } else {
            before = session.connection;
            oracle.unclaim(session.number);
        }
        session.connection = connection;
        session.silentTicks = 0;
        connection.session = session;
        return before;
    }

    /// The connection is gone; its session may come back.
    void closed(Connection connection) {
        awaited.remove(connection);
        if (connection.session != null && connection.session.connection == connection) {
            connection.session.connection = null;
        }
    }

    /// A session that has come back knows of this transaction. Returns its outcome; unless that was
    /// forgotten, the transaction is the session's again, if it is not another's. So no sweep has forgotten
    /// what a living client may still write (O4).
    long announce(Session session, long start) {
        long outcome = oracle.status(start);
        if (outcome != StatusOracle.UNKNOWN) {
            int owner = oracle.session(start);
            if (owner == StatusOracle.NO_SESSION || owner == session.number || oracle.isLeft(start)) {
                oracle.adopt(start, session.number);
            }
        }
        return outcome;
    }

    /// Aborts the other transactions of the session: their begins were answered into connections that were
    /// lost, so no client will ever end them.
    void announcedAll(Session session) {
        oracle.abortUnclaimed(session.number);
    }

    /// The session is over: its open transactions abort. Returns their number.
    int expire(Session session) {
        byToken.remove(session.token);
        byNumber.remove(session.number);
        session.connection = null;
        int aborted = oracle.expire(session.number);
        session.volatileNamespaces.forEach(oracle::release);
        return aborted;
    }

    /// Returns the session of this name; `null` if there is none.
    Session get(long token) {
        return byToken.get(token);
    }

    /// Returns the name of the session that the oracle knows by this number; 0 if it is over, or was not there
    /// since the server started.
    long token(int number) {
        Session session = byNumber.get(number);
        return session == null ? 0 : session.token;
    }

    /// Returns the sessions from this number on, in ascending order.
    Iterator<Session> from(int number) {
        return byNumber.tailMap(number, true).values().iterator();
    }

    /// Counts a tick of the hello timeout. `late` receives the connections without a complete hello, or an end, whose
    /// time has ended.
    void ageAwaited(Consumer<Connection> late) {
        for (Connection connection : List.copyOf(awaited)) {
            if (++connection.awaitedTicks > TICKS) {
                late.accept(connection);
            }
        }
    }

    /// Counts a tick. `silent` receives the connections of sessions that expire now.
    void age(Consumer<Connection> silent) {
        for (Session session : new ArrayList<>(byToken.values())) {
            if (session.connection == null || !session.connection.isHeld()) {
                session.silentTicks++; // else it may have said much, and was not listened to
            }
            if (session.silentTicks > TICKS) {
                if (session.connection != null) {
                    silent.accept(session.connection);
                }
                expire(session);
                RECORDS.atWarn()
                        .addKeyValue("session", HexFormat.of().toHexDigits(session.token))
                        .log("a session has expired, because its client was silent for too long");
            }
        }
        if (recoveredTicks > 0) {
            recoveredTicks--;
            if (recoveredTicks == 0) {
                oracle.expire(StatusOracle.NO_SESSION);
            }
        }
    }
}
