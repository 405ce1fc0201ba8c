package cedrat.persist.branch;

import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;

/// A store as a transaction manager sees it: only translation, no thought.
///
/// **Threads:** any.
public final class BranchResource implements XAResource {
    private interface Call<T> {
        T call() throws XAException;
    }

    private final Branches branches;
    /// Of branches that begin from now on; 0: they have all the time.
    private volatile int timeoutSeconds;

    public BranchResource(Branches branches) {
        this.branches = branches;
    }

    static XAException failure(int code, String message, Throwable cause) {
        XAException failure = new XAException(message);
        failure.errorCode = code;
        failure.initCause(cause);
        return failure;
    }

    /// Runs a call whose stores belong to no transaction.
    private <T> T unrecorded(Call<T> call) throws XAException {
        return branches.recorder.<T, XAException>unrecordedCall(call::call);
    }

    private interface Step {
        void run() throws XAException;
    }

    private void run(Step step) throws XAException {
        unrecorded(() -> {
            step.run();
            return null;
        });
    }

    @Override
    public void start(Xid xid, int flags) throws XAException {
        run(() -> {
            BranchId id = BranchId.of(xid);
            switch (flags) {
                case TMNOFLAGS -> branches.begin(id, timeoutSeconds);
                case TMJOIN -> branches.known(id).join();
                case TMRESUME -> branches.known(id).resume();
                default -> throw badFlags(flags);
            }
        });
    }

    @Override
    public void end(Xid xid, int flags) throws XAException {
        run(() -> {
            branches.recorder.branches.forget();
            Branch branch = branches.known(BranchId.of(xid));
            switch (flags) {
                case TMSUCCESS -> branch.end(false);
                case TMFAIL -> branch.end(true);
                case TMSUSPEND -> branch.suspend();
                default -> throw badFlags(flags);
            }
        });
    }

    @Override
    public int prepare(Xid xid) throws XAException {
        return unrecorded(() -> branches.known(BranchId.of(xid)).prepare() ? XA_OK : XA_RDONLY);
    }

    @Override
    public void commit(Xid xid, boolean onePhase) throws XAException {
        run(() -> {
            Branch branch = branches.known(BranchId.of(xid));
            if (onePhase) {
                branch.commitOnePhase();
            } else {
                branch.commit();
            }
        });
    }

    @Override
    public void rollback(Xid xid) throws XAException {
        run(() -> branches.known(BranchId.of(xid)).rollback());
    }

    /// Forgets a branch that an operator has ended (`cedrat resolve`), in the store, too.
    @Override
    public void forget(Xid xid) throws XAException {
        run(() -> branches.forget(BranchId.of(xid)));
    }

    /// Returns all branches that are prepared, of this opening and earlier ones, or that an operator has ended,
    /// at the beginning of a scan.
    @Override
    public Xid[] recover(int flags) throws XAException {
        if ((flags & ~(TMSTARTRSCAN | TMENDRSCAN)) != TMNOFLAGS) {
            throw badFlags(flags);
        }
        return (flags & TMSTARTRSCAN) == 0 ? new Xid[0] : unrecorded(branches::recoverable);
    }

    @Override
    public boolean isSameRM(XAResource other) {
        return other instanceof BranchResource resource && resource.branches == branches;
    }

    @Override
    public int getTransactionTimeout() {
        return timeoutSeconds;
    }

    /// A branch that has taken longer when it ends on its thread, or is to prepare or to commit in one
    /// phase, or has waited for a lock until then to do so, is rolled back. No thread is interrupted.
    @Override
    public boolean setTransactionTimeout(int seconds) throws XAException {
        if (seconds < 0) {
            throw failure(XAException.XAER_INVAL, "invalid timeout of " + seconds + " seconds: choose 0 or more", null);
        }
        timeoutSeconds = seconds;
        return true;
    }

    private static XAException badFlags(int flags) {
        return failure(XAException.XAER_INVAL, "invalid flags 0x" + Integer.toHexString(flags), null);
    }
}
