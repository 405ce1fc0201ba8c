package cedrat.oracle.tables;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;

/// Faults of a store and of the threads that call it: calls fail, with an effect, without one, or with one that comes
/// later, and threads pause before and after calls. **Threads:** any may call.
final class Interference implements HookedTables.Hook {
    private static final int PER_MILLE = 1000;

    private final SplittableRandom random;
    private final Set<Thread> suspended = new HashSet<>();
    /// Writes whose call has failed, and that have not reached their table.
    private final List<Runnable> late = new ArrayList<>();
    /// Thread that delivers them; `null` if none does.
    private Thread delivering;
    private long delivered;
    private long lost;
    private int failing;
    private int pausing;
    private boolean isCalm;
    private long resumptions;
    private long failures;
    private long pauses;

    Interference(long seed) {
        random = new SplittableRandom(seed);
    }

    /// Makes so many of a thousand calls fail, and as many threads pause at one.
    synchronized void set(int failPerMille, int pausePerMille) {
        failing = failPerMille;
        pausing = pausePerMille;
    }

    /// Makes a thread pause at its next call.
    synchronized void suspend(Thread thread) {
        suspended.add(thread);
    }

    /// Lets the threads that have paused go on.
    synchronized void resume() {
        resumptions++;
        suspended.clear();
        notifyAll();
    }

    /// Lets every call pass from now on.
    synchronized void calm() {
        isCalm = true;
        notifyAll();
    }

    @Override
    public void reached(HookedTables.Point point, Table table, Bytes row, Mutation mutation) {
        if (pauses()) {
            pause();
        }
        TableException.Effect effect = effect(point);
        if (effect != null) {
            if (point == HookedTables.Point.BEFORE_MUTATE && effect == TableException.Effect.UNKNOWN) {
                keep(() -> table.mutate(row, mutation));
            }
            throw new TableException(effect, "the test fails a call of table " + table.name(), null);
        }
    }

    private synchronized void keep(Runnable write) {
        if (random.nextBoolean()) {
            late.add(write);
        }
    }

    /// Delivers the writes that come late. One that the store below refuses is lost, as a late write may be.
    void deliver() {
        List<Runnable> all;
        synchronized (this) {
            all = List.copyOf(late);
            late.clear();
            delivering = Thread.currentThread();
        }
        for (Runnable write : all) {
            try {
                write.run();
                count(true);
            } catch (TableException refused) {
                count(false);
            }
        }
        synchronized (this) {
            delivering = null;
        }
    }

    private synchronized void count(boolean isDelivered) {
        if (isDelivered) {
            delivered++;
        } else {
            lost++;
        }
    }

    private boolean isSpared() {
        return isCalm || Thread.currentThread() == delivering;
    }

    private synchronized boolean pauses() {
        return !isSpared() && (suspended.contains(Thread.currentThread()) || random.nextInt(PER_MILLE) < pausing);
    }

    private synchronized void pause() {
        pauses++;
        long before = resumptions;
        boolean isInterrupted = false;
        while (!isCalm && resumptions == before) {
            try {
                wait();
            } catch (InterruptedException later) {
                isInterrupted = true;
            }
        }
        if (isInterrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /// Returns the effect of a call that fails; `null` if it does not.
    private synchronized TableException.Effect effect(HookedTables.Point point) {
        if (isSpared() || random.nextInt(PER_MILLE) >= failing) {
            return null;
        }
        failures++;
        boolean mayBeNone =
                switch (point) {
                    case BEFORE_READ, AFTER_READ, BEFORE_MUTATE, BEFORE_MUTATE_IF_MARKED -> true;
                    case AFTER_MUTATE, AFTER_MUTATE_IF_MARKED -> false;
                };
        return mayBeNone && random.nextBoolean() ? TableException.Effect.NONE : TableException.Effect.UNKNOWN;
    }

    /// Returns the numbers of calls that failed, of writes that came late or never, and of threads that paused.
    @Override
    public synchronized String toString() {
        return failures + " calls failed, " + delivered + " writes late, " + lost + " lost, " + pauses
                + " threads paused";
    }
}
