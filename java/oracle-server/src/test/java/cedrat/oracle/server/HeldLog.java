package cedrat.oracle.server;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/// A log in memory that acknowledges at once, or when it is told to, or never.
final class HeldLog implements Log {
    private final ExecutorService thread = Executors.newSingleThreadExecutor(
            Thread.ofPlatform().name("log").daemon().factory());
    private final int appendsMax;
    private final List<byte[]> before;
    private final List<byte[]> appended = new ArrayList<>();
    private Listener listener;
    private int acknowledged;
    private boolean holds;
    private boolean isDead;

    HeldLog() {
        this(1, List.of());
    }

    HeldLog(int appendsMax, List<byte[]> before) {
        this.appendsMax = appendsMax;
        this.before = before;
    }

    @Override
    public void open(Replay replay, Listener listener) throws DamagedEntryException {
        for (byte[] entry : before) {
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
        byte[] entry = new byte[length];
        System.arraycopy(bytes, from, entry, 0, length);
        appended.add(entry);
        notifyAll();
        int number = appended.size();
        if (!holds && !isDead) {
            thread.execute(() -> acknowledge(number));
        }
        return number;
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
            number = appended.size();
        }
        CompletableFuture.runAsync(() -> acknowledge(number), thread).join();
    }

    /// What was appended up to this one is acknowledged.
    void acknowledgeUpTo(long number) {
        CompletableFuture.runAsync(() -> acknowledge((int) number), thread).join();
    }

    /// Nothing is acknowledged any more, and nobody is told.
    synchronized void die() {
        isDead = true;
    }

    /// The disk breaks.
    void fail(Exception cause) {
        die();
        CompletableFuture.runAsync(() -> listener.failed(cause), thread).join();
    }

    synchronized long appends() {
        return appended.size();
    }

    /// Waits until so many entries were appended.
    synchronized void awaitAppends(long count) throws InterruptedException {
        while (appended.size() < count) {
            wait();
        }
    }

    /// What a later opening finds: all that was acknowledged, and nothing else.
    synchronized List<byte[]> kept() {
        List<byte[]> kept = new ArrayList<>(before);
        kept.addAll(appended.subList(0, acknowledged));
        return kept;
    }

    /// What a later opening finds if it finds everything.
    synchronized List<byte[]> all() {
        List<byte[]> all = new ArrayList<>(before);
        all.addAll(appended);
        return all;
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
