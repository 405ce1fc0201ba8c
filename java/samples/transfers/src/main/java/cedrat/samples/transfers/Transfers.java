package cedrat.samples.transfers;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.tables.Bytes;
import cedrat.oracle.tables.Cleaner;
import cedrat.oracle.tables.Column;
import cedrat.oracle.tables.Contents;
import cedrat.oracle.tables.Granularity;
import cedrat.oracle.tables.HookedTables;
import cedrat.oracle.tables.Isolation;
import cedrat.oracle.tables.MemoryTables;
import cedrat.oracle.tables.Mutation;
import cedrat.oracle.tables.Pruner;
import cedrat.oracle.tables.Row;
import cedrat.oracle.tables.Rows;
import cedrat.oracle.tables.Scan;
import cedrat.oracle.tables.Table;
import cedrat.oracle.tables.Tables;
import cedrat.oracle.tables.Transaction;
import cedrat.oracle.tables.TransactionManager;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;

/// Accounts in two tables, and clients that move money between them.
final class Transfers {
    /// What was seen.
    ///
    /// @param transfers how many transfers were committed
    /// @param totals how often all balances were added up while they were made
    /// @param wrong how often the total was not what it had been in the beginning
    /// @param removed how many rows of the client that died were removed
    /// @param versions how many versions are left when all is cleaned and pruned; one for each account
    record Report(long transfers, long totals, long wrong, long removed, long versions) {}

    private static final Column BALANCE = Column.of("account", "balance");
    private static final long FIRST_BALANCE = 1000;

    private final InetSocketAddress server;
    private final int clients;
    private final int transfersEach;
    private final int accounts;
    private final SplittableRandom seeds;

    private final MemoryTables store = new MemoryTables();
    private final Tables tables = new HookedTables(store, this::die);
    private final Table current;
    private final Table savings;
    private final AtomicLong transfers = new AtomicLong();
    private final AtomicLong totals = new AtomicLong();
    private final AtomicLong wrong = new AtomicLong();
    /// The thread that is to die with its next write.
    private volatile Thread dying;

    Transfers(InetSocketAddress server, int clients, int transfersEach, int accounts, long seed) {
        this.server = server;
        this.clients = clients;
        this.transfersEach = transfersEach;
        this.accounts = accounts;
        seeds = new SplittableRandom(seed);
        store.create("current", Granularity.ROW);
        store.create("savings", Granularity.ROW);
        current = tables.table("current");
        savings = tables.table("savings");
    }

    // ---- the application
    // --------------------------------------------------------------------------------------------

    /// Moves money from one table to the other, if there is so much.
    private void transfer(Transaction transaction, Table from, Bytes payer, Table to, Bytes payee, long amount) {
        long there = balance(transaction, from, payer);
        if (there >= amount) {
            transaction.put(from, payer, BALANCE, Bytes.of(there - amount));
            transaction.put(to, payee, BALANCE, Bytes.of(balance(transaction, to, payee) + amount));
        }
    }

    private static long balance(Transaction transaction, Table table, Bytes account) {
        return transaction.get(table, account, BALANCE).orElseThrow().toLong();
    }

    /// All balances of both tables, at one moment.
    private long total(Transaction transaction) {
        long total = 0;
        for (Table table : List.of(current, savings)) {
            try (Rows rows = transaction.scan(table, Scan.ALL)) {
                while (rows.hasNext()) {
                    Row row = rows.next();
                    total += row.get(BALANCE).orElseThrow().toLong();
                }
            }
        }
        return total;
    }

    // ---- those who use it
    // -------------------------------------------------------------------------------------------

    Report run() throws InterruptedException {
        try (OracleClient oracle = OracleClient.open(ClientOptions.of(server))) {
            TransactionManager manager = new TransactionManager(oracle, tables);
            manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
                for (int account = 0; account < accounts; account++) {
                    transaction.put(current, Bytes.of(account), BALANCE, Bytes.of(FIRST_BALANCE));
                    transaction.put(savings, Bytes.of(account), BALANCE, Bytes.of(FIRST_BALANCE));
                }
                return null;
            });

