package cedrat.persist.woven.branch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cedrat.persist.DeadlockException;
import cedrat.persist.Transaction;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import org.junit.jupiter.api.Test;

/// Locks of branches, and waits for them.
class BranchLocksTest extends BranchFixture {
    /// J11.2: a transaction that would change it waits for the outcome. Were it not so, the rollback would take both
    /// changes back.
    @Test
    void preparedObjectsStayLocked() throws Exception {
        transfer(ONE);
        resource.prepare(ONE);
        Account here = account("here");
        Thread other = Thread.ofPlatform().start(() -> Transaction.run(() -> here.balance = 5));
        Set<Thread.State> waiting = Set.of(Thread.State.WAITING, Thread.State.TIMED_WAITING);
        while (!waiting.contains(other.getState()) && other.isAlive()) {
            Thread.onSpinWait();
        }
        resource.rollback(ONE);
        other.join();
        assertEquals(5, here.balance);
        assertThrows(IllegalStateException.class, () -> here.balance++, "outside of a transaction");
    }

    /// The victim of a deadlock is the younger one, which is the branch.
    @Test
    void deadlockVictimIsRolledBack() throws Exception {
        Account here = account("here");
        Account there = account("there");
        CountDownLatch hasThere = new CountDownLatch(1);
        CountDownLatch hasHere = new CountDownLatch(1);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        Thread other = Thread.ofPlatform().start(() -> {
            try {
                Transaction.<InterruptedException>run(() -> {
                    there.balance = 1;
                    hasThere.countDown();
                    hasHere.await();
                    here.balance = 1;
                });
            } catch (InterruptedException e) {
                failure.set(e);
            }
        });
        hasThere.await();
        resource.start(ONE, XAResource.TMNOFLAGS);
        assertThrows(
                DeadlockException.class,
                () -> Transaction.run(() -> {
                    here.balance = 2;
                    hasHere.countDown();
                    there.balance = 2;
                }));
        fails(XAException.XA_RBDEADLOCK, () -> resource.end(ONE, XAResource.TMSUCCESS));
        resource.rollback(ONE);
        other.join();
        assertNull(failure.get());
        assertEquals(1, here.balance);
        assertEquals(1, there.balance);
    }

    private static Thread.State stateWhenItWaits(Thread thread) {
        Set<Thread.State> waiting = Set.of(Thread.State.WAITING, Thread.State.BLOCKED, Thread.State.TERMINATED);
        while (!waiting.contains(thread.getState())) {
            Thread.onSpinWait();
        }
        return thread.getState();
    }

    private static void failsLater(int code, FutureTask<Integer> task) {
        fails(code, () -> {
            try {
                task.get();
            } catch (ExecutionException e) {
                throw (Exception) e.getCause();
            }
        });
    }

    private int end(boolean inOnePhase) throws XAException {
        if (inOnePhase) {
            resource.commit(ONE, true);
            return XAResource.XA_OK;
        }
        return resource.prepare(ONE);
    }

    private interface WhileItWaits {
        void run(FutureTask<Integer> ending) throws Exception;
    }

    /// A branch is to end, and waits for the lock of an object that it makes persistent while `meanwhile` runs.
    private void endsLate(boolean inOnePhase, WhileItWaits meanwhile) throws Exception {
        Account made = new Account(1);
        CountDownLatch isLocked = new CountDownLatch(1);
        CountDownLatch mayGo = new CountDownLatch(1);
        FutureTask<Integer> holder = start(() -> Transaction.<Integer, Exception>call(() -> {
            made.balance++;
            isLocked.countDown();
            mayGo.await();
            return 0;
        }));
        isLocked.await();
        inBranch(ONE, () -> account("here").friend = made);
        AtomicReference<Thread> thread = new AtomicReference<>();
        FutureTask<Integer> ending = start(() -> {
            thread.set(Thread.currentThread());
            return end(inOnePhase);
        });
        while (thread.get() == null
                || !String.valueOf(LockSupport.getBlocker(thread.get())).startsWith("cedrat.persist.lock.Locks")) {
            Thread.onSpinWait();
        }
        FutureTask<Integer> step = start(() -> {
            meanwhile.run(ending);
            return 0;
        });
        try {
            step.get(20, TimeUnit.SECONDS);
        } finally {
            mayGo.countDown();
            holder.get();
        }
    }

    /// J11.11.
    @Test
    void branchWaitingForLockBlocksNoThread() throws Exception {
        for (boolean inOnePhase : new boolean[] {false, true}) {
            endsLate(inOnePhase, ending -> {
                assertEquals(0, resource.recover(XAResource.TMSTARTRSCAN).length);
                assertThrows(IllegalStateException.class, store::close);
                fails(XAException.XAER_PROTO, () -> resource.commit(ONE, false));
                fails(XAException.XAER_PROTO, () -> resource.prepare(ONE));
                resource.rollback(ONE);
                failsLater(XAException.XA_RBROLLBACK, ending);
                fails(XAException.XAER_NOTA, () -> resource.rollback(ONE));
                assertNull(account("here").friend);
            });
        }
        reopen();
        assertNull(account("here").friend);
    }

    /// J11.11.
    @Test
    void branchWaitingTooLongIsRolledBack() throws Exception {
        resource.setTransactionTimeout(10);
        for (boolean inOnePhase : new boolean[] {false, true}) {
            AtomicReference<FutureTask<Integer>> late = new AtomicReference<>();
            endsLate(inOnePhase, ending -> {
                late.set(ending);
                clock.goOn(TimeUnit.SECONDS.toNanos(11));
            });
            failsLater(XAException.XA_RBTIMEOUT, late.get());
            assertNull(account("here").friend);
            fails(XAException.XAER_NOTA, () -> resource.rollback(ONE));
        }
        reopen();
        assertNull(account("here").friend);
    }

    /// J11.11: what the store is writing down it finishes, and a rollback knows how.
    @Test
    void rollbackWaitsForWritesOfTheStore() throws Exception {
        openFailing();
        for (boolean inOnePhase : new boolean[] {false, true}) {
            CountDownLatch isWriting = new CountDownLatch(1);
            CountDownLatch mayGo = new CountDownLatch(1);
            before.put(inOnePhase ? "commit" : "prepare", () -> {
                isWriting.countDown();
                mayGo.await();
            });
            transfer(ONE);
            FutureTask<Integer> ending = start(() -> end(inOnePhase));
            isWriting.await();
            assertEquals(0, resource.recover(XAResource.TMSTARTRSCAN).length);
            AtomicReference<XAException> refused = new AtomicReference<>();
            Thread rollback = Thread.ofPlatform().start(() -> {
                try {
                    resource.rollback(ONE);
                } catch (XAException e) {
                    refused.set(e);
                }
            });
            assertEquals(Thread.State.WAITING, stateWhenItWaits(rollback));
            mayGo.countDown();
            rollback.join();
            before.clear();
            assertEquals(XAResource.XA_OK, ending.get());
            assertEquals(inOnePhase ? XAException.XAER_NOTA : 0, refused.get() == null ? 0 : refused.get().errorCode);
            assertEquals(inOnePhase ? 70 : 100, account("here").balance);
            assertEquals(0, resource.recover(XAResource.TMSTARTRSCAN).length);
        }
    }
}
