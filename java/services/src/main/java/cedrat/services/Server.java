package cedrat.services;

import java.io.IOException;
import java.time.Instant;

/// A server of a [Cluster].
///
/// @param name its name, without blanks
/// @param address where clients find it, `HOST:PORT`
/// @param preparation makes ready what it needs, and returns the program
/// @param health whether it answers
record Server(String name, String address, Preparation preparation, Health health) {
    /// Makes ready what a server needs at each start, such as its configuration and, before the first one, its
    /// empty data.
    @FunctionalInterface
    interface Preparation {
        Command prepare() throws IOException;
    }

    /// Asks a server that was started at about this time.
    @FunctionalInterface
    interface Health {
        /// Whether it answers; an exception is a no as well.
        boolean answers(Instant started) throws IOException;
    }

    int port() {
        return Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
    }
}
