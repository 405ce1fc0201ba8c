package cedrat.persist.lock;

import cedrat.persist.boot.Barrier;
import java.util.concurrent.locks.Lock;

/// Work that continues where the stack ends: see [Barrier#unbroken].
public abstract class Unbroken implements Runnable {
    /// Calls between a caller and [Barrier#unbroken], and several times as many in case that their frames are longer.
    private static final int PROBED_CALLS = 64;

    private boolean isDone;

    /// Does the work.
    protected abstract void work();

    @Override
    public final void run() {
        work();
        isDone = true;
    }

    /// Makes sure that the stack suffices for later work by the same caller.
    public static void probe() {
        Barrier.probe(PROBED_CALLS);
    }

    /// Does the work, which ends normally, or throws what it throws itself.
    public final void complete() {
        if (Thread.currentThread().isVirtual()) {
            // The reserved part belongs to its carrier, which it may leave meanwhile.
            run();
            return;
        }
        try {
            Barrier.unbroken(this);
        } catch (StackOverflowError e) {
            // It is thrown behind work that has come into the reserved part, too.
            if (!isDone) {
                throw e;
            }
        }
    }

    /// Locks. Where the stack ends within [Lock#lock], that method may throw and have locked.
    public static void lock(Lock lock) {
        probe();
        new Unbroken() {
            @Override
            protected void work() {
                lock.lock();
            }
        }.complete();
    }

    /// Unlocks what [#lock] has locked, by the same caller.
    public static void unlock(Lock lock) {
        Unbroken unlocking;
        try {
            unlocking = new Unbroken() {
                @Override
                protected void work() {
                    lock.unlock();
                }
            };
        } catch (OutOfMemoryError e) {
            lock.unlock();
            return;
        }
        unlocking.complete();
    }
}
