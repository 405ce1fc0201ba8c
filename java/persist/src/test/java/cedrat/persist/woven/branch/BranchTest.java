package cedrat.persist.woven.branch;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.GraphStoreException;
import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.junit.jupiter.api.Test;

/// Branches of transactions over several stores, from the first word of a transaction manager to the last.
class BranchTest extends BranchFixture {
    /// J11.3.
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

    /// J11.3.
    @Test
    void rollbackRestoresObjects() throws Exception {
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
            // It has no owner, and may become persistent after all.
            Transaction.run(() -> account("there").friend = made.get());
            reopen();
            assertEquals(100, account("here").balance);
            assertEquals(1, account("there").friend.balance);
        }
    }

    @Test
    void failedBranchIsRolledBack() throws Exception {
        resource.start(ONE, XAResource.TMNOFLAGS);
        Transaction.run(() -> account("here").balance -= 30);
        resource.end(ONE, XAResource.TMFAIL);
        assertEquals(100, account("here").balance);
        fails(XAException.XA_RBROLLBACK, () -> resource.prepare(ONE));
    }

    /// J11.1: a vote waits for what was read, whatever commits do.
    @Test
    void readingBranchVotesReadOnly() throws Exception {
        store.close();
        store = Store.open(graph.open(), new StoreOptions().durability(StoreOptions.Durability.ASYNC));
        resource = store.xaResource();
        Transaction.run(() -> account("here").balance++);
        assertTrue(graph.durable() < graph.lsn());
        inBranch(ONE, () -> assertEquals(101, account("here").balance));
        assertEquals(XAResource.XA_RDONLY, resource.prepare(ONE));
        assertEquals(graph.lsn(), graph.durable());
        fails(XAException.XAER_NOTA, () -> resource.rollback(ONE));
    }

    @Test
    void invalidCallsAreRefused() throws Exception {
        fails(XAException.XAER_INVAL, () -> resource.start(ONE, XAResource.TMFAIL));
        fails(XAException.XAER_INVAL, () -> resource.start(new TestXid(-1, new byte[1], new byte[1]), 0));
        fails(XAException.XAER_INVAL, () -> resource.start(new TestXid(0, new byte[65], new byte[1]), 0));
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

    /// The identifier of a branch is returned to the last byte.
    @Test
    void identifiersAreKeptWhole() throws Exception {
        byte[] longest = new byte[Xid.MAXGTRIDSIZE];
        for (int i = 0; i < longest.length; i++) {
            longest[i] = (byte) (i * 37 - 100);
        }
        TestXid id = new TestXid(Integer.MIN_VALUE, longest, longest);
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

    /// J9.
    @Test
    void commitRefusedByStoreIsRolledBack() throws Exception {
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
    void timedOutBranchIsRolledBack() throws Exception {
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

    /// J11.8: an error as when memory runs out; a transaction of this process that rolls back still restores.
    @Test
    void failedPrepareEndsOnce() throws Exception {
        openFailing();
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
        assertThrows(StoreException.class, () -> account("here"));
        store.close();
        Account plain = new Account(1);
        try (var transaction = Transaction.begin()) {
            plain.balance = 2;
            transaction.rollback();
        }
        assertEquals(1, plain.balance);
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
            store.setRoot("properties", properties);
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
}
