package cedrat.samples.transfers;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.tables.Bytes;
import cedrat.oracle.tables.Cleaner;
import cedrat.oracle.tables.Contents;
import cedrat.oracle.tables.Granularity;
import cedrat.oracle.tables.HookedTables;
import cedrat.oracle.tables.Isolation;
import cedrat.oracle.tables.MemoryTables;
import cedrat.oracle.tables.Mutation;
import cedrat.oracle.tables.Pruner;
import cedrat.oracle.tables.Table;
import cedrat.oracle.tables.Tables;
import cedrat.oracle.tables.Transaction;
import cedrat.oracle.tables.TransactionManager;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;

/// Accounts in two tables, and clients that move money between them.
final class Transfers {
    /// Result of a run.
    ///
    /// @param transfers how many transfers were committed
    /// @param totals how often all balances were added up while they were made
    /// @param wrong how often the total was not what it had been in the beginning
    /// @param removed how many rows of the client that died were removed
    /// @param versions how many versions are left when all is cleaned and pruned; two for each account, one
    ///     for each of its columns
    record Report(long transfers, long totals, long wrong, long removed, long versions) {}

    private final ClientOptions options;
    private final int clients;
    private final int transfersEach;
    private final SplittableRandom seeds;

    private final MemoryTables store = new MemoryTables();
    private final Tables tables = new HookedTables(store, this::die);
    private final Accounts accounts;
    private final AtomicLong transfers = new AtomicLong();
    private final AtomicLong totals = new AtomicLong();
    private final AtomicLong wrong = new AtomicLong();
    /// The thread that is to die with its next write.
    private volatile Thread dying;

    Transfers(ClientOptions options, int clients, int transfersEach, int accounts, long seed) {
        this.options = options;
        this.clients = clients;
        this.transfersEach = transfersEach;
        seeds = new SplittableRandom(seed);
        store.create(Accounts.CURRENT, Granularity.ROW);
        store.create(Accounts.SAVINGS, Granularity.ROW);
        this.accounts = new Accounts(tables, accounts, Witness.NONE);
    }

    // ---- those who use it
    // -------------------------------------------------------------------------------------------

    Report run() throws InterruptedException {
        try (OracleClient oracle = OracleClient.open(options);
                TransactionManager manager = new TransactionManager(oracle, tables)) {
            accounts.open(manager);

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
        totals.incrementAndGet();
        if (!accounts.isTotalRight(manager)) {
            wrong.incrementAndGet();
        }
    }

    /// A client with a session of its own. One of them dies half-way, and the others end only after it has.
    private void pay(SplittableRandom random, boolean dies, CountDownLatch dead) {
        try (OracleClient oracle = OracleClient.open(options);
                TransactionManager manager = new TransactionManager(oracle, tables)) {
            for (int count = 0; count < transfersEach; count++) {
                if (dies && count == transfersEach / 2) {
                    dieInACommit(manager);
                    dead.countDown();
                    return; // what was its session ends here, as the server would end that of a process which is gone
                }
                if (!dies && count == transfersEach - 1) {
                    await(dead);
                }
                accounts.transferSome(manager, random);
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
        accounts.emptyFirst(last);
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
        } catch (InterruptedException unexpected) {
            throw new IllegalStateException(unexpected);
        }
    }

    private static Thread start(ConcurrentLinkedQueue<Throwable> failures, Runnable work) {
        Thread thread = new Thread(work);
        thread.setUncaughtExceptionHandler((which, failure) -> failures.add(failure));
        thread.start();
        return thread;
    }
}
