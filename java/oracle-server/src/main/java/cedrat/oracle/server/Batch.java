package cedrat.oracle.server;

import io.netty.buffer.ByteBuf;
import java.util.Arrays;

/// The replies that one entry of the log releases. Used again and again.
final class Batch {
    /// The number of the entry.
    long number;
    /// The newest entry that was under way when the first request was answered; 0 if none was.
    long underWay;
    /// The oracle's position behind it.
    long position;
    /// When the first request was answered, and when the entry was appended; by the clock of
    /// `System.nanoTime`.
    long openedNanos;
    long appendedNanos;
    /// Number of requests that were answered.
    int requests;
    /// Bytes of their replies.
    long bytes;
    /// Number of connections that have replies.
    int size;
    Connection[] connections = new Connection[16];
    ByteBuf[] replies = new ByteBuf[16];
    int[] counts = new int[16];
    boolean[] closing = new boolean[16];

    void add(Connection connection) {
        if (size == connections.length) {
            connections = Arrays.copyOf(connections, 2 * size);
            replies = Arrays.copyOf(replies, 2 * size);
            counts = Arrays.copyOf(counts, 2 * size);
            closing = Arrays.copyOf(closing, 2 * size);
        }
        connections[size++] = connection;
    }

    void clear() {
        Arrays.fill(connections, 0, size, null);
        Arrays.fill(replies, 0, size, null);
        size = 0;
        requests = 0;
        bytes = 0;
    }

    /// Gives back replies that will not be sent.
    void drop() {
        for (int at = 0; at < size; at++) {
            replies[at].release();
        }
        clear();
    }
}
