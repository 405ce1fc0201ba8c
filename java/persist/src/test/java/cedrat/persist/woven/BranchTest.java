package cedrat.persist.woven;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.Clock;
import cedrat.persist.DeadlockException;
import cedrat.persist.GraphStore;
import cedrat.persist.GraphStoreException;
import cedrat.persist.InDoubtException;
import cedrat.persist.MemoryGraph;
import cedrat.persist.Persistence;
import cedrat.persist.PersistenceException;
import cedrat.persist.PersistenceOptions;
import cedrat.persist.Transaction;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/// Transactions over several stores, as a transaction manager drives them.
class BranchTest {
    record Id(int format, byte[] global, byte[] branch) implements Xid {
        @Override
        public int getFormatId() {
            return format;
        }

        @Override
        public byte[] getGlobalTransactionId() {
            return global.clone();
        }

        @Override
        public byte[] getBranchQualifier() {
            return branch.clone();
        }

        boolean is(Xid other) {
            return other.getFormatId() == format
                    && Arrays.equals(other.getGlobalTransactionId(), global)
                    && Arrays.equals(other.getBranchQualifier(), branch);
        }
    }

    private static final class Account {
        long balance;
        Account friend;

        Account(long balance) {
            this.balance = balance;
        }
    }

    private interface Step {
        void run() throws Exception;
    }

    private static final Id ONE = new Id(7, new byte[] {1, 2}, new byte[] {3});
    private static final Id OTHER = new Id(7, new byte[] {1, 2}, new byte[0]);

    private final MemoryGraph graph = new MemoryGraph();
    private final Clock clock = new Clock();
    /// By names of methods of [GraphStore].
    private final Map<String, Throwable> failures = new ConcurrentHashMap<>();
    /// What is done before a method of [GraphStore] is called.
    private final Map<String, Step> before = new ConcurrentHashMap<>();
    private Persistence store;
    private XAResource resource;

    @BeforeEach
    void open() {
        store = Persistence.open(graph.open(), clock.options());
        resource = store.xaResource();
        if (!store.restarted()) {
            store.mark("accounts", new TreeMap<>(Map.of("here", new Account(100), "there", new Account(1000))));
            store.mark("alone", new Account(5));
        }
    }

    @AfterEach
    void close() {
        store.close();
    }

    private void reopen() {
        store.close();
        open();
    }

    private Account account(String name) {
        return store.<Map<String, Account>>lookup("accounts").get(name);
    }

    /// A store whose methods throw what is put into [#failures].
    private GraphStore failing(GraphStore within) {
        InvocationHandler handler = (_, method, arguments) -> {
            Throwable failure = failures.get(method.getName());
            if (failure != null) {
                throw failure;
            }
            before.getOrDefault(method.getName(), () -> {}).run();
            try {
                return method.invoke(within, arguments);
            } catch (InvocationTargetException e) {
                throw e.getCause();
            }
        };
        return (GraphStore)
                Proxy.newProxyInstance(BranchTest.class.getClassLoader(), new Class<?>[] {GraphStore.class}, handler);
    }

    private static void fails(int code, Step step) {
        XAException failure = assertThrows(XAException.class, step::run);
        assertEquals(code, failure.errorCode, failure.getMessage());
    }

    private void inBranch(Id id, Runnable work) throws XAException {
        resource.start(id, XAResource.TMNOFLAGS);
        Transaction.run(work::run);
        resource.end(id, XAResource.TMSUCCESS);
    }

    private void transfer(Id id) throws XAException {
        inBranch(id, () -> {
            account("here").balance -= 30;
            account("here").friend = new Account(1);
        });
    }

    private static void onAnotherThread(Step step) throws Exception {
        AtomicReference<Throwable> failure = new AtomicReference<>();
        Thread thread = Thread.ofPlatform().start(() -> {
            try {
                step.run();
            } catch (Throwable e) {
                failure.set(e);
            }
        });
        thread.join();
        assertNull(failure.get());
    }

    @Test
    void aBranchCommitsInTwoPhases() throws Exception {
        transfer(ONE);
        assertEquals(XAResource.XA_OK, resource.prepare(ONE));
        // On a thread that has nothing to do with it, by another resource of the same store.
        onAnotherThread(() -> store.xaResource().commit(ONE, false));
        assertEquals(70, account("here").balance);
        Transaction.run(() -> account("here").friend.balance++);
        reopen();
        assertEquals(70, account("here").balance);
        assertEquals(2, account("here").friend.balance);
        assertEquals(0, resource.recover(XAResource.TMSTARTRSCAN).length);
    }

    @Test
    void aBranchCommitsInOnePhase() throws Exception {
        transfer(ONE);
        resource.commit(ONE, true);
        reopen();
        assertEquals(70, account("here").balance);
        fails(XAException.XAER_NOTA, () -> resource.commit(ONE, true));
    }

