package cedrat.oracle.log.contract;

import cedrat.oracle.log.Log;
import java.util.ArrayList;
import java.util.List;

/// Listener that records the calls of a log, for tests that wait for them.
public final class RecordingListener implements Log.Listener {
    private final List<Long> acknowledged = new ArrayList<>();
    private final List<Exception> failures = new ArrayList<>();
    private boolean mayBeCalled = true;
    private boolean wasCalledAfterEnd;

    /// Has recorded nothing.
    public RecordingListener() {}

    @Override
    public synchronized void acknowledged(long number) {
        wasCalledAfterEnd |= !mayBeCalled || !failures.isEmpty();
        acknowledged.add(number);
        notifyAll();
    }

    @Override
    public synchronized void failed(Exception cause) {
        wasCalledAfterEnd |= !mayBeCalled || !failures.isEmpty();
        failures.add(cause);
        notifyAll();
    }

    /// The greatest number that was acknowledged; 0 if none was.
    public synchronized long newest() {
        return acknowledged.isEmpty() ? 0 : acknowledged.getLast();
    }

    /// Each number that was acknowledged, in the order of the calls.
    public synchronized List<Long> acknowledged() {
        return List.copyOf(acknowledged);
    }

    /// Returns when this number is acknowledged.
    public synchronized void awaitAcknowledged(long number) throws InterruptedException {
        while (newest() < number) {
            if (!failures.isEmpty()) {
                throw new AssertionError("the log has failed", failures.getFirst());
            }
            wait();
        }
    }

    /// Returns when this number is acknowledged, or the log has failed.
    public synchronized void awaitAcknowledgedOrFailed(long number) throws InterruptedException {
        while (newest() < number && failures.isEmpty()) {
            wait();
        }
    }

    /// Whether the log has failed.
    public synchronized boolean hasFailed() {
        return !failures.isEmpty();
    }

    /// Returns the cause when the log has failed.
    public synchronized Exception awaitFailed() throws InterruptedException {
        while (failures.isEmpty()) {
            wait();
        }
        return failures.getFirst();
    }

    /// Marks the end: no call is allowed from now on.
    public synchronized void endsHere() {
        mayBeCalled = false;
    }

    /// Whether the log called after a failure, or after [#endsHere].
    public synchronized boolean wasCalledAfterEnd() {
        return wasCalledAfterEnd;
    }
}
