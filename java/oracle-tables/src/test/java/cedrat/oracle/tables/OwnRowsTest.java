package cedrat.oracle.tables;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.StartTimestamp;
import java.util.List;
import java.util.Optional;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// O4e, V1 and V2: whatever cleaners, pruners and other transactions do with the rows of a forgotten transaction, they
/// never show an abort of one that has committed.
@Timeout(300)
class OwnRowsTest {
    private static final int RUNS = 3_000;
    private static final List<Column> COLUMNS = List.of(World.VALUE, World.OTHER);
    private static final List<Bytes> VALUES = List.of(Bytes.of("x"), Bytes.of("y"));

    private final SplittableRandom random;
    private final World world;
    private final Table table;
    private final Bytes row;
    private int committed;
    private int aborted;
    private int shown;

    OwnRowsTest() {
        long seed = Long.getLong("cedrat.seed", System.nanoTime());
        System.out.println("OwnRowsTest: -Dcedrat.seed=" + seed);
        random = new SplittableRandom(seed);
        world = new World(TestStore.memory());
        table = world.cells;
        row = Bytes.of("a");
    }

    private <T> T any(List<T> all) {
        return all.get(random.nextInt(all.size()));
    }

    /// Runs another transaction, a cleaner or a pruner.
    private void interfere(TransactionManager careful, TransactionManager careless) {
        switch (random.nextInt(6)) {
            case 0 -> new Cleaner(world.oracle, world.tables).sweep();
            case 1, 2 -> new Pruner(world.oracle, world.tables).prune();
            default -> {
                TransactionManager manager = random.nextInt(3) == 0 ? careless : careful;
                manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
                    if (random.nextInt(3) == 0) {
                        transaction.delete(table, row, any(COLUMNS));
                    } else {
                        transaction.put(table, row, any(COLUMNS), any(VALUES));
                    }
                    return null;
                });
            }
        }
    }

    private Writes writes() {
        Writes writes = new Writes(Long.MAX_VALUE, Optional.empty(), (rows, keyBytes) -> {});
        for (int count = random.nextInt(1, 3); count > 0; count--) {
            Bytes stored = random.nextInt(4) == 0 ? Values.DELETED : Values.stored(any(VALUES));
            writes.put(table, row, any(COLUMNS), stored);
        }
        return writes;
    }

    private void run(TransactionManager careful, TransactionManager careless) {
        for (int count = random.nextInt(4); count > 0; count--) {
            interfere(careful, careless);
        }
        StartTimestamp start = world.oracle.begin();
        Writes writes = writes();
        for (int count = random.nextInt(2); count > 0; count--) {
            interfere(careful, careless);
        }
        for (Writes.RowWrite write : writes.rows()) {
            table.mutate(write.row, Mutations.write(start.value(), write.cells()));
        }
        for (int count = random.nextInt(2); count > 0; count--) {
            interfere(careful, careless);
        }
        Outcome outcome = random.nextInt(3) == 0 ? world.oracle.abort(start) : world.oracle.commit(start, writes.ids());
        for (int count = random.nextInt(3); count > 0; count--) {
            interfere(careful, careless);
        }
        new Cleaner(world.oracle, world.tables).sweep();
        world.oracle.cleaned(List.of(start));
        for (int count = random.nextInt(5); count > 0; count--) {
            interfere(careful, careless);
        }
        boolean isShown = OwnRows.showAbort(writes.rows(), start.value());
        if (outcome.kind() == Outcome.Kind.COMMITTED) {
            committed++;
            assertFalse(isShown, "an abort of transaction " + start.value() + ", which has committed");
        } else {
            aborted++;
            shown += isShown ? 1 : 0;
        }
    }

    @Test
    void committedTransactionsNeverShowAnAbort() {
        try (world) {
            TransactionManager careful = world.manager();
            TransactionManager careless = world.manager(World.NEVER, Fault.NONE);
            for (int run = 0; run < RUNS; run++) {
                run(careful, careless);
            }
            assertTrue(committed > RUNS / 4 && aborted > RUNS / 4, committed + " committed, " + aborted + " aborted");
            assertTrue(shown > aborted / 10, shown + " of " + aborted + " aborts are shown");
        }
    }
}