    @Test
    void whatRollsBackIsAsItWas() throws Exception {
        AtomicReference<Account> made = new AtomicReference<>();
        for (boolean isPrepared : new boolean[] {false, true}) {
            transfer(ONE);
            made.set(account("here").friend);
            if (isPrepared) {
                resource.prepare(ONE);
            }
            onAnotherThread(() -> resource.rollback(ONE));
            assertEquals(100, account("here").balance);
            assertNull(account("here").friend);
            // It is nobody's, and may become persistent after all.
            Transaction.run(() -> account("there").friend = made.get());
            reopen();
            assertEquals(100, account("here").balance);
            assertEquals(1, account("there").friend.balance);
        }
    }

    /// J11.2: who would change it waits for the outcome. Were it not so, the rollback would take both
    /// changes back.
    @Test
    void whatIsPreparedStaysLocked() throws Exception {
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

    /// J11.4.
    @Test
    void whatIsInDoubtIsNotToBeHad() throws Exception {
        inBranch(ONE, () -> {
            account("here").balance -= 30;
            store.mark("alone", new Account(6));
            store.mark("new", new Account(7));
        });
        inBranch(OTHER, () -> account("there").balance += 30);
        resource.prepare(ONE);
        resource.prepare(OTHER);
        for (boolean commits : new boolean[] {true, false}) {
            Id id = commits ? ONE : OTHER;
            reopen();
            List<Xid> known = List.of(resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN));
            assertEquals(commits ? 2 : 1, known.size());
            Xid found = known.stream().filter(id::is).findFirst().orElseThrow();
            InDoubtException refused = assertThrows(InDoubtException.class, () -> store.lookup("accounts"));
            assertTrue(refused.getMessage().contains("0000000702010203") || !commits, refused.getMessage());
            if (commits) {
                assertThrows(InDoubtException.class, () -> store.lookup("alone"));
                assertThrows(InDoubtException.class, () -> store.lookup("new"));
                assertThrows(InDoubtException.class, () -> store.unmark("new"));
                resource.commit(found, false);
                assertEquals(6, store.<Account>lookup("alone").balance);
                assertEquals(7, store.<Account>lookup("new").balance);
                assertThrows(InDoubtException.class, () -> store.lookup("accounts"), "the other is in doubt still");
            } else {
                resource.rollback(found);
                assertEquals(70, account("here").balance);
                assertEquals(1000, account("there").balance);
                Transaction.run(() -> account("there").balance++);
            }
            fails(XAException.XAER_NOTA, () -> resource.commit(id, false));
        }
    }

    /// J11.2: of a branch that another program has prepared in the same store, too.
    @Test
    void whoMeetsABranchInDoubtIsToldSo() throws Exception {
        store.close();
        store = Persistence.open(failing(graph.open()), clock.options());
        Account here = account("here");
        for (String call : List.of("commit", "readMany", "read")) {
            failures.put(call, GraphStoreException.inDoubt("the branch 7 is in doubt"));
        }
        List<Executable> refused =
                List.of(() -> Transaction.run(() -> here.balance = 7), () -> store.<Account>lookup("alone"));
        for (Executable call : refused) {
            String told = assertThrows(InDoubtException.class, call).getMessage();
            assertTrue(told.contains("the branch 7 is in doubt"), told);
        }
        failures.clear();
        assertEquals(100, here.balance);
        Transaction.run(() -> here.balance += store.<Account>lookup("alone").balance);
        assertEquals(105, here.balance);
    }

    /// J11.1: a vote waits for what was read, whatever commits do.
    @Test
    void whoHasOnlyReadVotesSo() throws Exception {
        store.close();
        store = Persistence.open(
                graph.open(), new PersistenceOptions().durability(PersistenceOptions.Durability.ASYNC));
        resource = store.xaResource();
        Transaction.run(() -> account("here").balance++);
        assertTrue(graph.durable() < graph.lsn());
        inBranch(ONE, () -> assertEquals(101, account("here").balance));
        assertEquals(XAResource.XA_RDONLY, resource.prepare(ONE));
        assertEquals(graph.lsn(), graph.durable());
        fails(XAException.XAER_NOTA, () -> resource.rollback(ONE));
    }

    @Test
    void aBranchGoesFromThreadToThread() throws Exception {
        Account here = account("here");
        resource.start(ONE, XAResource.TMNOFLAGS);
        assertThrows(IllegalStateException.class, () -> here.balance++, "outside of a transaction");
        Transaction.run(() -> here.balance -= 10);
        resource.end(ONE, XAResource.TMSUSPEND);
        inBranch(OTHER, () -> account("there").balance++);
        onAnotherThread(() -> {
            fails(XAException.XAER_PROTO, () -> resource.start(ONE, XAResource.TMJOIN));
            resource.start(ONE, XAResource.TMRESUME);
            Transaction.run(() -> here.balance -= 10);
            resource.end(ONE, XAResource.TMSUCCESS);
        });
        XAResource same = store.xaResource();
        assertTrue(same.isSameRM(resource));
        assertFalse(same.isSameRM(null));
        same.start(ONE, XAResource.TMJOIN);
        Transaction.run(() -> here.balance -= 10);
        onAnotherThread(() -> fails(XAException.XAER_PROTO, () -> resource.start(ONE, XAResource.TMJOIN)));
        same.end(ONE, XAResource.TMSUCCESS);
        resource.prepare(ONE);
        resource.commit(ONE, false);
        resource.rollback(OTHER);
        reopen();
        assertEquals(70, account("here").balance);
        assertEquals(1000, account("there").balance);
    }

