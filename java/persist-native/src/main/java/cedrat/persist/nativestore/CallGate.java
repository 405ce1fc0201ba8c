package cedrat.persist.nativestore;

import cedrat.persist.GraphStoreException;
import java.util.concurrent.atomic.AtomicInteger;

/// Counter of the calls under way, for which the closing of the store waits. Later calls are refused.
///
/// Each call passes here twice, so that each is one atomic operation.
///
/// **Threads:** any.
final class CallGate {
    /// Amount that is added to the number of calls when the gate closes.
    private static final int CLOSED = Integer.MIN_VALUE;

    private final AtomicInteger calls = new AtomicInteger();

    /// A call begins; [#leave] ends it.
    void enter() throws GraphStoreException {
        if (!tryEnter()) {
            throw new GraphStoreException("the store is closed: open it again", null, true);
        }
    }

    /// A call begins, unless the store closes: then this returns false.
    boolean tryEnter() {
        boolean isOpen = calls.getAndIncrement() >= 0;
        if (!isOpen) {
            leave();
        }
        return isOpen;
    }

    void leave() {
        if (calls.decrementAndGet() == CLOSED) {
            synchronized (this) {
                notifyAll();
            }
        }
    }

    /// From here on no call begins.
    void close() {
        calls.getAndUpdate(number -> number | CLOSED);
    }

    boolean isClosed() {
        return calls.get() < 0;
    }

    /// Waits until those that have begun have come to their ends. It is closed.
    synchronized void awaitCalls() {
        boolean wasInterrupted = false;
        while (calls.get() != CLOSED) {
            try {
                wait();
            } catch (InterruptedException later) {
                wasInterrupted = true;
            }
        }
        if (wasInterrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
