package cedrat.persist.woven.lock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.DeadlockException;
import cedrat.persist.Elsewhere;
import cedrat.persist.RwLock;
import cedrat.persist.Transaction;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.ConcurrentModificationException;
import java.util.Iterator;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// J3: what several threads do in transactions at a time.
@Timeout(60)
class LocksTest {
    private static final class Account {
        int balance;
        int changes;
    }

    private static int total;

    private final ExecutorService threads =
            Executors.newThreadPerTaskExecutor(Thread.ofPlatform().daemon().factory());

    @AfterEach
    void end() {
        threads.shutdownNow();
    }

    /// Starts `work`, and returns when its thread waits for a lock.
    private Future<?> startAndWait(Runnable work) {
        Thread[] started = new Thread[1];
        CountDownLatch isStarted = new CountDownLatch(1);
        Future<?> future = Elsewhere.submit(threads, () -> {
            started[0] = Thread.currentThread();
            isStarted.countDown();
            work.run();
        });
        try {
            isStarted.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
        while (LockSupport.getBlocker(started[0]) == null && !future.isDone()) {
            Thread.onSpinWait();
        }
        assertFalse(future.isDone(), "it should wait");
        return future;
    }

    private <T> T elsewhere(Callable<T> work) throws Exception {
        return Elsewhere.submit(threads, work).get();
    }

    /// J3.
    @Test
    void rollbackKeepsWritesOfOthers() throws Exception {
        Account account = new Account();
        Future<?> other;
        try (var transaction = Transaction.begin()) {
            account.balance = 1;
            other = startAndWait(() -> Transaction.run(() -> {
                account.balance = 10;
            }));
            transaction.rollback();
        }
        other.get();
        assertEquals(10, account.balance);
    }

    @Test
    void waiterRestoresValuesCommittedMeanwhile() throws Exception {
        Account account = new Account();
        int[] array = new int[1];
        List<Future<?>> others = new ArrayList<>();
        try (var transaction = Transaction.begin()) {
            account.balance = 5;
            array[0] = 5;
            total = 5;
            others.add(startAndWait(() -> Transaction.run(inner -> {
                account.balance = 1;
                inner.rollback();
            })));
            others.add(startAndWait(() -> Transaction.run(inner -> {
                array[0] = 1;
                inner.rollback();
            })));
            others.add(startAndWait(() -> Transaction.run(inner -> {
                total = 1;
                inner.rollback();
            })));
            account.balance = 6;
            array[0] = 6;
            total = 6;
            transaction.commit();
        }
        for (Future<?> other : others) {
            other.get();
        }
        assertEquals(List.of(6, 6, 6), List.of(account.balance, array[0], total));
    }

    /// J3.
    @Test
    void staticsAndArraysAreLockedToo() throws Exception {
        int[] array = new int[1];
        total = 0;
        Future<?> first;
        Future<?> second;
        try (var transaction = Transaction.begin()) {
            total = 5;
            array[0] = 5;
            first = startAndWait(() -> Transaction.run(() -> {
                total = 1;
            }));
            second = startAndWait(() -> Transaction.run(() -> {
                array[0] = 1;
            }));
            transaction.rollback();
        }
        first.get();
        second.get();
        assertEquals(1, total);
        assertEquals(1, array[0]);
    }

    /// J3.
    @Test
    void locksOfNestedLastUntilOutermostEnds() throws Exception {
        Account account = new Account();
        Future<?> other;
        try (var outer = Transaction.begin()) {
            try (var inner = Transaction.begin()) {
                account.balance = 1;
                inner.rollback();
            }
            other = startAndWait(() -> Transaction.run(() -> {
                account.balance = 7;
            }));
            assertEquals(0, account.balance);
            outer.commit();
        }
        other.get();
        assertEquals(7, account.balance);
    }

    private static class Counted {
        static int count;
    }

    private static final class Inherited extends Counted {}

    /// J3, J2e.
    @Test
    void assignmentOutsideRefusesLockedObject() throws Exception {
        Account account = new Account();
        Account read = new Account();
        total = 0;
        try (var transaction = Transaction.begin()) {
            account.balance = 1;
            total = 1;
            Counted.count = 1;
            RwLock.acquireRead(read);
            for (Runnable store : List.<Runnable>of(
                    () -> account.changes = 1, () -> read.balance = 2, () -> total = 2, () -> Inherited.count = 2)) {
                elsewhere(() -> assertThrows(IllegalStateException.class, store::run));
            }
            Account free = new Account();
            elsewhere(() -> {
                free.balance = 3;
                return null;
            });
            transaction.commit();
        }
        assertEquals(1, account.balance);
        assertEquals(0, account.changes);
        elsewhere(() -> account.changes = 2);
        assertEquals(2, account.changes);
    }

    @Test
    void readersShareAndWritersWait() throws Exception {
        Account account = new Account();
        Future<?> writer;
        try (var transaction = Transaction.begin()) {
            RwLock.acquireRead(account);
            elsewhere(() -> {
                Transaction.run(() -> RwLock.acquireRead(account));
                return null;
            });
            writer = startAndWait(() -> Transaction.run(() -> RwLock.acquireWrite(account)));
            // Later readers do not overtake the writer; present readers may read on.
            Future<?> reader = startAndWait(() -> Transaction.run(() -> RwLock.acquireRead(account)));
            RwLock.acquireRead(account);
            transaction.commit();
            writer.get();
            reader.get();
        }
    }

    @Test
    void lastReaderBecomesWriter() throws Exception {
        Account account = new Account();
        Future<?> upgrading;
        try (var transaction = Transaction.begin()) {
            RwLock.acquireRead(account);
            upgrading = startAndWait(() -> Transaction.run(() -> {
                RwLock.acquireRead(account);
                account.balance = 3;
            }));
            assertEquals(0, account.balance);
            transaction.commit();
        }
        upgrading.get();
        assertEquals(3, account.balance);
    }

    @Test
    void deadlockRollsBackOneVictim() throws Exception {
        Account first = new Account();
        Account second = new Account();
        CyclicBarrier bothHaveOne = new CyclicBarrier(2);
        AtomicInteger victims = new AtomicInteger();
        List<Future<?>> both = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            Account own = i == 0 ? first : second;
            Account others = i == 0 ? second : first;
            both.add(Elsewhere.submit(threads, () -> {
                try (var transaction = Transaction.begin()) {
                    own.balance = 1;
                    bothHaveOne.await();
                    try {
                        others.changes = 1;
                        transaction.commit();
                    } catch (DeadlockException e) {
                        assertFalse(transaction.isOpen());
                        assertThrows(DeadlockException.class, () -> own.balance = 2);
                        assertThrows(DeadlockException.class, transaction::commit);
                        assertThrows(DeadlockException.class, () -> RwLock.acquireRead(own));
                        throw e;
                    }
                } catch (DeadlockException e) {
                    victims.incrementAndGet();
                }
                return null;
            }));
        }
        for (Future<?> one : both) {
            one.get();
        }
        assertEquals(1, victims.get());
        assertEquals(1, first.balance + second.balance);
        assertEquals(1, first.changes + second.changes);
        assertEquals(0, first.balance * first.changes, "one has written to both");
    }