    @Test
    void whatMakesNoSenseIsRefused() throws Exception {
        fails(XAException.XAER_INVAL, () -> resource.start(ONE, XAResource.TMFAIL));
        fails(XAException.XAER_INVAL, () -> resource.start(new Id(-1, new byte[1], new byte[1]), 0));
        fails(XAException.XAER_INVAL, () -> resource.start(new Id(0, new byte[65], new byte[1]), 0));
        fails(XAException.XAER_NOTA, () -> resource.start(ONE, XAResource.TMJOIN));
        for (Step step : List.<Step>of(
                () -> resource.end(ONE, XAResource.TMSUCCESS),
                () -> resource.prepare(ONE),
                () -> resource.commit(ONE, false),
                () -> resource.rollback(ONE),
                () -> resource.forget(ONE))) {
            fails(XAException.XAER_NOTA, step);
        }
        fails(XAException.XAER_INVAL, () -> resource.recover(XAResource.TMFAIL));
        fails(XAException.XAER_INVAL, () -> resource.setTransactionTimeout(-1));
        resource.start(ONE, XAResource.TMNOFLAGS);
        fails(XAException.XAER_DUPID, () -> resource.start(ONE, XAResource.TMNOFLAGS));
        fails(XAException.XAER_PROTO, () -> resource.start(OTHER, XAResource.TMNOFLAGS));
        Transaction.run(() -> fails(XAException.XAER_PROTO, () -> resource.end(ONE, XAResource.TMSUCCESS)));
        fails(XAException.XAER_PROTO, () -> resource.prepare(ONE));
        fails(XAException.XAER_PROTO, () -> resource.forget(ONE));
        fails(XAException.XAER_INVAL, () -> resource.end(ONE, XAResource.TMJOIN));
        Transaction.run(() -> account("here").balance++);
        assertThrows(IllegalStateException.class, store::close);
        resource.end(ONE, XAResource.TMSUCCESS);
        assertThrows(IllegalStateException.class, store::close);
        fails(XAException.XAER_PROTO, () -> resource.commit(ONE, false));
        resource.prepare(ONE);
        fails(XAException.XAER_PROTO, () -> resource.commit(ONE, true));
        fails(XAException.XAER_PROTO, () -> resource.prepare(ONE));
        assertEquals(0, resource.recover(XAResource.TMENDRSCAN).length);
        assertTrue(ONE.is(resource.recover(XAResource.TMSTARTRSCAN)[0]));
        resource.commit(ONE, false);
        Transaction.run(() -> fails(XAException.XAER_OUTSIDE, () -> resource.start(ONE, XAResource.TMNOFLAGS)));
    }

    /// What identifies a branch comes back to the last byte.
    @Test
    void identifiersAreKeptWhole() throws Exception {
        byte[] longest = new byte[Xid.MAXGTRIDSIZE];
        for (int i = 0; i < longest.length; i++) {
            longest[i] = (byte) (i * 37 - 100);
        }
        Id id = new Id(Integer.MIN_VALUE, longest, longest);
        transfer(id);
        resource.prepare(id);
        reopen();
        Xid found = resource.recover(XAResource.TMSTARTRSCAN)[0];
        assertEquals(Integer.MIN_VALUE, found.getFormatId());
        assertArrayEquals(longest, found.getGlobalTransactionId());
        assertArrayEquals(longest, found.getBranchQualifier());
        resource.commit(id, false);
        assertEquals(70, account("here").balance);
    }

    @Test
    void whatTheStoreRefusesIsRolledBack() throws Exception {
        for (boolean inOnePhase : new boolean[] {true, false}) {
            transfer(ONE);
            graph.refuseCommits(true);
            fails(XAException.XA_RBROLLBACK, () -> {
                if (inOnePhase) {
                    resource.commit(ONE, true);
                } else {
                    resource.prepare(ONE);
                }
            });
            graph.refuseCommits(false);
            assertEquals(100, account("here").balance);
            assertNull(account("here").friend);
            fails(XAException.XAER_NOTA, () -> resource.rollback(ONE));
        }
    }

