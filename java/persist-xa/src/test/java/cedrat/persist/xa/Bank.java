package cedrat.persist.xa;

import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import com.arjuna.ats.arjuna.common.CoreEnvironmentBeanException;
import com.arjuna.ats.arjuna.common.ObjectStoreEnvironmentBean;
import com.arjuna.ats.arjuna.common.Uid;
import com.arjuna.ats.arjuna.common.arjPropertyManager;
import com.arjuna.ats.arjuna.common.recoveryPropertyManager;
import com.arjuna.ats.arjuna.recovery.RecoveryManager;
import com.arjuna.ats.internal.jta.recovery.arjunacore.JTANodeNameXAResourceOrphanFilter;
import com.arjuna.ats.internal.jta.recovery.arjunacore.JTATransactionLogXAResourceOrphanFilter;
import com.arjuna.ats.internal.jta.recovery.arjunacore.XARecoveryModule;
import com.arjuna.ats.jta.common.jtaPropertyManager;
import com.arjuna.ats.jta.xa.XidImple;
import com.arjuna.common.internal.util.propertyservice.BeanPopulator;
import jakarta.transaction.RollbackException;
import jakarta.transaction.Synchronization;
import jakarta.transaction.TransactionManager;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.List;
import java.util.StringJoiner;
import java.util.concurrent.CountDownLatch;
import javax.sql.XAConnection;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;

/// An account of a Java object, and one in a row of PostgreSQL, with money that goes from the one to the other: by
/// Narayana, which has its log in a folder.
///
/// **Threads:** one.
final class Bank implements AutoCloseable {
    static final long HERE = 1000;
    static final long THERE = 500;

    /// The one of Java.
    static final class Account {
        long balance = HERE;
    }

    private static final String NODE = "1";

    private final Store store;
    private final int port;
    private final TransactionManager manager;
    private final RecoveryManager recovery;

    /// Opens it: the store and the log of the transaction manager in a folder, the server at a port.
    Bank(Path folder, int port) throws CoreEnvironmentBeanException {
        this.port = port;
        configure(folder.resolve("narayana").toString());
        store = Store.open(folder.resolve("store"), new StoreOptions());
        manager = com.arjuna.ats.jta.TransactionManager.transactionManager();
        recovery = RecoveryManager.manager(RecoveryManager.DIRECT_MANAGEMENT);
        Example.Recovery.offer(store, Postgres.source(port));
    }

    private static void configure(String log) throws CoreEnvironmentBeanException {
        for (String name : new String[] {null, "communicationStore", "stateStore"}) {
            BeanPopulator.getNamedInstance(ObjectStoreEnvironmentBean.class, name)
                    .setObjectStoreDir(log);
        }
        arjPropertyManager.getCoreEnvironmentBean().setNodeIdentifier(NODE);
        var jta = jtaPropertyManager.getJTAEnvironmentBean();
        jta.setXaRecoveryNodes(List.of(NODE));
        jta.setXaResourceOrphanFilterClassNames(List.of(
                JTATransactionLogXAResourceOrphanFilter.class.getName(),
                JTANodeNameXAResourceOrphanFilter.class.getName()));
        // No other process is about to log a decision while this one recovers.
        jta.setOrphanSafetyInterval(0);
        var environment = recoveryPropertyManager.getRecoveryEnvironmentBean();
        environment.setRecoveryBackoffPeriod(1);
        environment.setRecoveryListener(false);
        environment.setRecoveryModuleClassNames(List.of(
                "com.arjuna.ats.internal.arjuna.recovery.AtomicActionRecoveryModule",
                XARecoveryModule.class.getName()));
        environment.setExpiryScannerClassNames(List.of());
    }

    /// Makes both accounts.
    void found() throws SQLException {
        store.setRoot("account", new Account());
        try (Connection connection = Postgres.source(port).getXAConnection().getConnection();
                Statement statement = connection.createStatement()) {
            statement.execute("create table account (id int primary key, balance bigint check (balance >= 0))");
            statement.execute("insert into account values (1, " + THERE + ")");
        }
    }

    /// Returns a resource that stops at a given point.
    private static XAResource stopping(XAResource within, Point at, Point prepare, Point prepared, Point commit) {
        return new Stopping(within) {
            private void stop(Point point) {
                if (point == at) {
                    Main.stop(point);
                }
            }

            @Override
            void beforePrepare() throws XAException {
                if (at == Point.ONE_REFUSES && prepare != null) {
                    throw new XAException(XAException.XA_RBROLLBACK);
                }
                stop(prepare);
            }

            @Override
            void afterPrepare() {
                stop(prepared);
            }

            @Override
            void beforeCommit() {
                stop(commit);
            }
        };
    }

