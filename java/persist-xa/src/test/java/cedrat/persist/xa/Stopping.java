package cedrat.persist.xa;

import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;

/// A resource with a moment before, and one behind, each word of the outcome.
///
/// **Threads:** as the resource within.
class Stopping implements XAResource {
    private final XAResource within;

    Stopping(XAResource within) {
        this.within = within;
    }

    void beforePrepare() throws XAException {}

    void afterPrepare() throws XAException {}

    void beforeCommit() throws XAException {}

    @Override
    public int prepare(Xid xid) throws XAException {
        beforePrepare();
        int vote = within.prepare(xid);
        afterPrepare();
        return vote;
    }

    @Override
    public void commit(Xid xid, boolean onePhase) throws XAException {
        beforeCommit();
        within.commit(xid, onePhase);
    }

    @Override
    public void start(Xid xid, int flags) throws XAException {
        within.start(xid, flags);
    }

    @Override
    public void end(Xid xid, int flags) throws XAException {
        within.end(xid, flags);
    }

    @Override
    public void rollback(Xid xid) throws XAException {
        within.rollback(xid);
    }

    @Override
    public void forget(Xid xid) throws XAException {
        within.forget(xid);
    }

    @Override
    public Xid[] recover(int flag) throws XAException {
        return within.recover(flag);
    }

    @Override
    public boolean isSameRM(XAResource other) throws XAException {
        return within.isSameRM(other instanceof Stopping same ? same.within : other);
    }

    @Override
    public int getTransactionTimeout() throws XAException {
        return within.getTransactionTimeout();
    }

    @Override
    public boolean setTransactionTimeout(int seconds) throws XAException {
        return within.setTransactionTimeout(seconds);
    }
}