    @Test
    void whoTakesTooLongIsRolledBack() throws Exception {
        assertTrue(resource.setTransactionTimeout(10));
        assertEquals(10, resource.getTransactionTimeout());
        resource.start(ONE, XAResource.TMNOFLAGS);
        Transaction.run(() -> account("here").balance -= 30);
        clock.goOn(TimeUnit.SECONDS.toNanos(11));
        fails(XAException.XA_RBTIMEOUT, () -> resource.end(ONE, XAResource.TMSUCCESS));
        assertEquals(100, account("here").balance);
        resource.rollback(ONE);
        transfer(ONE);
        clock.goOn(TimeUnit.SECONDS.toNanos(11));
        fails(XAException.XA_RBTIMEOUT, () -> resource.prepare(ONE));
        assertEquals(100, account("here").balance);
        resource.setTransactionTimeout(0);
        transfer(ONE);
        clock.goOn(TimeUnit.DAYS.toNanos(11));
        resource.prepare(ONE);
        resource.commit(ONE, false);
        assertEquals(70, account("here").balance);
    }

    /// Ways in which a transaction manager gives a branch up, after its timeout for example, on a thread of its own.
    private List<Step> waysToGiveUp() {
        return List.of(() -> resource.rollback(ONE), () -> {
            resource.end(ONE, XAResource.TMFAIL);
            resource.rollback(ONE);
        });
    }

    /// As that, where the transaction manager has ended the branch before it knows how.
    private List<Step> waysToEndAndRollBack() {
        return List.of(
                () -> {
                    resource.end(ONE, XAResource.TMSUCCESS);
                    resource.rollback(ONE);
                },
                () -> {
                    resource.end(ONE, XAResource.TMSUCCESS);
                    resource.prepare(ONE);
                    resource.rollback(ONE);
                },
                () -> {
                    resource.end(ONE, XAResource.TMSUCCESS);
                    graph.refuseCommits(true);
                    fails(XAException.XA_RBROLLBACK, () -> resource.prepare(ONE));
                    graph.refuseCommits(false);
                },
                () -> {
                    resource.end(ONE, XAResource.TMSUCCESS);
                    graph.refuseCommits(true);
                    fails(XAException.XA_RBROLLBACK, () -> resource.commit(ONE, true));
                    graph.refuseCommits(false);
                },
                () -> {
                    clock.goOn(TimeUnit.SECONDS.toNanos(11));
                    fails(XAException.XA_RBTIMEOUT, () -> resource.end(ONE, XAResource.TMSUCCESS));
                    resource.rollback(ONE);
                });
    }

    /// Nothing of a branch holds any more: what it had changed is unlocked, and its name is free.
    private void assertIsGone() throws Exception {
        assertEquals(100, account("here").balance);
        onAnotherThread(() -> {
            Transaction.run(() -> account("here").balance++);
            Transaction.run(() -> account("here").balance--);
            resource.start(ONE, XAResource.TMNOFLAGS);
            resource.rollback(ONE);
        });
    }

    /// J11.7: nobody calls `end` on its thread any more.
    @Test
    void aBranchIsGivenUpWhileItsThreadIsInNoTransaction() throws Exception {
        Account here = account("here");
        List<Step> waysToLearn = List.of(
                () -> assertThrows(PersistenceException.class, () -> Transaction.run(() -> here.balance = 5)),
                () -> fails(XAException.XAER_NOTA, () -> resource.end(ONE, XAResource.TMSUCCESS)),
                () -> {
                    resource.start(OTHER, XAResource.TMNOFLAGS);
                    Transaction.run(() -> here.balance = 5);
                    resource.end(OTHER, XAResource.TMSUCCESS);
                    resource.rollback(OTHER);
                });
        resource.setTransactionTimeout(10);
        List<Step> ways = new ArrayList<>(waysToGiveUp());
        ways.addAll(waysToEndAndRollBack());
        for (Step giveUp : ways) {
            for (Step learn : waysToLearn) {
                resource.start(ONE, XAResource.TMNOFLAGS);
                Transaction.run(() -> here.balance -= 30);
                onAnotherThread(giveUp);
                assertIsGone();
                learn.run();
                assertIsGone();
                Transaction.run(() -> account("there").balance++);
            }
        }
        reopen();
        assertEquals(1000 + ways.size() * waysToLearn.size(), account("there").balance);
    }

    /// J11.7: only its thread rolls back what it may be changing.
    @Test
    void aBranchIsGivenUpWhileItsThreadIsInATransaction() throws Exception {
        Account here = account("here");
        Account there = account("there");
        List<Step> waysToGoOn = List.of(() -> {}, () -> there.balance++, () -> Transaction.run(() -> here.balance--));
        for (Step giveUp : waysToGiveUp()) {
            for (Step goOn : waysToGoOn) {
                resource.start(ONE, XAResource.TMNOFLAGS);
                PersistenceException told = assertThrows(
                        PersistenceException.class,
                        () -> Transaction.<Exception>run(() -> Transaction.<Exception>run(() -> {
                            here.balance -= 30;
                            onAnotherThread(giveUp);
                            assertEquals(70, here.balance);
                            onAnotherThread(() ->
                                    fails(XAException.XA_RBROLLBACK, () -> resource.end(ONE, XAResource.TMSUCCESS)));
                            goOn.run();
                        })));
                assertTrue(told.getMessage().contains("rolled back meanwhile"), told.getMessage());
                assertIsGone();
                Transaction.run(() -> there.balance++);
            }
        }
        reopen();
        assertEquals(1006, account("there").balance);
    }

