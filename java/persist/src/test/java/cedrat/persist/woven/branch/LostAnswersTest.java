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
