package cedrat.persist.woven.branch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cedrat.persist.StoreException;
import cedrat.persist.Transaction;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// J11.8: the store below has prepared a branch, and an error hides that from the caller.
class LostAnswersTest extends BranchFixture {
    @BeforeEach
    void prepare() throws XAException {
        openFailing();
        transfer(ONE);
        lost.put("prepare", new OutOfMemoryError("as a test wants it"));
    }

    /// J11.8.
    @Test
    void reportedRollbackIsNotInDoubt() throws XAException {
        fails(XAException.XA_RBROLLBACK, () -> resource.prepare(ONE));
        assertEquals(0, resource.recover(XAResource.TMSTARTRSCAN).length);
        Transaction.run(() -> account("here").balance++);
        reopen();
        assertEquals(101, account("here").balance);
        assertEquals(0, resource.recover(XAResource.TMSTARTRSCAN).length);
    }

    private static final class First {
        int value = 1;
    }

    private static final class Second {
        int value = 2;
    }

    /// J9i: the store has defined the class of a branch that was then rolled back.
    @Test
    void classOfLostBranchKeepsItsNumber() throws XAException {
        resource.rollback(ONE);
        int before = graph.classes();
        inBranch(OTHER, () -> store.setRoot("first", new First()));
        fails(XAException.XA_RBROLLBACK, () -> resource.prepare(OTHER));
        assertEquals(before + 1, graph.classes());
        lost.clear();
        store.setRoot("second", new Second());
        store.setRoot("first", new First());
        reopen();
        assertEquals(1, store.root("first", First.class).value);
        assertEquals(2, store.root("second", Second.class).value);
    }

    /// J11.8.
    /// Then it is not reported as rolled back.
    @Test
    void doubtfulCommitIsNotReportedRolledBack() throws XAException {
        lost.put("inDoubt", new OutOfMemoryError("as a test wants it"));
        fails(XAException.XAER_RMFAIL, () -> resource.prepare(ONE));
        assertThrows(StoreException.class, () -> account("here"));
        reopen();
        assertEquals(1, resource.recover(XAResource.TMSTARTRSCAN).length);
        resource.commit(ONE, false);
        assertEquals(70, account("here").balance);
    }
}