    /// J11.7: who leaves without committing was not told yet.
    @Test
    void whoHasRolledBackHimselfIsToldOfABranchGivenUp() throws Exception {
        Account here = account("here");
        resource.start(ONE, XAResource.TMNOFLAGS);
        try (var transaction = Transaction.begin()) {
            here.balance -= 30;
            onAnotherThread(() -> resource.end(ONE, XAResource.TMFAIL));
            assertTrue(transaction.isOpen());
        }
        onAnotherThread(() -> fails(XAException.XA_RBROLLBACK, () -> resource.prepare(ONE)));
        assertIsGone();
        assertThrows(PersistenceException.class, () -> Transaction.run(() -> here.balance = 5));
        Transaction.run(() -> here.balance = 6);
        reopen();
        assertEquals(6, account("here").balance);
    }

    /// A global transaction may be rolled back from within a transaction that is nested in it.
    @Test
    void aThreadGivesItsOwnBranchUp() throws Exception {
        Account here = account("here");
        resource.start(ONE, XAResource.TMNOFLAGS);
        try (var transaction = Transaction.begin()) {
            here.balance -= 30;
            resource.rollback(ONE);
            assertThrows(PersistenceException.class, transaction::commit);
        }
        assertIsGone();
        Transaction.run(() -> here.balance = 6);
        assertEquals(6, here.balance);
    }

    /// J11.7.
    @Test
    void aBranchEndsOnAnyThread() throws Exception {
        Account here = account("here");
        resource.start(ONE, XAResource.TMNOFLAGS);
        Transaction.<Exception>run(() -> {
            here.balance -= 30;
            onAnotherThread(() -> fails(XAException.XAER_PROTO, () -> resource.end(ONE, XAResource.TMSUCCESS)));
        });
        onAnotherThread(() -> {
            resource.end(ONE, XAResource.TMSUCCESS);
            resource.prepare(ONE);
        });
        Transaction.run(() -> account("there").balance++);
        resource.commit(ONE, false);
        reopen();
        assertEquals(70, account("here").balance);
        assertEquals(1001, account("there").balance);
    }

    /// J11.7: until it is known how a branch ends that another thread has ended, what its thread does is its own; of a
    /// rollback it is told then, once, and of a commit or a close it is not.
    @Test
    void aThreadIsToldWhenTheOutcomeIsKnown() throws Exception {
        Account here = account("here");
        Account there = account("there");
        resource.start(ONE, XAResource.TMNOFLAGS);
        Transaction.run(() -> here.balance -= 30);
        onAnotherThread(() -> resource.end(ONE, XAResource.TMSUCCESS));
        Transaction.run(() -> there.balance++);
        onAnotherThread(() -> resource.rollback(ONE));
        assertThrows(PersistenceException.class, () -> Transaction.run(() -> there.balance++));
        Transaction.run(() -> there.balance++);
        List<Step> otherEnds = List.of(
                () -> resource.commit(ONE, true),
                () -> {
                    resource.prepare(ONE);
                    resource.commit(ONE, false);
                },
                () -> {
                    resource.prepare(ONE);
                    reopen();
                });
        for (Step end : otherEnds) {
            Account changed = account("here");
            resource.start(ONE, XAResource.TMNOFLAGS);
            Transaction.run(() -> changed.balance -= 30);
            onAnotherThread(() -> resource.end(ONE, XAResource.TMSUCCESS));
            onAnotherThread(end);
            Transaction.run(() -> store.<Account>lookup("alone").balance++);
        }
        resource.rollback(ONE);
        reopen();
        assertEquals(40, account("here").balance);
        assertEquals(1002, account("there").balance);
        assertEquals(8, store.<Account>lookup("alone").balance);
    }

    /// J11.7: what one thread was told, or has itself ended, another one does not know.
    @Test
    void eachThreadIsToldThatHadABranch() throws Exception {
        Account here = account("here");
        CountDownLatch isGivenUp = new CountDownLatch(1);
        CountDownLatch isInIt = new CountDownLatch(1);
        resource.start(ONE, XAResource.TMNOFLAGS);
        Transaction.run(() -> here.balance -= 30);
        onAnotherThread(() -> {
            resource.end(ONE, XAResource.TMSUCCESS);
            resource.start(ONE, XAResource.TMJOIN);
            Transaction.run(() -> here.balance -= 30);
            resource.end(ONE, XAResource.TMSUCCESS);
        });
        AtomicReference<Throwable> told = new AtomicReference<>();
        Thread second = Thread.ofPlatform().start(() -> {
            try {
                resource.start(ONE, XAResource.TMJOIN);
                Transaction.<Exception>run(() -> {
                    isInIt.countDown();
                    isGivenUp.await();
                    here.balance -= 30;
                });
            } catch (PersistenceException e) {
                told.set(e);
                Transaction.run(() -> here.balance++);
            } catch (Exception e) {
                throw new AssertionError(e);
            }
        });
        isInIt.await();
        onAnotherThread(() -> resource.rollback(ONE));
        isGivenUp.countDown();
        second.join();
        assertTrue(told.get() instanceof PersistenceException);
        assertEquals(101, here.balance);
        assertThrows(PersistenceException.class, () -> Transaction.run(() -> here.balance = 5));
        Transaction.run(() -> here.balance++);
        assertEquals(102, here.balance);
    }

