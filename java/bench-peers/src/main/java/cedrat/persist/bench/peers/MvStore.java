package cedrat.persist.bench.peers;

import cedrat.persist.bench.bank.Balances;
import cedrat.persist.bench.bank.Engine;
import cedrat.persist.bench.bank.Transfer;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;
import org.h2.mvstore.MVStore;
import org.h2.mvstore.tx.Transaction;
import org.h2.mvstore.tx.TransactionMap;
import org.h2.mvstore.tx.TransactionStore;

/// H2's MVStore with its transactions. To be durable, `sync` follows the commit, one for all threads that wait.
public final class MvStore implements Engine {
    @Override
    public String name() {
        return "mvstore";
    }

    @Override
    public Bank open(Path directory, boolean isDurable) {
        return new Open(directory, isDurable);
    }

    private static final class Open implements Bank {
        private static final int LOCK_TIMEOUT_MILLIS = 60_000;

        private final boolean isDurable;
        private final MVStore store;
        private final TransactionStore transactions;
        private final AtomicLong line;
        private final ReentrantLock syncing = new ReentrantLock();
        private final AtomicLong committed = new AtomicLong();
        private volatile long synced;

        Open(Path directory, boolean isDurable) {
            this.isDurable = isDurable;
            MVStore.Builder builder =
                    new MVStore.Builder().fileName(directory.resolve("bank").toString());
            store = (isDurable ? builder.autoCommitDisabled() : builder).open();
            transactions = new TransactionStore(store);
            transactions.init();
            Transaction transaction = transactions.begin();
            fill(transaction, "accounts", Transfer.ACCOUNTS);
            fill(transaction, "tellers", Transfer.TELLERS);
            fill(transaction, "branches", Transfer.BRANCHES);
            line = new AtomicLong(transaction.<Long, long[]>openMap("history").sizeAsLong());
            transaction.commit();
            store.commit();
            store.sync();
        }

        private static void fill(Transaction transaction, String name, int rows) {
            TransactionMap<Integer, Long> map = transaction.openMap(name);
            if (map.isEmpty()) {
                for (int row = 0; row < rows; row++) {
                    map.put(row, 0L);
                }
            }
        }

        @Override
        public void transact(Transfer transfer) {
            Transaction transaction = transactions.begin();
            transaction.setTimeoutMillis(LOCK_TIMEOUT_MILLIS);
            add(transaction, "accounts", transfer.account(), transfer.amount());
            add(transaction, "tellers", transfer.teller(), transfer.amount());
            add(transaction, "branches", transfer.branch(), transfer.amount());
            long[] record = {
                transfer.amount(), System.currentTimeMillis(), transfer.account(), transfer.teller(), transfer.branch()
            };
            transaction.<Long, long[]>openMap("history").put(line.getAndIncrement(), record);
            transaction.commit();
            if (isDurable) {
                sync(committed.incrementAndGet());
            }
        }

        private static void add(Transaction transaction, String name, int row, long amount) {
            TransactionMap<Integer, Long> map = transaction.openMap(name);
            map.lock(row);
            map.put(row, map.get(row) + amount);
        }

        private void sync(long number) {
            syncing.lock();
            try {
                if (synced < number) {
                    long upTo = committed.get();
                    store.commit();
                    store.sync();
                    synced = upTo;
                }
            } finally {
                syncing.unlock();
            }
        }

        @Override
        public Balances balances() {
            Transaction transaction = transactions.begin();
            try {
                TransactionMap<Long, long[]> history = transaction.openMap("history");
                long recorded = 0;
                for (Map.Entry<Long, long[]> entry : history.entrySet()) {
                    recorded += entry.getValue()[0];
                }
                return new Balances(
                        sum(transaction, "accounts"),
                        sum(transaction, "tellers"),
                        sum(transaction, "branches"),
                        recorded,
                        history.sizeAsLong());
            } finally {
                transaction.rollback();
            }
        }

        private static long sum(Transaction transaction, String name) {
            long sum = 0;
            for (Map.Entry<Integer, Long> entry :
                    transaction.<Integer, Long>openMap(name).entrySet()) {
                sum += entry.getValue();
            }
            return sum;
        }

        @Override
        public void close() {
            transactions.close();
            store.close();
        }
    }
}
