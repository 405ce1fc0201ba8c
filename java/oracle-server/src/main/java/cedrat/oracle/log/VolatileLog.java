package cedrat.oracle.log;

import java.util.Objects;

/// A log that keeps nothing and acknowledges at once: for measuring what persistence costs, and for oracles
/// whose rows are as volatile.
///
/// Everything that L2 promises is void with it: who starts an oracle anew gives out the same timestamps
/// again.
public final class VolatileLog implements Log {
    private Listener listener;
    private long appended;

    /// A fresh one.
    public VolatileLog() {}

    @Override
    public void open(Replay replay, Listener listener) {
        this.listener = Objects.requireNonNull(listener);
    }

    @Override
    public Kind kind() {
        return Kind.NONE;
    }

    @Override
    public int appendsMax() {
        return 1;
    }

    @Override
    public long append(byte[] bytes, int from, int length) {
        checkOpen();
        Log.checkLength(length);
        appended++;
        listener.acknowledged(appended);
        return appended;
    }

    @Override
    public void forgetBefore(long number) {
        checkOpen();
        if (number > appended) {
            throw new IllegalArgumentException(
                    "cannot truncate the log before entry " + number + ", which is not acknowledged");
        }
    }

    private void checkOpen() {
        if (listener == null) {
            throw new IllegalStateException("the log is not open");
        }
    }

    @Override
    public void close() {
        listener = null;
    }
}