    /// A transaction manager joins what is of one store, and says `start` and `end` for each of both.
    @Test
    void aStoreTakesPartTwice() throws Exception {
        Account here = account("here");
        XAResource other = store.xaResource();
        resource.start(ONE, XAResource.TMNOFLAGS);
        other.start(ONE, XAResource.TMJOIN);
        onAnotherThread(() -> fails(XAException.XAER_PROTO, () -> other.start(ONE, XAResource.TMJOIN)));
        resource.end(ONE, XAResource.TMSUCCESS);
        Transaction.run(() -> here.balance -= 10);
        other.start(ONE, XAResource.TMJOIN);
        resource.end(ONE, XAResource.TMSUSPEND);
        Transaction.run(() -> here.balance -= 10);
        other.end(ONE, XAResource.TMSUSPEND);
        assertThrows(IllegalStateException.class, () -> here.balance++, "outside of a transaction");
        fails(XAException.XAER_PROTO, () -> other.end(ONE, XAResource.TMSUSPEND));
        onAnotherThread(() -> {
            resource.start(ONE, XAResource.TMRESUME);
            other.start(ONE, XAResource.TMRESUME);
            fails(XAException.XAER_PROTO, () -> other.start(ONE, XAResource.TMRESUME));
            other.end(ONE, XAResource.TMSUSPEND);
            resource.end(ONE, XAResource.TMSUCCESS);
            fails(XAException.XAER_PROTO, () -> resource.prepare(ONE));
            other.start(ONE, XAResource.TMRESUME);
            Transaction.run(() -> here.balance -= 10);
            other.end(ONE, XAResource.TMSUCCESS);
        });
        resource.prepare(ONE);
        resource.commit(ONE, false);
        reopen();
        assertEquals(70, account("here").balance);
    }

    @Test
    void ofAStoreThatTakesPartTwiceOneMayFail() throws Exception {
        XAResource other = store.xaResource();
        resource.start(ONE, XAResource.TMNOFLAGS);
        other.start(ONE, XAResource.TMJOIN);
        Transaction.run(() -> account("here").balance -= 30);
        resource.end(ONE, XAResource.TMFAIL);
        assertEquals(100, account("here").balance);
        fails(XAException.XA_RBROLLBACK, () -> other.end(ONE, XAResource.TMSUCCESS));
        resource.rollback(ONE);
    }

    /// Two stores of objects take part one after the other on a thread: what both have changed in one branch would be
    /// prepared in one of them.
    @Test
    void twoStoresTakePartOneAfterTheOther() throws Exception {
        try (Persistence second = Persistence.open(new MemoryGraph().open(), new PersistenceOptions())) {
            second.mark("account", new Account(5));
            Account there = second.lookup("account");
            resource.start(ONE, XAResource.TMNOFLAGS);
            XAException refused =
                    assertThrows(XAException.class, () -> second.xaResource().start(OTHER, XAResource.TMNOFLAGS));
            assertEquals(XAException.XAER_PROTO, refused.errorCode);
            assertTrue(refused.getMessage().contains("delistResource"), refused.getMessage());
            Transaction.run(() -> account("here").balance -= 30);
            resource.end(ONE, XAResource.TMSUCCESS);
            second.xaResource().start(OTHER, XAResource.TMNOFLAGS);
            Transaction.run(() -> there.balance += 30);
            second.xaResource().end(OTHER, XAResource.TMSUCCESS);
            assertEquals(XAResource.XA_OK, resource.prepare(ONE));
            assertEquals(XAResource.XA_OK, second.xaResource().prepare(OTHER));
            resource.commit(ONE, false);
            second.xaResource().commit(OTHER, false);
            assertEquals(70, account("here").balance);
            assertEquals(35, there.balance);
        }
    }

