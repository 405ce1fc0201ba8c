package cedrat.oracle.server;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/// A log in memory that acknowledges at once, or on demand, or never.
final class HeldLog implements Log {
    private final ExecutorService thread = Executors.newSingleThreadExecutor(
            Thread.ofPlatform().name("log").daemon().factory());
    private final int appendsMax;
    /// Entries of earlier openings, and those that were appended.
    private final List<byte[]> entries;
    private Listener listener;
    private int acknowledged;
    private int forgotten;
    private boolean holds;
    private boolean isDead;

    HeldLog() {
        this(1, List.of());
    }

    HeldLog(int appendsMax, List<byte[]> before) {
        this.appendsMax = appendsMax;
        entries = new ArrayList<>(before);
        acknowledged = before.size();
    }

    @Override
    public void open(Replay replay, Listener listener) throws DamagedEntryException {
        for (byte[] entry : entries) {
            replay.entry(entry, 0, entry.length);
        }
        this.listener = listener;
    }

    @Override
    public int appendsMax() {
        return appendsMax;
    }

    @Override
    public synchronized long append(byte[] bytes, int from, int length) {
        Log.checkLength(length);
        byte[] entry = new byte[length];
        System.arraycopy(bytes, from, entry, 0, length);
        entries.add(entry);
        notifyAll();
        int number = entries.size();
        if (!holds && !isDead) {
            thread.execute(() -> acknowledge(number));
        }
        return number;
    }

    @Override
    public synchronized void forgetBefore(long number) {
        if (number > acknowledged) {
            throw new IllegalArgumentException("entry " + number + " is not acknowledged");
        }
        forgotten = Math.max(forgotten, (int) number - 1);
    }

    private void acknowledge(int number) {
        synchronized (this) {
            if (isDead || number <= acknowledged) {
                return;
            }
            acknowledged = number;
        }
        listener.acknowledged(number);
    }

    /// From now on nothing is acknowledged by itself.
    void hold() {
        CompletableFuture.runAsync(
                        () -> {
                            synchronized (this) {
                                holds = true;
                            }
                        },
                        thread)
                .join();
    }

    /// Everything is acknowledged again, also what was held.
    void go() {
        int number;
        synchronized (this) {
            holds = false;
            number = entries.size();
        }
        CompletableFuture.runAsync(() -> acknowledge(number), thread).join();
    }

    /// Acknowledges the appended entries up to this one.
    void acknowledgeUpTo(long number) {
        CompletableFuture.runAsync(() -> acknowledge((int) number), thread).join();
    }

    /// Waits until the server has decided and appended all that it had begun, and has learned that all of it
    /// is acknowledged. Not while this log holds: an entry may wait for the acknowledgement of the one before.
    void settle(OracleServer server) {
        long before;
        do {
            before = appends();
            server.settle();
            CompletableFuture.runAsync(() -> {}, thread).join();
            server.settle();
        } while (appends() > before);
    }

    /// Acknowledges nothing any more, without a call of the listener.
    synchronized void die() {
        isDead = true;
    }

    /// The disk breaks.
    void fail(Exception cause) {
        die();
        CompletableFuture.runAsync(() -> listener.failed(cause), thread).join();
    }

    /// The number of the newest entry.
    synchronized long appends() {
        return entries.size();
    }

    /// Waits until the entry with this number was appended.
    synchronized void awaitAppends(long number) throws InterruptedException {
        while (entries.size() < number) {
            wait();
        }
    }

    /// Returns the entries that a later opening finds at least: those acknowledged and not forgotten.
    synchronized List<byte[]> kept() {
        return List.copyOf(entries.subList(forgotten, acknowledged));
    }

    /// All that was ever acknowledged, as if nothing was forgotten.
    synchronized List<byte[]> everything() {
        return List.copyOf(entries.subList(0, acknowledged));
    }

    /// Returns the entries that a later opening finds if none is lost.
    synchronized List<byte[]> all() {
        return List.copyOf(entries.subList(forgotten, entries.size()));
    }

    @Override
    public void close() {
        boolean waits;
        synchronized (this) {
            waits = !isDead;
        }
        if (waits) {
            go();
        }
        thread.close();
    }
}
