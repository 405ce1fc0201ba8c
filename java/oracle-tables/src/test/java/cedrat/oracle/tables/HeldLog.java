package cedrat.oracle.tables;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/// A log in memory that acknowledges at once or on demand.
final class HeldLog implements Log {
    private final List<byte[]> entries;
    private Listener listener;
    private boolean isHeld;

    HeldLog() {
        this(List.of());
    }

    /// With entries of earlier openings.
    HeldLog(List<byte[]> before) {
        entries = new ArrayList<>(before);
    }

    @Override
    public synchronized void open(Replay replay, Listener listener) throws DamagedEntryException {
        for (byte[] entry : entries) {
            replay.entry(entry, 0, entry.length);
        }
        this.listener = listener;
    }

    @Override
    public int appendsMax() {
        return 1;
    }

    @Override
    public synchronized long append(byte[] bytes, int from, int length) {
        entries.add(Arrays.copyOfRange(bytes, from, from + length));
        if (!isHeld) {
            listener.acknowledged(entries.size());
        }
        return entries.size();
    }

    @Override
    public void forgetBefore(long number) {
        // ends with the test
    }

    synchronized void hold() {
        isHeld = true;
    }

    synchronized void go() {
        isHeld = false;
        listener.acknowledged(entries.size());
    }

    synchronized List<byte[]> kept() {
        return List.copyOf(entries);
    }

    @Override
    public void close() {
        // holds nothing
    }
}
