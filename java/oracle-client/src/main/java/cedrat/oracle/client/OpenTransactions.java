package cedrat.oracle.client;

import cedrat.oracle.protocol.Protocol;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;

/// Transactions of a session that may be open. Some of them are *abandoned*: a request about them had no answer, and no
/// other one waits, so that the next server is to end them (C5 of [Pipeline]). For one thread at a time.
final class OpenTransactions {
    private final TimestampSet open = new TimestampSet();
    /// The kind of request that ends each abandoned one, by its start timestamp.
    private final Map<Long, Byte> abandoned = new LinkedHashMap<>();

    /// An abandoned transaction, and the kind of the request that ends it.
    static final class Abandoned {
        final long start;
        final byte request;

        Abandoned(long start, byte request) {
            this.start = start;
            this.request = request;
        }
    }

    void began(long start) {
        open.add(start);
    }

    void decided(long start) {
        open.remove(start);
        abandoned.remove(start);
    }

    /// A request about a transaction is going to be sent, which may end it.
    void asked(long start) {
        abandoned.remove(start);
    }

    /// A request of this kind about a transaction had no answer. One that was to be ended has written nothing.
    void failed(byte request, long start) {
        if (open.contains(start)) {
            abandoned.put(start, request == Protocol.END ? Protocol.END : Protocol.RESOLVE);
        }
    }

    /// Returns an abandoned transaction, which is abandoned no more; `null` if there is none.
    Abandoned next() {
        Iterator<Map.Entry<Long, Byte>> all = abandoned.entrySet().iterator();
        if (!all.hasNext()) {
            return null;
        }
        Map.Entry<Long, Byte> first = all.next();
        Abandoned next = new Abandoned(first.getKey(), first.getValue());
        all.remove();
        return next;
    }

    /// Returns all, in no order.
    long[] toArray() {
        return open.toArray();
    }
}
