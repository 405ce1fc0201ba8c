package cedrat.oracle.server;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.random.RandomGenerator;

/// The log of a process that crashes, without the process: entries that wait for a slow disk are lost with it,
/// but for some of the oldest, and nothing is acknowledged afterwards.
final class CrashableLog implements Log {
    private final Log log;
    private Listener listener;
    /// Entries that have not reached the disk.
    private final ArrayDeque<byte[]> held = new ArrayDeque<>();
    private long numbered;
    /// Number of the newest entry that the next opening finds; 0 while there is no next one.
    private long survived;
    private boolean isHeld;
    /// No entry is kept any more.
    private boolean isFull;
    /// It has failed, and acknowledges nothing any more.
    private volatile boolean isFailed;
    private volatile boolean isDead;

    /// Wraps a fresh log.
    CrashableLog(Log log) {
        this.log = log;
    }

    @Override
    public synchronized void open(Replay replay, Listener listener) throws IOException, DamagedEntryException {
        Replay counted = new Replay() {
            @Override
            public void entry(byte[] bytes, int from, int length) throws DamagedEntryException {
                replay.entry(bytes, from, length);
                numbered++;
            }

            @Override
            public void restart() throws IOException {
                replay.restart();
                numbered = 0;
            }
        };
        this.listener = listener;
        log.open(counted, new Listener() {
            @Override
            public void acknowledged(long number) {
                if (!isDead && !isFailed) {
                    listener.acknowledged(number);
                }
            }

            @Override
            public void failed(Exception cause) {
                if (!isDead) {
                    listener.failed(cause);
                }
            }
        });
    }

    @Override
    public int appendsMax() {
        return log.appendsMax();
    }

    @Override
    public synchronized long append(byte[] bytes, int from, int length) {
        numbered++;
        if (isFull && !isDead) {
            fail();
        } else if (!isDead && isHeld) {
            held.add(Arrays.copyOfRange(bytes, from, from + length));
        } else if (!isDead) {
            log.append(bytes, from, length);
        }
        return numbered;
    }

    @Override
    public synchronized void forgetBefore(long number) {
        if (!isDead) {
            log.forgetBefore(number);
        }
    }

    /// No entry reaches the disk from now on.
    synchronized void hold() {
        isHeld = true;
    }

    /// The appends that have not reached the disk fail, or else the next one, and the log with it.
    synchronized void fill() {
        isFull = true;
        if (!isDead && !held.isEmpty()) {
            held.clear();
            fail();
        }
    }

    private void fail() {
        if (!isFailed) {
            isFailed = true;
            listener.failed(new IOException("no space left on device"));
        }
    }

    /// All entries reach the disk again, also those that were held.
    synchronized void release() {
        isHeld = false;
        if (!isDead) {
            writeHeld(held.size());
        }
    }

    /// The oldest entry that was held reaches the disk, as on a slow one.
    synchronized void releaseOne() {
        if (!isDead && !held.isEmpty()) {
            writeHeld(1);
        }
    }

    private void writeHeld(int count) {
        for (int number = 0; number < count; number++) {
            byte[] entry = held.remove();
            log.append(entry, 0, entry.length);
        }
    }

    /// Loses the entries that have not reached the disk, but for a few of the oldest, and closes the log to all
    /// but its next opening. The server of this one goes on, and gets no acknowledgement.
    void crash(RandomGenerator random) throws IOException {
        synchronized (this) {
            isDead = true;
            writeHeld(random.nextInt(held.size() + 1));
            survived = isFull ? 0 : numbered - held.size();
            held.clear();
        }
        log.close();
    }

    /// Acknowledges the entries of this opening that the next one has found, as if the acknowledgement was late.
    void acknowledgeLate() {
        long number;
        synchronized (this) {
            number = survived;
        }
        if (number > 0) {
            listener.acknowledged(number);
        }
    }

    @Override
    public void close() throws IOException {
        if (!isDead) {
            release();
            log.close();
        }
    }
}
