package cedrat.oracle.tables;

import static cedrat.oracle.tables.World.NEVER;
import static cedrat.oracle.tables.World.VALUE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.OracleClient;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

/// Clients side by side, some of which die, with cleaners and a pruner among them; what they have seen is
/// judged afterwards.
public abstract class HistoryContract {
    private static final int CLIENTS = 4;
    private static final int TRANSACTIONS = 400;
    private static final int KEYS = 8;

    /// For those who have a store.
    protected HistoryContract() {}

    /// A fresh store.
    protected abstract TestStore store();

    /// A client: reads and writes a few rows of two tables in each transaction. The value is who wrote it.
    private static void run(World world, History history, int number, Fault fault) {
        SplittableRandom random = new SplittableRandom(number);
        OracleClient oracle = world.client();
        List<Table> tables = List.of(world.rows, world.cells);
        for (int count = 0; count < TRANSACTIONS / world.store.scale(); count++) {
            if (random.nextInt(40) == 0) {
                oracle = world.client(); // the other is not heard of again, and leaves what it has left
            }
            boolean isCareless = random.nextInt(4) == 0;
            TransactionManager manager = new TransactionManager(
                    oracle,
                    number % 2 == 0 ? world.tables : world.sideBySide(),
                    number < 2 && !isCareless
                            ? World.anyBuffer(random)
                            : World.anyBuffer(random).withCleanUp(isCareless ? NEVER : Runnable::run),
                    fault);
            long begunAt = history.now();
            Transaction transaction = manager.begin(Isolation.SNAPSHOT);
            Map<String, Long> reads = new HashMap<>();
            Set<String> writes = new HashSet<>();
            for (int read = random.nextInt(4); read > 0; read--) {
                Table table = tables.get(random.nextInt(2));
                String row = "" + random.nextInt(KEYS);
                reads.put(
                        table + "/" + row,
                        transaction
                                .get(table, Bytes.of(row), VALUE)
                                .map(Bytes::toLong)
                                .orElse(History.NOTHING));
            }
            if (random.nextInt(4) == 0) {
                Table table = tables.get(random.nextInt(2));
                for (int row = 0; row < KEYS; row++) {
                    reads.put(table + "/" + row, History.NOTHING);
                }
                try (Rows rows = transaction.scan(table, Scan.ALL)) {
                    rows.forEachRemaining(row -> reads.put(
                            table + "/" + row.key().toText(),
                            row.get(VALUE).orElseThrow().toLong()));
                }
            }
            for (int write = random.nextInt(3); write > 0; write--) {
                Table table = tables.get(random.nextInt(2));
                String row = "" + random.nextInt(KEYS);
                transaction.put(
                        table,
                        Bytes.of(row),
                        VALUE,
                        Bytes.of(transaction.start().value()));
                writes.add(table + "/" + row);
            }
            long commit = 0;
            if (random.nextInt(10) == 0) {
                transaction.write(); // and dies, or forgets it
                oracle.abort(transaction.start());
            } else {
                try {
                    commit = transaction.commit().value();
                } catch (AbortedException aborted) {
                    // recorded as that
                }
            }
            history.add(new History.Transaction(
                    begunAt, history.now(), transaction.start().value(), commit, writes, reads));
        }
    }

    History record(Fault fault) throws Exception {
        History history = new History();
        try (World world = new World(store())) {
            ConcurrentLinkedQueue<Throwable> failures = new ConcurrentLinkedQueue<>();
            AtomicBoolean isOver = new AtomicBoolean();
            List<Thread> clients = new ArrayList<>();
            for (int number = 0; number < CLIENTS; number++) {
                int client = number;
                clients.add(start(failures, () -> run(world, history, client, fault)));
            }
            Thread keeper = start(failures, () -> {
                while (!isOver.get()) {
                    new Cleaner(world.oracle, world.tables, System::nanoTime, fault).sweep();
                    new Pruner(world.oracle, world.tables, fault).prune();
                }
            });
            for (Thread client : clients) {
                client.join();
            }
            isOver.set(true);
            keeper.join();
            assertEquals(List.of(), List.copyOf(failures));
        }
        return history;
    }

    private static Thread start(ConcurrentLinkedQueue<Throwable> failures, Runnable work) {
        Thread thread = new Thread(work);
        thread.setUncaughtExceptionHandler((which, failure) -> failures.add(failure));
        thread.start();
        return thread;
    }

    @Test
    void historiesAreSnapshotIsolated() throws Exception {
        History history = record(Fault.NONE);
        history.check();
        assertTrue(
                history.committed() > history.aborted() && history.aborted() > 0,
                history.committed() + " committed, " + history.aborted() + " aborted");
    }
}
