package cedrat.persist.nativestore;

import cedrat.persist.GraphStoreException;

/// Calls that are under way, which whoever closes the store waits for. Those that come later are refused.
///
/// **Threads:** any.
final class CallGate {
    private int calls;
    private boolean isClosed;

    /// A call begins; [#leave] ends it.
    void enter() throws GraphStoreException {
        if (!tryEnter()) {
            throw new GraphStoreException("the store is closed: open it again", null, true);
        }
    }

    /// A call begins, unless the store closes: then this returns false.
    synchronized boolean tryEnter() {
        if (!isClosed) {
            calls++;
        }
        return !isClosed;
    }

    synchronized void leave() {
        calls--;
        if (calls == 0) {
            notifyAll();
        }
    }

    /// From here on no call begins.
    synchronized void close() {
        isClosed = true;
    }

    synchronized boolean isClosed() {
        return isClosed;
    }

    /// Waits until those that have begun have come to their ends.
    synchronized void awaitCalls() {
        boolean wasInterrupted = false;
        while (calls > 0) {
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
