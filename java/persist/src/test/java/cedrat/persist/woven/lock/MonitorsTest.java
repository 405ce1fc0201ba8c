package cedrat.persist.woven.lock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cedrat.persist.DeadlockException;
import cedrat.persist.Elsewhere;
import cedrat.persist.RwLock;
import cedrat.persist.Transaction;
import java.util.ArrayList;
import java.util.List;
import java.util.Vector;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// J3.1: waits for a lock within a monitor.
@Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class MonitorsTest {
    private static final class Account {
        int balance;
        int changes;
    }

    private final ExecutorService threads =
            Executors.newThreadPerTaskExecutor(Thread.ofPlatform().daemon().factory());

    @AfterEach
    void end() {
        threads.shutdownNow();
    }

    /// Starts `work`, and returns when its thread waits for a lock of a transaction.
    private Future<?> startAndWait(Runnable work) throws InterruptedException {
        Thread[] started = new Thread[1];
        CountDownLatch isStarted = new CountDownLatch(1);
        Future<?> future = Elsewhere.submit(threads, () -> {
            started[0] = Thread.currentThread();
            isStarted.countDown();
            work.run();
        });
        isStarted.await();
        while (LockSupport.getBlocker(started[0]) == null && !future.isDone()) {
            Thread.onSpinWait();
        }
        return future;
    }

    /// J3.1: the other one waits for the vector's lock within its monitor, for which this thread waits.
    @Test
    void cycleThroughMonitorIsBroken() throws Exception {
        Vector<Integer> numbers = new Vector<>();
        AtomicInteger runs = new AtomicInteger();
        Future<?> other;
        try (var transaction = Transaction.begin()) {
            numbers.add(1);
            other = startAndWait(() -> Transaction.run(() -> {
                Elsewhere.count(runs);
                numbers.add(3);
            }));
            numbers.add(2);
            transaction.commit();
        }
        other.get();
        assertEquals(List.of(1, 2, 3), numbers);
        assertEquals(true, runs.get() > 1);
    }

    /// J3.1.
    /// To run the transaction again would leave the monitor as it is.
    @Test
    void threadAlreadyInMonitorIsVictim() throws Exception {
        Account account = new Account();
        Object monitor = new Object();
        Future<?> other;
        try (var transaction = Transaction.begin()) {
            account.balance = 1;
            other = startAndWait(() -> {
                synchronized (monitor) {
                    assertThrows(
                            DeadlockException.class,
                            () -> Transaction.run(() -> {
                                account.balance = 2;
                            }));
                }
            });
            synchronized (monitor) {
                account.balance++;
            }
            transaction.commit();
        }
        other.get();
        assertEquals(2, account.balance);
    }

    /// J3.1: it has a lock of `java.util.concurrent`, whose owner is known though it is a virtual thread.
    @Test
    void virtualThreadWithLockIsVictim() throws Exception {
        Account account = new Account();
        ReentrantLock lock = new ReentrantLock();
        FutureTask<Void> task = new FutureTask<>(
                () -> {
                    lock.lock();
                    try {
                        assertThrows(
                                DeadlockException.class,
                                () -> Transaction.run(() -> {
                                    account.balance = 3;
                                }));
                    } finally {
                        lock.unlock();
                    }
                },
                null);
        Thread other = Thread.ofVirtual().unstarted(task);
        try (var transaction = Transaction.begin()) {
            account.balance = 1;
            Elsewhere.start(other);
            while (LockSupport.getBlocker(other) == null && !task.isDone()) {
                Thread.onSpinWait();
            }
            lock.lock();
            try {
                account.balance++;
            } finally {
                lock.unlock();
            }
            transaction.commit();
        }
        task.get();
        assertEquals(2, account.balance);
    }

    /// J3.1: a waits for B's lock, B's thread for a monitor of C's, which waits for A's lock.
    @Test
    void longerCycleIsBroken() throws Exception {
        Account first = new Account();
        Account second = new Account();
        Object monitor = new Object();
        List<Future<?>> others = new ArrayList<>();
        try (var transaction = Transaction.begin()) {
            second.balance = 1;
            CountDownLatch hasFirst = new CountDownLatch(1);
            others.add(Elsewhere.submit(
                    threads,
                    () -> Transaction.run(() -> {
                        RwLock.acquireWrite(first);
                        hasFirst.countDown();
                        second.changes = 1;
                    })));
            hasFirst.await();
            others.add(startAndWait(() -> {
                Transaction.run(() -> {
                    synchronized (monitor) {
                        first.changes = 1;
                    }
                });
            }));
            synchronized (monitor) {
                second.balance++;
            }
            transaction.commit();
        }
        for (Future<?> other : others) {
            other.get();
        }
        assertEquals(1, first.changes);
        assertEquals(2, second.balance);
        assertEquals(1, second.changes);
    }
}
