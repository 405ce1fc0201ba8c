package cedrat.persist.xa;

import java.sql.SQLException;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;

/// The resource of PostgreSQL, which says of a server that is gone that it is gone. Its driver takes the last words of
/// a server that ends (SQLSTATE 57P01 and 57P02) for an error of the statement, `XAER_RMERR`; a transaction manager
/// takes that for a rollback behind its back, and asks no more.
///
/// **Threads:** as the resource within.
final class Telling extends Stopping {
    Telling(XAResource within) {
        super(within);
    }

    private interface Call<T> {
        T call() throws XAException;
    }

    private static <T> T translated(Call<T> call) throws XAException {
        try {
            return call.call();
        } catch (XAException e) {
            boolean isGone = e.getCause() instanceof SQLException cause
                    && cause.getSQLState() != null
                    && cause.getSQLState().startsWith("57P");
            if (isGone) {
                XAException gone = new XAException("the server is gone");
                gone.errorCode = XAException.XAER_RMFAIL;
                gone.initCause(e);
                throw gone;
            }
            throw e;
        }
    }

    @Override
    public int prepare(Xid xid) throws XAException {
        return translated(() -> super.prepare(xid));
    }

    @Override
    public void commit(Xid xid, boolean onePhase) throws XAException {
        translated(() -> {
            super.commit(xid, onePhase);
            return null;
        });
    }

    @Override
    public void rollback(Xid xid) throws XAException {
        translated(() -> {
            super.rollback(xid);
            return null;
        });
    }

    @Override
    public void end(Xid xid, int flags) throws XAException {
        translated(() -> {
            super.end(xid, flags);
            return null;
        });
    }
}