    /// By itself or by reflection, which does so too.
    @Test
    void victimThatWrapsTheExceptionRunsAgain() throws Exception {
        Account mine = new Account();
        Account others = new Account();
        Method write = LocksTest.class.getDeclaredMethod("write", Account.class);
        Future<?> other;
        try (var transaction = Transaction.begin()) {
            mine.balance = 1;
            // It is the younger one, and so the victim.
            other = startAndWait(() -> Transaction.run(() -> {
                others.balance = 2;
                try {
                    write.invoke(null, mine);
                } catch (ReflectiveOperationException e) {
                    throw new IllegalStateException("a program's own", e);
                }
            }));
            others.balance = 1;
            transaction.commit();
        }
        other.get();
        assertEquals(List.of(2, 2), List.of(mine.balance, others.balance));
    }

    private static void write(Account account) {
        account.balance = 2;
    }

    @Test
    void aVictimRestoresItsLocals() throws Exception {
        Account first = new Account();
        Account second = new Account();
        CyclicBarrier bothHaveOne = new CyclicBarrier(2);
        Callable<Integer> forwards = () -> inOrder(first, second, bothHaveOne);
        Callable<Integer> backwards = () -> inOrder(second, first, bothHaveOne);
        Future<Integer> one = Elsewhere.submit(threads, forwards);
        Future<Integer> other = Elsewhere.submit(threads, backwards);
        assertEquals(1 + 2, one.get() + other.get());
    }

