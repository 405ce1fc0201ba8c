package cedrat.oracle.log;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;

/// Makes logs that several servers share, of which one has it at a time: [Log#open] of the others waits for
/// its turn.
///
/// Found as a service (`java.util.ServiceLoader`), so that who does not use such a log need not have what it
/// stands on.
public interface SharedLogs {
    /// Place of such a log, and the name of its user.
    ///
    /// @param zooKeeper the servers of a ZooKeeper: HOST:PORT, with commas between them
    /// @param path the node of ZooKeeper below which all is that the servers of one oracle share
    /// @param sessionTimeout a server that ZooKeeper has not heard for this long loses its turn
    /// @param ledgerBytesMax a ledger that has grown to this length is followed by another; space is freed
    ///     by whole ledgers
    /// @param server description of this server that the others see while it has the turn
    /// @param credentials a file with NAME:PASSWORD, which alone may then access the nodes of ZooKeeper that
    ///     servers make; without it everyone may
    /// @param bookKeeper a file with properties of BookKeeper's client, for example of TLS
    /// @param liveness the address, port 0 for any, of a socket by which other servers notice the end of this
    ///     server's process; without it they wait for the session timeout
    record Place(
            String zooKeeper,
            String path,
            Duration sessionTimeout,
            long ledgerBytesMax,
            String server,
            Optional<Path> credentials,
            Optional<Path> bookKeeper,
            Optional<InetSocketAddress> liveness) {
        private static final Duration TIMEOUT_MIN = Duration.ofMillis(400);
        private static final Duration TIMEOUT_MAX = Duration.ofMinutes(1);

        /// Without the files and the socket.
        public Place(String zooKeeper, String path, Duration sessionTimeout, long ledgerBytesMax, String server) {
            this(
                    zooKeeper,
                    path,
                    sessionTimeout,
                    ledgerBytesMax,
                    server,
                    Optional.empty(),
                    Optional.empty(),
                    Optional.empty());
        }

        /// Checks it.
        public Place {
            Objects.requireNonNull(server);
            Objects.requireNonNull(credentials);
            Objects.requireNonNull(bookKeeper);
            Objects.requireNonNull(liveness);
            check(!zooKeeper.isBlank(), "the address of ZooKeeper is empty: name HOST:PORT");
            check(path.matches("(/[A-Za-z0-9_.-]+)+"), "invalid path of a ZooKeeper node: " + path);
            check(
                    sessionTimeout.compareTo(TIMEOUT_MIN) >= 0 && sessionTimeout.compareTo(TIMEOUT_MAX) <= 0,
                    "invalid session timeout of ZooKeeper; possible are 400 ms to a minute, not " + sessionTimeout);
            check(ledgerBytesMax > 0, "invalid maximum length of a ledger: choose 1 byte or more");
        }

        private static void check(boolean holds, String otherwise) {
            if (!holds) {
                throw new IllegalArgumentException(otherwise);
            }
        }
    }

    /// A fresh log.
    Log make(Place place, OpenMode mode);

    /// Replays the entries of a log that are known to be kept, without affecting the log's owner. Entries that
    /// the owner appends meanwhile, and the last ones before, may be missing.
    ///
    /// @throws IOException if there is none, or it cannot be read
    /// @throws DamagedEntryException as `replay` does
    void read(Place place, Log.Replay replay) throws IOException, DamagedEntryException;
}