    /// Moves money from the object to the row, and stops on the way.
    void transfer(long amount, Point at) throws Exception {
        XAConnection there = Postgres.source(port).getXAConnection();
        try (Connection connection = there.getConnection();
                Statement statement = connection.createStatement()) {
            manager.begin();
            boolean isToCommit = false;
            try {
                XAResource first = stopping(store.xaResource(), at, null, null, Point.AFTER_THE_DECISION);
                XAResource second = stopping(
                        new Telling(there.getXAResource()),
                        at,
                        Point.ONE_HAS_PREPARED,
                        Point.BEFORE_THE_DECISION,
                        Point.ONE_HAS_COMMITTED);
                manager.getTransaction().enlistResource(first);
                manager.getTransaction().enlistResource(second);
                Account account = store.root("account", Account.class);
                Transaction.run(() -> account.balance -= amount);
                statement.execute("update account set balance = balance + " + amount);
                isToCommit = true;
            } finally {
                if (!isToCommit) {
                    manager.rollback();
                }
            }
            manager.commit();
        } finally {
            there.close();
        }
    }

    /// As docs/use/xa.md shows it.
    void example(long amount) throws Exception {
        new Example.Mover(store, Postgres.source(port), manager).move(amount);
    }

    /// As that, where the store takes no part: its thread has another branch.
    ///
    /// @return what it throws
    String refusedExample(long amount) throws XAException {
        XAResource resource = store.xaResource();
        Xid other = new XidImple(new Uid());
        resource.start(other, XAResource.TMNOFLAGS);
        try {
            example(amount);
            return "nothing";
        } catch (Exception e) {
            return e.getClass().getSimpleName();
        } finally {
            resource.end(other, XAResource.TMSUCCESS);
            resource.rollback(other);
        }
    }

    /// Two parts of a program let the store take part, and each takes something from the object.
    String twice(long amount) throws Exception {
        manager.begin();
        StringJoiner said = new StringJoiner(" ");
        for (int part = 0; part < 2; part++) {
            said.add("" + manager.getTransaction().enlistResource(store.xaResource()));
            Account account = store.root("account", Account.class);
            Transaction.run(() -> account.balance -= amount);
        }
        manager.commit();
        return said.toString();
    }

    /// The transaction manager rolls back after its timeout, on a thread of its own; this one goes on.
    ///
    /// @param amount what is taken from the object afterwards
    /// @return what is thrown at the thread on its way
    String outlast(long amount) throws Exception {
        CountDownLatch isOver = new CountDownLatch(1);
        manager.setTransactionTimeout(1);
        manager.begin();
        manager.setTransactionTimeout(0);
        manager.getTransaction().enlistResource(store.xaResource());
        manager.getTransaction().registerSynchronization(new Synchronization() {
            @Override
            public void beforeCompletion() {}

            @Override
            public void afterCompletion(int status) {
                isOver.countDown();
            }
        });
        Account account = store.root("account", Account.class);
        Transaction.run(() -> account.balance = 0);
        isOver.await();
        StringJoiner thrown = new StringJoiner(" ");
        try {
            manager.commit();
        } catch (RollbackException e) {
            thrown.add("RollbackException");
        }
        try {
            Transaction.run(() -> account.balance = 0);
        } catch (StoreException e) {
            thrown.add("StoreException");
        }
        Transaction.run(() -> account.balance -= amount);
        return thrown.toString();
    }

    /// Ends what is in doubt: two passes, for the transaction manager ends in the second what it has seen in the first.
    void recover() {
        recovery.scan();
        recovery.scan();
    }

    /// Returns both balances and the number of branches in doubt.
    String show() throws SQLException, XAException {
        int here = store.xaResource().recover(XAResource.TMSTARTRSCAN).length;
        XAConnection there = Postgres.source(port).getXAConnection();
        try (Connection connection = there.getConnection();
                Statement statement = connection.createStatement()) {
            int inDoubt = here + there.getXAResource().recover(XAResource.TMSTARTRSCAN).length;
            try (ResultSet row = statement.executeQuery("select balance from account")) {
                row.next();
                return balance() + " " + row.getLong(1) + " " + inDoubt;
            }
        } finally {
            there.close();
        }
    }

    private String balance() {
        try {
            return "" + store.root("account", Account.class).balance;
        } catch (cedrat.persist.InDoubtException e) {
            return "unknown";
        }
    }

    @Override
    public void close() {
        recovery.terminate(true);
        store.close();
    }
}
