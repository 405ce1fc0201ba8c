package cedrat.oracle.tables;

import cedrat.oracle.log.Log;

/// A log that keeps nothing, and acknowledges at once or on demand.
final class HeldLog implements Log {
    private Listener listener;
    private long appended;
    private boolean isHeld;

    @Override
    public synchronized void open(Replay replay, Listener listener) {
        this.listener = listener;
    }

    @Override
    public int appendsMax() {
        return 1;
    }

    @Override
    public synchronized long append(byte[] bytes, int from, int length) {
        appended++;
        if (!isHeld) {
            listener.acknowledged(appended);
        }
        return appended;
    }

    @Override
    public void forgetBefore(long number) {
        // forgets all at once anyway
    }

    synchronized void hold() {
        isHeld = true;
    }

    synchronized void go() {
        isHeld = false;
        listener.acknowledged(appended);
    }

    @Override
    public void close() {
        // holds nothing
    }
}