            ConcurrentLinkedQueue<Throwable> failures = new ConcurrentLinkedQueue<>();
            AtomicBoolean isOver = new AtomicBoolean();
            CountDownLatch halfWay = new CountDownLatch(1);
            List<Thread> threads = new ArrayList<>();
            for (int number = 0; number < clients; number++) {
                SplittableRandom random = seeds.split();
                boolean dies = number == 0;
                threads.add(start(failures, () -> pay(random, dies, halfWay)));
            }
            Thread reader = start(failures, () -> {
                do {
                    check(manager);
                    new Pruner(oracle, tables).prune();
                } while (!isOver.get());
            });
            for (Thread thread : threads) {
                thread.join();
            }
            isOver.set(true);
            reader.join();
            if (!failures.isEmpty()) {
                throw new IllegalStateException("a client has failed", failures.peek());
            }

            check(manager);
            Cleaner.Sweep sweep = new Cleaner(oracle, tables).sweep();
            new Pruner(oracle, tables).prune();
            check(manager);
            return new Report(
                    transfers.get(),
                    totals.get(),
                    wrong.get(),
                    sweep.aborted(),
                    Contents.of(store).versions());
        }
    }

    private void check(TransactionManager manager) {
        long total = manager.runInTransaction(Isolation.SNAPSHOT, this::total);
        totals.incrementAndGet();
        if (total != 2 * FIRST_BALANCE * accounts) {
            wrong.incrementAndGet();
        }
    }

    /// A client with a session of its own. One of them dies half-way, and the others end only after it has.
    private void pay(SplittableRandom random, boolean dies, CountDownLatch dead) {
        try (OracleClient oracle = OracleClient.open(ClientOptions.of(server))) {
            TransactionManager manager = new TransactionManager(oracle, tables);
            for (int count = 0; count < transfersEach; count++) {
                if (dies && count == transfersEach / 2) {
                    dieInACommit(manager);
                    dead.countDown();
                    return; // what was its session ends here, as the server would end that of a process which is gone
                }
                if (!dies && count == transfersEach - 1) {
                    await(dead);
                }
                boolean isSaving = random.nextBoolean();
                Bytes payer = Bytes.of(random.nextLong(accounts));
                Bytes payee = Bytes.of(random.nextLong(accounts));
                long amount = 1 + random.nextLong(100);
                manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
                    transfer(
                            transaction,
                            isSaving ? current : savings,
                            payer,
                            isSaving ? savings : current,
                            payee,
                            amount);
                    return null;
                });
                transfers.incrementAndGet();
            }
        }
    }

    private static final class Death extends Error {
        private static final long serialVersionUID = 1L;
    }

    @SuppressWarnings("resource") // the dead close nothing
    private void dieInACommit(TransactionManager manager) {
        Transaction last = manager.begin(Isolation.SNAPSHOT);
        transfer(last, current, Bytes.of(0), savings, Bytes.of(0), balance(last, current, Bytes.of(0)));
        dying = Thread.currentThread();
        try {
            last.commit();
        } catch (Death here) {
            dying = null;
        }
    }

    private void die(HookedTables.Point point, Table table, Bytes row, Mutation mutation) {
        if (point == HookedTables.Point.AFTER_MUTATE && Thread.currentThread() == dying) {
            throw new Death();
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException nobodyDoes) {
            throw new IllegalStateException(nobodyDoes);
        }
    }

    private static Thread start(ConcurrentLinkedQueue<Throwable> failures, Runnable work) {
        Thread thread = new Thread(work);
        thread.setUncaughtExceptionHandler((which, failure) -> failures.add(failure));
        thread.start();
        return thread;
    }
}
