package cedrat.persist.bench.peers;

import cedrat.persist.bench.bank.Balances;
import cedrat.persist.bench.bank.Engine;
import cedrat.persist.bench.bank.Transfer;
import com.sleepycat.je.Cursor;
import com.sleepycat.je.Database;
import com.sleepycat.je.DatabaseConfig;
import com.sleepycat.je.DatabaseEntry;
import com.sleepycat.je.Durability;
import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import com.sleepycat.je.LockMode;
import com.sleepycat.je.OperationStatus;
import com.sleepycat.je.Transaction;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/// Berkeley DB Java Edition: a database each for accounts, tellers, branches and history.
public final class BerkeleyDbJava implements Engine {
    @Override
    public String name() {
        return "je";
    }

    @Override
    public Bank open(Path directory, boolean isDurable) {
        return new Open(directory, isDurable);
    }

    private static final class Open implements Bank {
        private final Environment environment;
        private final Database accounts;
        private final Database tellers;
        private final Database branches;
        private final Database history;
        private final AtomicLong line;

        Open(Path directory, boolean isDurable) {
            EnvironmentConfig config = new EnvironmentConfig();
            config.setAllowCreate(true).setTransactional(true).setCacheSize(1L << 30);
            config.setDurability(isDurable ? Durability.COMMIT_SYNC : Durability.COMMIT_NO_SYNC);
            config.setLockTimeout(1, TimeUnit.MINUTES);
            environment = new Environment(directory.toFile(), config);
            accounts = database("accounts", Transfer.ACCOUNTS);
            tellers = database("tellers", Transfer.TELLERS);
            branches = database("branches", Transfer.BRANCHES);
            history = database("history", 0);
            line = new AtomicLong(history.count());
        }

        private Database database(String name, int rows) {
            DatabaseConfig config = new DatabaseConfig();
            config.setAllowCreate(true).setTransactional(true);
            Database database = environment.openDatabase(null, name, config);
            if (rows > 0 && database.count() == 0) {
                Transaction transaction = environment.beginTransaction(null, null);
                for (int row = 0; row < rows; row++) {
                    database.put(transaction, key(row), balance(0));
                }
                transaction.commit();
            }
            return database;
        }

        private static DatabaseEntry key(int row) {
            return new DatabaseEntry(
                    ByteBuffer.allocate(Integer.BYTES).putInt(row).array());
        }

        private static DatabaseEntry balance(long value) {
            return new DatabaseEntry(
                    ByteBuffer.allocate(Long.BYTES).putLong(value).array());
        }

        @Override
        public void transact(Transfer transfer) {
            Transaction transaction = environment.beginTransaction(null, null);
            add(transaction, accounts, transfer.account(), transfer.amount());
            add(transaction, tellers, transfer.teller(), transfer.amount());
            add(transaction, branches, transfer.branch(), transfer.amount());
            ByteBuffer bytes = ByteBuffer.allocate(2 * Long.BYTES + 3 * Integer.BYTES);
            bytes.putLong(transfer.amount()).putLong(System.currentTimeMillis());
            bytes.putInt(transfer.account()).putInt(transfer.teller()).putInt(transfer.branch());
            DatabaseEntry key = balance(line.getAndIncrement());
            history.put(transaction, key, new DatabaseEntry(bytes.array()));
            transaction.commit();
        }

        private static void add(Transaction transaction, Database database, int row, long amount) {
            DatabaseEntry key = key(row);
            DatabaseEntry found = new DatabaseEntry();
            OperationStatus status = database.get(transaction, key, found, LockMode.RMW);
            if (status != OperationStatus.SUCCESS) {
                throw new IllegalStateException("there is no row " + row);
            }
            long balance = ByteBuffer.wrap(found.getData()).getLong();
            database.put(transaction, key, balance(balance + amount));
        }

        @Override
        public Balances balances() {
            return new Balances(sum(accounts), sum(tellers), sum(branches), sum(history), history.count());
        }

        private static long sum(Database database) {
            long sum = 0;
            DatabaseEntry key = new DatabaseEntry();
            DatabaseEntry found = new DatabaseEntry();
            try (Cursor cursor = database.openCursor(null, null)) {
                while (cursor.getNext(key, found, LockMode.READ_UNCOMMITTED) == OperationStatus.SUCCESS) {
                    sum += ByteBuffer.wrap(found.getData()).getLong();
                }
            }
            return sum;
        }

        @Override
        public void close() {
            for (Database database : new Database[] {accounts, tellers, branches, history}) {
                database.close();
            }
            environment.close();
        }
    }
}
