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
    /// When the rate so far would have been used up, by `System.nanoTime` (a token bucket as one number).
    private long usedUntil;
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
    }

    /// Whether requests have used the rate of more than the next second. Otherwise another hello is admitted: its
    /// requests wait for their turn, but a connection that waits for its first answer would look like a silent one.
    boolean isFarAhead(long now) {
        return limits.rate() < Integer.MAX_VALUE && usedUntil - now > BURST_NANOS;
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
        return isEmpty && usedUntil - (now - BURST_NANOS) <= 0;
    }

    /// Counts so many requests that were decided.
    void take(int count, long now) {
        if (limits.rate() < Integer.MAX_VALUE) {
            long earliest = now - BURST_NANOS;
            usedUntil = (usedUntil - earliest > 0 ? usedUntil : earliest)
                    + count * (TimeUnit.SECONDS.toNanos(1) / limits.rate());
        }
    }
}
