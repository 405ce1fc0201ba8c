package cedrat.persist.lock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// Waits-for cycles among more threads than fit on a stack by recursion.
@Timeout(300)
class CyclesTest {
    private static final int THREADS = 20_000;
    private static final int WAITERS = 200;

    private final Locks locks = new Locks();

    private static void awaitWaiting(Thread thread) {
        while (!String.valueOf(LockSupport.getBlocker(thread)).startsWith("cedrat.persist.lock.Locks")) {
            assertTrue(thread.isAlive(), "it should wait");
            Thread.yield();
        }
    }

    /// Each has an object and waits for that of the next; the last one, the oldest, closes the cycle. Then the
    /// youngest is the victim, and one after the other gets the lock that it waits for.
    @Test
    void cycleIsBrokenAtItsYoungest() throws InterruptedException {
        Object[] objects = new Object[THREADS];
        Locks.Owner[] owners = new Locks.Owner[THREADS];
        for (int i = 0; i < THREADS; i++) {
            objects[i] = new Object();
            owners[i] = new Locks.Owner(i == THREADS - 1 ? 0 : i + 1);
            assertTrue(locks.acquire(owners[i], objects[i], true));
        }
        AtomicInteger victims = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();
        for (int i = THREADS - 2; i >= 0; i--) {
            int mine = i;
            Thread thread = Thread.ofVirtual().start(() -> {
                if (!locks.acquire(owners[mine], objects[mine + 1], true)) {
                    victims.incrementAndGet();
                    assertEquals(THREADS - 2, mine);
                }
                locks.releaseAll(owners[mine]);
            });
            awaitWaiting(thread);
            threads.add(thread);
        }
        assertTrue(locks.acquire(owners[THREADS - 1], objects[0], true));
        locks.releaseAll(owners[THREADS - 1]);
        for (Thread thread : threads) {
            thread.join();
        }
        assertEquals(1, victims.get());
        for (Object object : objects) {
            assertFalse(locks.isLocked(object));
        }
    }

    /// J3.1: only the last of many in a queue can be the victim: it has a lock of the JDK that the owner of the object
    /// waits for.
    @Test
    void jdkLockMakesLastInQueueVictim() throws InterruptedException {
        Object object = new Object();
        ReentrantLock ofJdk = new ReentrantLock();
        Locks.Owner first = new Locks.Owner(0);
        first.thread = Thread.currentThread();
        assertTrue(locks.acquire(first, object, true));
        List<Integer> victims = Collections.synchronizedList(new ArrayList<>());
        List<Thread> threads = new ArrayList<>();
        for (int i = 1; i <= WAITERS; i++) {
            Locks.Owner owner = new Locks.Owner(i);
            boolean isLast = i == WAITERS;
            int mine = i;
            Thread thread = Thread.ofVirtual().start(() -> {
                owner.thread = Thread.currentThread();
                if (isLast) {
                    ofJdk.lock();
                }
                try {
                    if (!locks.acquire(owner, object, true)) {
                        victims.add(mine);
                    }
                    locks.releaseAll(owner);
                } finally {
                    if (isLast) {
                        ofJdk.unlock();
                    }
                }
            });
            awaitWaiting(thread);
            threads.add(thread);
        }
        ofJdk.lockInterruptibly();
        ofJdk.unlock();
        locks.releaseAll(first);
        for (Thread thread : threads) {
            thread.join();
        }
        assertEquals(List.of(WAITERS), victims);
    }

    /// Readers and writers of a few objects in random order: each finishes or is a victim, and nothing stays
    /// locked.
    @Test
    void allWaitsEndAndNothingStaysLocked() throws InterruptedException {
        Object[] objects = new Object[6];
        for (int i = 0; i < objects.length; i++) {
            objects[i] = new Object();
        }
        int[] inside = new int[objects.length];
        AtomicInteger births = new AtomicInteger();
        AtomicInteger wrong = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();
        for (int t = 0; t < 16; t++) {
            SplittableRandom random = new SplittableRandom(t);
            threads.add(Thread.ofVirtual().start(() -> {
                for (int round = 0; round < 500; round++) {
                    Locks.Owner owner = new Locks.Owner(births.incrementAndGet());
                    boolean[] writes = new boolean[objects.length];
                    for (int step = 0; step < 4; step++) {
                        int object = random.nextInt(objects.length);
                        boolean toWrite = random.nextBoolean();
                        if (!locks.acquire(owner, objects[object], toWrite)) {
                            break;
                        }
                        writes[object] |= toWrite;
                        if (writes[object] && inside[object]++ != 0) {
                            wrong.incrementAndGet();
                        }
                        Thread.yield();
                        if (writes[object]) {
                            inside[object]--;
                        }
                    }
                    locks.releaseAll(owner);
                }
            }));
        }
        for (Thread thread : threads) {
            thread.join();
        }
        assertEquals(0, wrong.get());
        for (Object object : objects) {
            assertFalse(locks.isLocked(object));
        }
    }
}