    /// J11.9.
    @Test
    void ofAStoreThatIsClosedOrHasStoppedNothingIsKnown() throws Exception {
        transfer(ONE);
        resource.prepare(ONE);
        XAResource closed = resource;
        reopen();
        for (Step step : List.<Step>of(
                () -> closed.start(OTHER, XAResource.TMNOFLAGS),
                () -> closed.start(ONE, XAResource.TMJOIN),
                () -> closed.end(ONE, XAResource.TMSUCCESS),
                () -> closed.prepare(ONE),
                () -> closed.commit(ONE, false),
                () -> closed.commit(ONE, true),
                () -> closed.rollback(ONE),
                () -> closed.forget(ONE),
                () -> closed.recover(XAResource.TMSTARTRSCAN))) {
            fails(XAException.XAER_RMFAIL, step);
        }
        resource.rollback(ONE);
        transfer(OTHER);
        resource.prepare(OTHER);
        graph.refuseSyncs();
        assertThrows(PersistenceException.class, () -> Transaction.run(() -> account("there").balance++));
        fails(XAException.XAER_RMFAIL, () -> resource.rollback(ONE));
        fails(XAException.XAER_RMFAIL, () -> resource.commit(OTHER, false));
        fails(XAException.XAER_RMFAIL, () -> resource.recover(XAResource.TMSTARTRSCAN));
        reopen();
        resource.commit(OTHER, false);
        assertEquals(70, account("here").balance);
    }

    /// J11.9: by another answer the transaction manager would take it for ended.
    @Test
    void whatIsRefusedOfAnOutcomeMayBeSaidAgain() throws Exception {
        store.close();
        store = Persistence.open(failing(graph.open()), clock.options());
        resource = store.xaResource();
        for (boolean commits : new boolean[] {false, true}) {
            transfer(ONE);
            resource.prepare(ONE);
            Step outcome = () -> {
                if (commits) {
                    resource.commit(ONE, false);
                } else {
                    resource.rollback(ONE);
                }
            };
            for (Throwable failure : List.of(
                    new GraphStoreException("as a test wants it", null, false),
                    new OutOfMemoryError("as a test wants it"))) {
                failures.put(commits ? "commitPrepared" : "rollbackPrepared", failure);
                fails(XAException.XAER_RMFAIL, outcome);
            }
            failures.clear();
            assertEquals(1, resource.recover(XAResource.TMSTARTRSCAN).length);
            outcome.run();
            assertEquals(commits ? 70 : 100, account("here").balance);
        }
    }

    /// J11.9: the store has committed, and its names cannot be read at once.
    @Test
    void aCommitOfAnEarlierOpeningIsSaidAgain() throws Exception {
        inBranch(ONE, () -> store.mark("alone", new Account(6)));
        resource.prepare(ONE);
        store.close();
        store = Persistence.open(failing(graph.open()), clock.options());
        resource = store.xaResource();
        failures.put("roots", new GraphStoreException("as a test wants it", null, false));
        fails(XAException.XAER_RMFAIL, () -> resource.commit(ONE, false));
        failures.clear();
        fails(XAException.XAER_PROTO, () -> resource.rollback(ONE));
        resource.commit(ONE, false);
        assertEquals(6, store.<Account>lookup("alone").balance);
        fails(XAException.XAER_NOTA, () -> resource.commit(ONE, false));
    }

    /// J11.8: an error as when memory runs out; a transaction of this process that rolls back still restores.
    @Test
    void whoPreparesAndFailsHasEndedOnce() throws Exception {
        store.close();
        store = Persistence.open(failing(graph.open()), clock.options());
        resource = store.xaResource();
        for (boolean inOnePhase : new boolean[] {true, false}) {
            transfer(ONE);
            failures.put(inOnePhase ? "commit" : "prepare", new GraphStoreException("as a test wants it", null, false));
            fails(XAException.XA_RBROLLBACK, () -> {
                if (inOnePhase) {
                    resource.commit(ONE, true);
                } else {
                    resource.prepare(ONE);
                }
            });
            failures.clear();
            assertEquals(100, account("here").balance);
            fails(XAException.XAER_NOTA, () -> resource.prepare(ONE));
            fails(XAException.XAER_NOTA, () -> resource.rollback(ONE));
        }
        transfer(ONE);
        failures.put("prepare", new OutOfMemoryError("as a test wants it"));
        fails(XAException.XA_RBROLLBACK, () -> resource.prepare(ONE));
        failures.clear();
        transfer(ONE);
        // Whether it has committed only the store knows.
        failures.put("commit", new OutOfMemoryError("as a test wants it"));
        fails(XAException.XAER_RMFAIL, () -> resource.commit(ONE, true));
        failures.clear();
        assertThrows(PersistenceException.class, () -> account("here"));
        store.close();
        Account plain = new Account(1);
        try (var transaction = Transaction.begin()) {
            plain.balance = 2;
            transaction.rollback();
        }
        assertEquals(1, plain.balance);
    }

    private static Thread.State stateWhenItWaits(Thread thread) {
        Set<Thread.State> waiting = Set.of(Thread.State.WAITING, Thread.State.BLOCKED, Thread.State.TERMINATED);
        while (!waiting.contains(thread.getState())) {
            Thread.onSpinWait();
        }
        return thread.getState();
    }

