package cedrat.persist.woven.branch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import org.junit.jupiter.api.Test;

/// Branches and the threads that have them: nesting in a branch, and notification of its end.
class BranchThreadsTest extends BranchFixture {
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

    /// J11.5.
    /// Work of a transaction manager and of other stores on the thread is neither logged nor locked.
    @Test
    void changesBetweenTransactionsAreKept() throws Exception {
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

    /// J11.7: `end` is not called on its thread any more.
    @Test
    void branchIsGivenUpOutsideOfTransaction() throws Exception {
        Account here = account("here");
        List<Step> waysToLearn = List.of(
                () -> assertThrows(StoreException.class, () -> Transaction.run(() -> here.balance = 5)),
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
    void branchIsGivenUpInsideOfTransaction() throws Exception {
        Account here = account("here");
        Account there = account("there");
        List<Step> waysToGoOn = List.of(() -> {}, () -> there.balance++, () -> Transaction.run(() -> here.balance--));
        for (Step giveUp : waysToGiveUp()) {
            for (Step goOn : waysToGoOn) {
                resource.start(ONE, XAResource.TMNOFLAGS);
                StoreException thrown = assertThrows(
                        StoreException.class,
                        () -> Transaction.<Exception>run(() -> Transaction.<Exception>run(() -> {
                            here.balance -= 30;
                            onAnotherThread(giveUp);
                            assertEquals(70, here.balance);
                            onAnotherThread(() ->
                                    fails(XAException.XA_RBROLLBACK, () -> resource.end(ONE, XAResource.TMSUCCESS)));
                            goOn.run();
                        })));
                assertTrue(thrown.getMessage().contains("rolled back meanwhile"), thrown.getMessage());
                assertIsGone();
                Transaction.run(() -> there.balance++);
            }
        }
        reopen();
        assertEquals(1006, account("there").balance);
    }

    /// J11.7: a thread that leaves without committing has not been notified yet.
    @Test
    void threadLearnsOfItsGivenUpBranch() throws Exception {
        Account here = account("here");
        resource.start(ONE, XAResource.TMNOFLAGS);
        try (var transaction = Transaction.begin()) {
            here.balance -= 30;
            onAnotherThread(() -> resource.end(ONE, XAResource.TMFAIL));
            assertTrue(transaction.isOpen());
        }
        onAnotherThread(() -> fails(XAException.XA_RBROLLBACK, () -> resource.prepare(ONE)));
        assertIsGone();
        assertThrows(StoreException.class, () -> Transaction.run(() -> here.balance = 5));
        Transaction.run(() -> here.balance = 6);
        reopen();
        assertEquals(6, account("here").balance);
    }

    /// J11.7: a global transaction may be rolled back from within a transaction that is nested in it.
    @Test
    void aThreadGivesItsOwnBranchUp() throws Exception {
        Account here = account("here");
        resource.start(ONE, XAResource.TMNOFLAGS);
        try (var transaction = Transaction.begin()) {
            here.balance -= 30;
            resource.rollback(ONE);
            assertThrows(StoreException.class, transaction::commit);
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

    /// J11.7: while the outcome of a branch that another thread has ended is unknown, work of its own thread is not
    /// part of it. Of a rollback that thread is notified then, once; of a commit or a close it is not.
    @Test
    void threadIsNotifiedWhenOutcomeIsKnown() throws Exception {
        Account here = account("here");
        Account there = account("there");
        resource.start(ONE, XAResource.TMNOFLAGS);
        Transaction.run(() -> here.balance -= 30);
        onAnotherThread(() -> resource.end(ONE, XAResource.TMSUCCESS));
        Transaction.run(() -> there.balance++);
        onAnotherThread(() -> resource.rollback(ONE));
        assertThrows(StoreException.class, () -> Transaction.run(() -> there.balance++));
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
            Transaction.run(() -> store.root("alone", Account.class).balance++);
        }
        resource.rollback(ONE);
        reopen();
        assertEquals(40, account("here").balance);
        assertEquals(1002, account("there").balance);
        assertEquals(8, store.root("alone", Account.class).balance);
    }

    /// J11.7: a notification of one thread, or its own end of the branch, does not count for another thread.
    @Test
    void eachThreadOfBranchIsNotified() throws Exception {
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
        AtomicReference<Throwable> thrown = new AtomicReference<>();
        Thread second = Thread.ofPlatform().start(() -> {
            try {
                resource.start(ONE, XAResource.TMJOIN);
                Transaction.<Exception>run(() -> {
                    isInIt.countDown();
                    isGivenUp.await();
                    here.balance -= 30;
                });
            } catch (StoreException e) {
                thrown.set(e);
                Transaction.run(() -> here.balance++);
            } catch (Exception e) {
                throw new AssertionError(e);
            }
        });
        isInIt.await();
        onAnotherThread(() -> resource.rollback(ONE));
        isGivenUp.countDown();
        second.join();
        assertTrue(thrown.get() instanceof StoreException);
        assertEquals(101, here.balance);
        assertThrows(StoreException.class, () -> Transaction.run(() -> here.balance = 5));
        Transaction.run(() -> here.balance++);
        assertEquals(102, here.balance);
    }

    /// J11.10: a transaction manager joins what is of one store, and says `start` and `end` for each of both.
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

    /// J11.10.
    @Test
    void oneResourceOfStoreMayFail() throws Exception {
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
    void twoStoresTakePartInSequence() throws Exception {
        try (Store second = Store.open(new MemoryGraph().open(), new StoreOptions())) {
            second.setRoot("account", new Account(5));
            Account there = second.root("account", Account.class);
            resource.start(ONE, XAResource.TMNOFLAGS);
            XAException refused =
                    assertThrows(XAException.class, () -> second.xaResource().start(OTHER, XAResource.TMNOFLAGS));
            assertEquals(XAException.XAER_PROTO, refused.errorCode);
            assertTrue(refused.getMessage().contains("delistResource with TMSUCCESS"), refused.getMessage());
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

    /// Changes of both in the branch of one are rolled back in both, and the exception says how to avoid this.
    @Test
    void branchOfOneStoreRefusesTwoStores() throws Exception {
        try (Store second = Store.open(new MemoryGraph().open(), new StoreOptions())) {
            second.setRoot("account", new Account(5));
            Account there = second.root("account", Account.class);
            for (boolean inOnePhase : new boolean[] {false, true}) {
                resource.start(ONE, XAResource.TMNOFLAGS);
                Transaction.run(() -> account("here").balance -= 30);
                Transaction.run(() -> there.balance += 30);
                resource.end(ONE, XAResource.TMSUCCESS);
                XAException refused = assertThrows(XAException.class, () -> {
                    if (inOnePhase) {
                        resource.commit(ONE, true);
                    } else {
                        resource.prepare(ONE);
                    }
                });
                assertEquals(XAException.XA_RBROLLBACK, refused.errorCode);
                assertTrue(refused.getCause().getMessage().contains("delistResource"), "" + refused.getCause());
                assertEquals(100, account("here").balance);
                assertEquals(5, there.balance);
            }
            StoreException alone = assertThrows(
                    StoreException.class,
                    () -> Transaction.run(() -> {
                        account("here").balance -= 30;
                        there.balance += 30;
                    }));
            assertTrue(alone.getMessage().contains("xaResource"), alone.getMessage());
            assertEquals(105, account("here").balance + there.balance);
        }
    }
}
