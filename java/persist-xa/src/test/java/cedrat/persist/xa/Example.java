package cedrat.persist.xa;

import cedrat.persist.Store;
import cedrat.persist.Transaction;
import com.arjuna.ats.internal.jta.recovery.arjunacore.XARecoveryModule;
import com.arjuna.ats.jta.recovery.XAResourceRecoveryHelper;
import jakarta.transaction.TransactionManager;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import javax.sql.XAConnection;
import javax.sql.XADataSource;
import javax.transaction.xa.XAResource;

/// The examples of docs/use/xa.md.
///
/// **Threads:** any.
final class Example {
    /// Moves money from an object to a row.
    static final class Mover {
        private final Store store;
        private final XADataSource database;
        private final TransactionManager manager;

        Mover(Store store, XADataSource database, TransactionManager manager) {
            this.store = store;
            this.database = database;
            this.manager = manager;
        }

        // shown: move
        void move(long amount) throws Exception {
            XAConnection session = database.getXAConnection();
            manager.begin();
            try (Connection connection = session.getConnection();
                    PreparedStatement update =
                            connection.prepareStatement("update account set balance = balance + ?")) {
                // Narayana returns false for a resource that takes no part, and continues without it.
                if (!manager.getTransaction().enlistResource(store.xaResource())
                        || !manager.getTransaction().enlistResource(session.getXAResource())) {
                    throw new IllegalStateException("a store takes no part in the transaction");
                }
                Bank.Account account = store.root("account", Bank.Account.class);
                Transaction.run(() -> account.balance -= amount);
                update.setLong(1, amount);
                update.executeUpdate();
            } catch (Exception e) {
                manager.rollback();
                throw e;
            }
            manager.commit(); // both, or neither
            session.close();
        }
        // shown
    }

    /// Tells Narayana's recovery whom to ask.
    static final class Recovery {
        private Recovery() {}

        // shown: recovery
        static void offer(Store store, XADataSource database) {
            XARecoveryModule.getRegisteredXARecoveryModule()
                    .addXAResourceRecoveryHelper(new XAResourceRecoveryHelper() {
                        @Override
                        public boolean initialise(String parameters) {
                            return true;
                        }

                        @Override
                        public XAResource[] getXAResources() throws SQLException {
                            return new XAResource[] {
                                store.xaResource(), database.getXAConnection().getXAResource()
                            };
                        }
                    });
        }
        // shown
    }

    private Example() {}
}
