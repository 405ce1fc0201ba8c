package cedrat.oracle.server;

import java.util.LinkedHashSet;
import java.util.concurrent.TimeUnit;

/// The use of the oracle by all connections of one identity. Lives on the decide thread.
final class Account {
    /// The part of the rate that may be taken at once after a time without requests.
    private static final long BURST_NANOS = TimeUnit.SECONDS.toNanos(1);

    final String name;
    /// The limits of the newest hello.
    Limits limits = Limits.NONE;
    /// Connections since their hello.
    int connections;
    /// Requests that were decided, but whose replies were not released.
    int outstanding;
    /// Bytes of requests that wait to be decided.
    long bytes;
    /// When the requests so far would have used up the rate, by `System.nanoTime` (a token bucket as one number).
    private long usedUntil;
    /// The same of the hellos. They have a rate of their own: a large request must not keep a client out that has lost
    /// its connection.
    private long hellosUntil;
    /// Connections with requests, for which a limit has no room.
    final LinkedHashSet<Connection> held = new LinkedHashSet<>();
    /// Connections that are not read from because of the limit of bytes. One of them, which has the turn, is: a request
    /// that is not there entirely would take its memory forever.
    final LinkedHashSet<Connection> paused = new LinkedHashSet<>();
    Connection turn;

    /// An account that has used nothing.
    Account(String name, long now) {
        this.name = name;
        usedUntil = now - BURST_NANOS;
        hellosUntil = usedUntil;
    }

    /// Counts a hello, unless the rate has no room for it.
    boolean takeHello(long now) {
        if (limits.rate() == Integer.MAX_VALUE) {
            return true;
        }
        boolean hasRoom = hellosUntil - now <= 0;
        hellosUntil = hasRoom ? after(hellosUntil, 1, now) : hellosUntil;
        return hasRoom;
    }

    /// Returns the limit that has no room for another request; `null` if all have.
    Limits.Kind exhausted(long now) {
        if (outstanding >= limits.outstanding()) {
            return Limits.Kind.OUTSTANDING;
        }
        return limits.rate() < Integer.MAX_VALUE && usedUntil - now > 0 ? Limits.Kind.RATE : null;
    }

    /// Returns the nanoseconds after which the rate has room again.
    long nanosUntilRate(long now) {
        return Math.max(1, usedUntil - now);
    }

    /// Whether it is as a new one: a client that connects again has used its rate nevertheless.
    boolean isUnused(long now) {
        boolean isEmpty = connections == 0 && outstanding == 0 && bytes == 0 && held.isEmpty() && paused.isEmpty();
        long earliest = now - BURST_NANOS;
        return isEmpty && usedUntil - earliest <= 0 && hellosUntil - earliest <= 0;
    }

    /// Counts so many requests that were decided.
    void take(int count, long now) {
        if (limits.rate() < Integer.MAX_VALUE) {
            usedUntil = after(usedUntil, count, now);
        }
    }

    private long after(long until, int count, long now) {
        long earliest = now - BURST_NANOS;
        long from = until - earliest > 0 ? until : earliest;
        return from + count * (TimeUnit.SECONDS.toNanos(1) / limits.rate());
    }
}
