package cedrat.oracle.server.cluster;

import cedrat.oracle.protocol.Protocol;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayDeque;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/// The newest events of a test, in memory, to be printed when it fails. **Threads:** any may call.
public final class Journal {
    private static final int EVENTS_MAX = 4000;
    private static final long NANOS_PER_MS = 1_000_000;

    private final long began = System.nanoTime();
    private final ArrayDeque<Event> events = new ArrayDeque<>();
    /// Events of connections, of which there are so many that others would be lost.
    private final ArrayDeque<Event> connections = new ArrayDeque<>();

    private record Event(long nanos, String text) {}

    /// Records an event.
    public synchronized void record(String event) {
        add(events, event);
    }

    /// Records an event of a connection.
    synchronized void recordConnection(String event) {
        add(connections, event);
    }

    private void add(ArrayDeque<Event> to, String event) {
        if (to.size() == EVENTS_MAX) {
            to.remove();
        }
        to.add(new Event(System.nanoTime() - began, event));
    }

    /// Returns the events in their order, one in a line.
    @Override
    public synchronized String toString() {
        return Stream.concat(events.stream(), connections.stream())
                .sorted(Comparator.comparingLong(Event::nanos))
                .map(event -> event.nanos / NANOS_PER_MS + " ms: " + event.text)
                .collect(Collectors.joining("\n"));
    }

    /// Returns a tap of the requests that a connection of this name delivers.
    Tap tap(String connection) {
        return new Tap(connection);
    }

    /// Records requests about sessions among the bytes that a connection delivers. For one thread at a time.
    final class Tap {
        private static final int KIND = 4;
        private static final int HELLO_SESSION = Protocol.HEADER_BYTES + 16;

        private final String connection;
        private byte[] rest = {};

        private Tap(String connection) {
            this.connection = connection;
        }

        void pass(byte[] bytes, int count) {
            ByteArrayOutputStream all = new ByteArrayOutputStream(rest.length + count);
            all.writeBytes(rest);
            all.write(bytes, 0, count);
            ByteBuffer left = ByteBuffer.wrap(all.toByteArray()).order(ByteOrder.LITTLE_ENDIAN);
            while (left.remaining() >= Protocol.HEADER_BYTES && left.remaining() >= length(left)) {
                int length = length(left);
                note(left.slice(left.position(), length).order(ByteOrder.LITTLE_ENDIAN));
                left.position(left.position() + length);
            }
            rest = new byte[left.remaining()];
            left.get(rest);
        }

        private static int length(ByteBuffer frame) {
            return Integer.BYTES + frame.getInt(frame.position());
        }

        private void note(ByteBuffer frame) {
            boolean isLast = frame.get(KIND + 1) != 0;
            switch (frame.get(KIND)) {
                case Protocol.HELLO ->
                    recordConnection(connection + " hello of session "
                            + HexFormat.of().toHexDigits(frame.getLong(HELLO_SESSION)));
                case Protocol.NAMESPACE ->
                    recordConnection(connection + " namespace " + frame.getLong(Protocol.HEADER_BYTES)
                            + (isLast ? " while open" : ""));
                case Protocol.ANNOUNCE -> {
                    int starts = (frame.limit() - Protocol.HEADER_BYTES) / Long.BYTES;
                    recordConnection(connection + " announces " + starts + " transactions"
                            + (starts == 1 ? ": " + frame.getLong(Protocol.HEADER_BYTES) : "")
                            + (isLast ? "" : ", and more"));
                }
                case Protocol.CLOSE -> recordConnection(connection + " close");
                default -> {
                    // of a transaction
                }
            }
        }
    }
}