    /// @return 2 after a commit, 1 if it was rolled back
    private static int inOrder(Account first, Account second, CyclicBarrier barrier) throws Exception {
        int result = 1;
        try (var transaction = Transaction.begin()) {
            result = 2;
            first.balance++;
            barrier.await();
            second.balance++;
            transaction.commit();
        } catch (DeadlockException e) {
            assertEquals(1, result);
        }
        return result;
    }

    /// J5.2: a victim is rolled back before its scope is left.
    @Test
    void iteratorsOfVictimStop() throws Exception {
        Account first = new Account();
        Account second = new Account();
        List<Integer> list = new ArrayList<>(List.of(1, 2));
        CountDownLatch hasFirst = new CountDownLatch(1);
        CountDownLatch mayGoOn = new CountDownLatch(1);
        Future<?> older = Elsewhere.submit(threads, () -> {
            Transaction.run(transaction -> {
                first.balance++;
                hasFirst.countDown();
                mayGoOn.await();
                second.balance++;
            });
            return null;
        });
        hasFirst.await();
        Iterator<Integer> iterator = asVictim(first, second, list, mayGoOn);
        older.get();
        list.add(4);
        assertThrows(ConcurrentModificationException.class, iterator::next);
    }

    private static Iterator<Integer> asVictim(
            Account first, Account second, List<Integer> list, CountDownLatch olderMayGoOn) {
        try (var transaction = Transaction.begin()) {
            second.balance++;
            list.add(3);
            Iterator<Integer> made = list.iterator();
            made.next();
            olderMayGoOn.countDown();
            assertThrows(DeadlockException.class, () -> first.balance++);
            assertFalse(transaction.isOpen());
            return made;
        }
    }

    /// J3.
    /// Transfers in both directions, on many threads, platform and virtual, some rolled back.
    @Test
    void transfersKeepTheTotal() throws Exception {
        Account[] accounts = new Account[8];
        for (int i = 0; i < accounts.length; i++) {
            accounts[i] = new Account();
            accounts[i].balance = 1_000;
        }
        AtomicInteger committed = new AtomicInteger();
        List<Future<?>> all = new ArrayList<>();
        try (ExecutorService virtual = Executors.newVirtualThreadPerTaskExecutor()) {
            for (int i = 0; i < 8; i++) {
                Random random = new Random(i);
                Runnable work = () -> {
                    for (int j = 0; j < 500; j++) {
                        if (transfer(accounts, random)) {
                            committed.incrementAndGet();
                        }
                    }
                };
                all.add(i % 2 == 0 ? Elsewhere.submit(threads, work) : virtual.submit(work));
            }
            for (Future<?> one : all) {
                one.get();
            }
        }
        int sum = 0;
        int changes = 0;
        for (Account account : accounts) {
            sum += account.balance;
            changes += account.changes;
        }
        assertEquals(8_000, sum);
        assertEquals(2 * committed.get(), changes);
        assertTrue(committed.get() > 1_000);
    }

    private static boolean transfer(Account[] accounts, Random random) {
        int from = random.nextInt(accounts.length);
        int to = (from + 1 + random.nextInt(accounts.length - 1)) % accounts.length;
        int amount = random.nextInt(50);
        boolean commits = random.nextInt(4) != 0;
        Transaction.run(transaction -> {
            RwLock.acquireWrite(accounts[from]);
            accounts[from].balance -= amount;
            accounts[from].changes++;
            Thread.yield();
            RwLock.acquireWrite(accounts[to]);
            accounts[to].balance += amount;
            accounts[to].changes++;
            if (!commits) {
                transaction.rollback();
            }
        });
        return commits;
    }
}
