package cedrat.persist.woven.branch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.GraphStoreException;
import cedrat.persist.InDoubtException;
import cedrat.persist.StoreException;
import cedrat.persist.Transaction;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/// Branches that outlive an opening of their store, or meet a store that fails or closes.
class BranchRecoveryTest extends BranchFixture {
    /// J11.1, J11.3.
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

    /// J11.4.
    @Test
    void objectsInDoubtCannotBeRead() throws Exception {
        inBranch(ONE, () -> {
            account("here").balance -= 30;
            store.setRoot("alone", new Account(6));
            store.setRoot("new", new Account(7));
        });
        inBranch(OTHER, () -> account("there").balance += 30);
        resource.prepare(ONE);
        resource.prepare(OTHER);
        for (boolean commits : new boolean[] {true, false}) {
            TestXid id = commits ? ONE : OTHER;
            reopen();
            List<Xid> known = List.of(resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN));
            assertEquals(commits ? 2 : 1, known.size());
            Xid found = known.stream().filter(id::is).findFirst().orElseThrow();
            InDoubtException refused = assertThrows(InDoubtException.class, () -> store.root("accounts", Object.class));
            assertTrue(refused.getMessage().contains("0000000702010203") || !commits, refused.getMessage());
            if (commits) {
                assertThrows(InDoubtException.class, () -> store.root("alone", Object.class));
                assertThrows(InDoubtException.class, () -> store.root("new", Object.class));
                assertThrows(InDoubtException.class, () -> store.removeRoot("new"));
                resource.commit(found, false);
                assertEquals(6, store.root("alone", Account.class).balance);
                assertEquals(7, store.root("new", Account.class).balance);
                assertThrows(
                        InDoubtException.class,
                        () -> store.root("accounts", Object.class),
                        "the other is in doubt still");
            } else {
                resource.rollback(found);
                assertEquals(70, account("here").balance);
                assertEquals(1000, account("there").balance);
                Transaction.run(() -> account("there").balance++);
            }
            fails(XAException.XAER_NOTA, () -> resource.commit(id, false));
        }
    }

    /// J11.9b: an operator has ended the branch between two openings.
    @Test
    void operatorsOutcomeIsReportedUntilForgotten() throws Exception {
        for (boolean commits : new boolean[] {true, false}) {
            int outcome = commits ? XAException.XA_HEURCOM : XAException.XA_HEURRB;
            transfer(ONE);
            resource.prepare(ONE);
            fails(XAException.XAER_PROTO, () -> resource.forget(ONE));
            store.close();
            graph.resolve(commits);
            open();
            for (int opening = 0; opening < 2; opening++) {
                assertEquals(70, account("here").balance, "the second branch is rolled back");
                Xid[] known = resource.recover(XAResource.TMSTARTRSCAN);
                assertTrue(known.length == 1 && ONE.is(known[0]), "J11.9b");
                fails(outcome, () -> resource.commit(ONE, false));
                fails(outcome, () -> resource.rollback(known[0]));
                fails(XAException.XAER_DUPID, () -> resource.start(ONE, XAResource.TMNOFLAGS));
                fails(XAException.XAER_NOTA, () -> resource.forget(OTHER));
                reopen();
            }
            openFailing();
            failures.put("forget", new GraphStoreException("the disk is full", null, false));
            fails(XAException.XAER_RMFAIL, () -> resource.forget(ONE));
            failures.clear();
            fails(outcome, () -> resource.commit(ONE, false));
            resource.forget(ONE);
            fails(XAException.XAER_NOTA, () -> resource.forget(ONE));
            reopen();
            fails(XAException.XAER_NOTA, () -> resource.commit(ONE, false));
            assertEquals(0, resource.recover(XAResource.TMSTARTRSCAN).length);
        }
    }

    /// J11.2: of a branch that another program has prepared in the same store, too.
    @Test
    void accessToObjectInDoubtThrows() throws Exception {
        openFailing();
        Account here = account("here");
        for (String call : List.of("commit", "readMany", "read")) {
            failures.put(call, GraphStoreException.inDoubt("the branch 7 is in doubt"));
        }
        List<Executable> refused =
                List.of(() -> Transaction.run(() -> here.balance = 7), () -> store.root("alone", Account.class));
        for (Executable call : refused) {
            String message = assertThrows(InDoubtException.class, call).getMessage();
            assertTrue(message.contains("the branch 7 is in doubt"), message);
        }
        failures.clear();
        assertEquals(100, here.balance);
        Transaction.run(() -> here.balance += store.root("alone", Account.class).balance);
        assertEquals(105, here.balance);
    }

    /// J11.9.
    @Test
    void closedOrStoppedStoreKnowsNoBranch() throws Exception {
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
        assertThrows(StoreException.class, () -> Transaction.run(() -> account("there").balance++));
        fails(XAException.XAER_RMFAIL, () -> resource.rollback(ONE));
        fails(XAException.XAER_RMFAIL, () -> resource.commit(OTHER, false));
        fails(XAException.XAER_RMFAIL, () -> resource.recover(XAResource.TMSTARTRSCAN));
        reopen();
        resource.commit(OTHER, false);
        assertEquals(70, account("here").balance);
    }

    /// J11.9: by another answer the transaction manager would take it for ended.
    @Test
    void refusedOutcomeMayBeRepeated() throws Exception {
        openFailing();
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
    void commitOfEarlierOpeningIsRepeated() throws Exception {
        inBranch(ONE, () -> store.setRoot("alone", new Account(6)));
        resource.prepare(ONE);
        openFailing();
        failures.put("roots", new GraphStoreException("as a test wants it", null, false));
        fails(XAException.XAER_RMFAIL, () -> resource.commit(ONE, false));
        failures.clear();
        fails(XAException.XAER_PROTO, () -> resource.rollback(ONE));
        resource.commit(ONE, false);
        assertEquals(6, store.root("alone", Account.class).balance);
        fails(XAException.XAER_NOTA, () -> resource.commit(ONE, false));
    }

    /// J11.9: no branch begins after the check of the closing thread.
    @Test
    void noBranchBeginsInClosingStore() throws Exception {
        openFailing();
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
}
