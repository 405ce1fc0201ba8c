package cedrat.oracle.server;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.LogExistsException;
import cedrat.oracle.log.OpenMode;
import java.io.IOException;
import java.util.function.Supplier;

/// Appends entries to a log on behalf of a command. For one thread, beside that of the log.
final class LogFiller implements Log.Listener, AutoCloseable {
    /// Entries without acknowledgement at which an append waits.
    private static final int IN_FLIGHT_MAX = 64;

    private final Log log;
    private long appended;
    // Guarded by this object.
    private long acknowledged;
    private Exception failure;

    /// A log that is to be opened.
    LogFiller(Log log) {
        this.log = log;
    }

    /// Checks the entries of a log that is not to be overwritten.
    interface Begun extends Log.Replay {
        /// Whether all of them come from a command that was interrupted, and may be repeated.
        boolean mayContinue();
    }

    /// Opens a log that is to be filled: one without entries, which is created if it is missing; or one that an
    /// interrupted command has begun.
    ///
    /// @throws LogExistsException if it has other entries; it was not changed, and is not taken from its servers
    static LogFiller begin(LogAccess place, String command, Supplier<? extends Begun> check)
            throws IOException, DamagedEntryException {
        LogFiller fresh = new LogFiller(place.make(OpenMode.CREATE_NEW, command));
        try {
            fresh.open(check.get());
            return fresh;
        } catch (LogExistsException exists) {
            Begun seen = check.get();
            place.read(seen);
            if (!seen.mayContinue()) {
                throw exists;
            }
            return resume(place, command, check.get(), exists);
        }
    }

    private static LogFiller resume(LogAccess place, String command, Begun check, LogExistsException exists)
            throws IOException, DamagedEntryException {
        LogFiller begun = new LogFiller(place.make(OpenMode.EXISTING, command));
        begun.open(check);
        if (!check.mayContinue()) {
            try (begun) {
                throw exists;
            }
        }
        return begun;
    }

    /// Opens the log; `replay` receives its entries.
    void open(Log.Replay replay) throws IOException, DamagedEntryException {
        long[] count = {0};
        log.open(
                (bytes, from, length) -> {
                    count[0]++;
                    replay.entry(bytes, from, length);
                },
                this);
        appended = count[0];
        synchronized (this) {
            acknowledged = appended;
        }
    }

    @Override
    public synchronized void acknowledged(long number) {
        acknowledged = number;
        notifyAll();
    }

    @Override
    public synchronized void failed(Exception cause) {
        failure = cause;
        notifyAll();
    }

    /// Appends an entry.
    void append(byte[] bytes, int from, int length) throws IOException {
        await(appended - IN_FLIGHT_MAX);
        appended = log.append(bytes, from, length);
    }

    /// Appends an entry, and returns when it is acknowledged.
    void appendDurably(byte[] entry) throws IOException {
        append(entry, 0, entry.length);
        await();
    }

    /// Waits until all entries are acknowledged.
    void await() throws IOException {
        await(appended);
    }

    private synchronized void await(long number) throws IOException {
        try {
            while (acknowledged < number && failure == null) {
                wait();
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IOException("the thread was interrupted before the log was written", interrupted);
        }
        if (failure != null) {
            throw new IOException(failure.getMessage(), failure);
        }
    }

    @Override
    public void close() throws IOException {
        log.close();
    }
}
