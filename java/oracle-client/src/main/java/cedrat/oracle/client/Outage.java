package cedrat.oracle.client;

import java.time.Instant;

/// Time without a server: from the loss of a connection, or the start of the client, to the next reply to a
/// hello.
///
/// @param since its beginning, by the system clock
/// @param nanos the same, by `System.nanoTime`
record Outage(Instant since, long nanos) {
    static Outage now() {
        return new Outage(Instant.now(), System.nanoTime());
    }
}