    /// What a thread of its own does, or throws.
    private static FutureTask<Integer> start(Callable<Integer> work) {
        FutureTask<Integer> task = new FutureTask<>(work);
        Thread.ofPlatform().daemon().start(task);
        return task;
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
                || !String.valueOf(LockSupport.getBlocker(thread.get())).startsWith("cedrat.persist.Locks")) {
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
    void nobodyWaitsForABranchThatWaitsForALock() throws Exception {
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
    void whoHasWaitedTooLongForALockIsRolledBack() throws Exception {
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
    void aRollbackWaitsForWhatTheStoreWritesDown() throws Exception {
        store.close();
        store = Persistence.open(failing(graph.open()), clock.options());
        resource = store.xaResource();
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

    /// J11.9: no branch begins behind the look of who closes.
    @Test
    void noBranchBeginsInAStoreThatCloses() throws Exception {
        store.close();
        store = Persistence.open(failing(graph.open()), clock.options());
        resource = store.xaResource();
        transfer(ONE);
        resource.prepare(ONE);
        CountDownLatch isCommitting = new CountDownLatch(1);
        CountDownLatch mayGo = new CountDownLatch(1);
        before.put("commitPrepared", () -> {
            isCommitting.countDown();
            mayGo.await();
        });
        FutureTask<Integer> commit = start(() -> {
            resource.commit(ONE, false);
            return 0;
        });
        isCommitting.await();
        Thread closing = Thread.ofPlatform().start(store::close);
        // It has looked, and is to take the branch out of memory.
        while (closing.getState() != Thread.State.BLOCKED) {
            Thread.onSpinWait();
        }
        fails(XAException.XAER_RMFAIL, () -> resource.start(OTHER, XAResource.TMNOFLAGS));
        mayGo.countDown();
        commit.get();
        closing.join();
        before.clear();
        open();
        assertEquals(70, account("here").balance);
    }

    /// A key that has a hash only as long as the test wants it.
    private static final class Odd {
        private static volatile boolean isOdd;

        @Override
        public boolean equals(Object other) {
            return this == other;
        }

        @Override
        public int hashCode() {
            if (isOdd) {
                throw new UnsupportedOperationException("as a test wants it");
            }
            return 1;
        }
    }

    /// J11.9: what of memory a rollback cannot restore is said, and the store is asked once.
    @Test
    void aRollbackThatCannotRestoreHasEnded() throws Exception {
        for (boolean isPrepared : new boolean[] {false, true}) {
            Properties properties = new Properties();
            properties.put(new Odd(), "value");
            store.mark("properties", properties);
            inBranch(ONE, () -> {
                account("here").balance -= 30;
                properties.setProperty("name", "value");
            });
            Odd.isOdd = true;
            if (isPrepared) {
                resource.prepare(ONE);
            }
            fails(XAException.XAER_RMERR, () -> resource.rollback(ONE));
            Odd.isOdd = false;
            fails(XAException.XAER_NOTA, () -> resource.rollback(ONE));
            assertIsGone();
        }
    }

    @Test
    void whoFailsIsRolledBack() throws Exception {
        resource.start(ONE, XAResource.TMNOFLAGS);
        Transaction.run(() -> account("here").balance -= 30);
        resource.end(ONE, XAResource.TMFAIL);
        assertEquals(100, account("here").balance);
        fails(XAException.XA_RBROLLBACK, () -> resource.prepare(ONE));
    }

    /// Two of the same store; what one transaction nests in a branch rolls back alone.
    @Test
    void transactionsInABranchAreNested() throws Exception {
        Account here = account("here");
        inBranch(ONE, () -> {
            here.balance -= 10;
            Transaction.run(() -> here.balance -= 20);
            assertThrows(
                    IllegalArgumentException.class,
                    () -> Transaction.run(() -> {
                        here.balance = 0;
                        throw new IllegalArgumentException();
                    }));
        });
        resource.prepare(ONE);
        resource.commit(ONE, false);
        assertEquals(70, here.balance);
        assertSame(here, account("here"));
    }

    /// What a transaction manager and other stores do on the thread is neither remembered nor locked.
    @Test
    void whatIsDoneBetweenTransactionsIsNotTakenBack() throws Exception {
        List<String> log = new ArrayList<>();
        resource.start(ONE, XAResource.TMNOFLAGS);
        log.add("of a transaction manager");
        Transaction.run(() -> account("here").balance -= 30);
        log.add("of another store");
        resource.end(ONE, XAResource.TMSUCCESS);
        onAnotherThread(() -> log.add("of another thread"));
        resource.rollback(ONE);
        assertEquals(3, log.size());
        assertEquals(100, account("here").balance);
    }

    /// The victim of a deadlock is the younger one, which is the branch.
    @Test
    void aVictimOfADeadlockIsRolledBack() throws Exception {
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

    @Test
    void aClosedStoreKeepsItsPromise() throws Exception {
        Account here = account("here");
        transfer(ONE);
        resource.prepare(ONE);
        store.close();
        assertEquals(100, here.balance);
        open();
        resource.commit(ONE, false);
        assertEquals(70, account("here").balance);
    }
}
