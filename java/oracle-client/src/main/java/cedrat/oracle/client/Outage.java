package cedrat.oracle.client;

import java.time.Instant;

/// Time without a server: from the loss of a connection, or the start of the client, to the next reply to a
/// hello.
final class Outage {
    /// Its beginning, by the system clock.
    final Instant since;
    /// The same, by `System.nanoTime`.
    final long nanos;

    private Outage(Instant since, long nanos) {
        this.since = since;
        this.nanos = nanos;
    }

    static Outage now() {
        return new Outage(Instant.now(), System.nanoTime());
    }
}
