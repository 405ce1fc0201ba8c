package cedrat.oracle.tables;

import static cedrat.oracle.tables.World.VALUE;
import static cedrat.oracle.tables.World.put;
import static cedrat.oracle.tables.World.see;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.StartTimestamp;
import cedrat.oracle.log.VolatileLog;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/// O4g: clean-ups of clients that live are tried until the oracle can forget the outcome.
class CleanUpsTest {
    private static final Bytes ROW = Bytes.of("a");
    private static final Duration LITTLE_PATIENCE = Duration.ofSeconds(3);

    private final HeldLog log = new HeldLog();
    private final World world = new World(TestStore.memory(), 10, log);
    private final Hands hands = new Hands();
    private long now;

    /// Runs on demand what was scheduled.
    private static final class Hands implements CleanUps.Timer {
        final ArrayDeque<Runnable> scheduled = new ArrayDeque<>();
        Duration delay;

        @Override
        public void schedule(Duration after, Runnable work) {
            delay = after;
            scheduled.add(work);
        }

        void run() {
            scheduled.remove().run();
        }
    }

    @AfterEach
    void close() {
        world.close();
    }

    private TransactionManager manager() {
        return manager(world.oracle, world.tables, Runnable::run);
    }

    private TransactionManager manager(OracleClient oracle, Tables tables, Executor cleanUp) {
        return new TransactionManager(
                oracle,
                tables,
                TransactionManager.Options.DEFAULTS.withCleanUp(cleanUp),
                new CleanUps(oracle, tables, hands, () -> now),
                Fault.NONE);
    }

    private static void refuse(HookedTables.Point where, HookedTables.Point point, TableException.Effect effect) {
        if (point == where) {
            throw new TableException(effect, "the store fails", null);
        }
    }

    private void failCleanUps() {
        world.hook = (point, table, row, mutation) -> {
            if (World.isCleanUp(point, mutation)) {
                throw new TableException(TableException.Effect.NONE, "the store fails", null);
            }
        };
    }

    private void recover() {
        world.hook = (point, table, row, mutation) -> {};
    }

    /// Whether the oracle has no outcome of transactions that began up to now.
    private boolean isForgotten() {
        List<StartTimestamp> all = IntStream.rangeClosed(
                        1, (int) world.oracle.begin().value() - 1)
                .mapToObj(StartTimestamp::new)
                .toList();
        return world.oracle.status(all.getFirst(), all).stream()
                .noneMatch(
                        outcome -> outcome.kind() == Outcome.Kind.COMMITTED || outcome.kind() == Outcome.Kind.ABORTED);
    }

    /// O4g.
    @Test
    void failedCleanUpsAreTriedAgain() {
        TransactionManager manager = manager();
        put(manager, world.rows, "a", "old");
        failCleanUps();
        put(manager, world.rows, "a", "new");
        Transaction aborted = manager.begin(Isolation.SNAPSHOT);
        aborted.put(world.rows, ROW, VALUE, Bytes.of("never"));
        aborted.write();
        aborted.abort();
        hands.run();
        assertTrue(hands.delay.compareTo(CleanUps.DELAY_MIN) > 0, "it backs off");
        assertEquals(2, manager.cleanUpsPending());
        assertEquals(2, world.contents().pending());
        assertTrue(!isForgotten());
        recover();
        now = 1;
        hands.run();
        assertEquals(0, manager.cleanUpsPending());
        assertEquals(0, world.contents().pending());
        assertTrue(isForgotten());
        assertTrue(hands.scheduled.isEmpty());
        assertEquals("new", see(manager, world.rows, "a"));
    }

    /// O4g: the executor of clean-ups has been shut down.
    @Test
    void rejectedCleanUpIsTriedLater() {
        TransactionManager manager = manager(world.oracle, world.tables, task -> {
            throw new RejectedExecutionException();
        });
        put(manager, world.rows, "a", "new");
        assertEquals(1, world.contents().pending());
        hands.run();
        assertEquals(0, world.contents().pending());
        assertTrue(isForgotten());
    }

    /// Tables whose writes may arrive for ten seconds.
    private record Slow(Tables tables) implements Tables {
        @Override
        public Table table(String name) {
            return tables.table(name);
        }

        @Override
        public List<Table> all() {
            return tables.all();
        }

        @Override
        public Duration writesLast() {
            return Duration.ofSeconds(10);
        }
    }

    /// O4g: the write arrives after the first clean-up, and the transaction must be known until then.
    @Test
    void lateWriteIsCleanedBeforeForgotten() {
        TransactionManager manager = manager(world.oracle, new Slow(world.tables), Runnable::run);
        Transaction transaction = manager.begin(Isolation.SNAPSHOT);
        transaction.put(world.rows, ROW, VALUE, Bytes.of("ghost"));
        List<Mutation> late = new ArrayList<>();
        world.hook = (point, table, row, mutation) -> {
            if (point == HookedTables.Point.BEFORE_MUTATE) {
                late.add(mutation);
            }
            refuse(HookedTables.Point.BEFORE_MUTATE, point, TableException.Effect.UNKNOWN);
        };
        assertThrows(TableException.class, transaction::commit);
        recover();
        now = Duration.ofSeconds(10).toNanos() - 1;
        hands.run();
        assertEquals(
                Outcome.Kind.ABORTED, world.oracle.resolve(transaction.start()).kind());
        world.rows.mutate(ROW, late.getFirst());
        assertNull(see(manager, world.rows, "a"));
        now++;
        hands.run();
        assertEquals(0, world.contents().pending() + world.contents().versions());
        assertTrue(isForgotten());
    }

    /// O4g: neither the commit is answered, nor the question after it; [Transaction#resolve] still tells.
    @Test
    void lostOutcomeIsFoundInBackground() {
        OracleClient hasty = world.client(LITTLE_PATIENCE);
        TransactionManager manager = manager(hasty, world.tables, Runnable::run);
        Transaction transaction = manager.begin(Isolation.SNAPSHOT);
        transaction.put(world.rows, ROW, VALUE, Bytes.of("x"));
        log.hold();
        assertThrows(OutcomeUnknownException.class, transaction::commit);
        log.go();
        hands.run();
        assertEquals(0, world.contents().pending());
        assertTrue(isForgotten());
        assertEquals(Transaction.State.COMMITTED, transaction.resolve());
        assertEquals("x", see(manager, world.rows, "a"));
    }

    /// O4g: a write fails, and then the oracle does not answer.
    @Test
    void lostAbortIsCleanedInBackground() {
        OracleClient hasty = world.client(LITTLE_PATIENCE);
        TransactionManager manager = manager(hasty, world.tables, Runnable::run);
        Transaction transaction = manager.begin(Isolation.SNAPSHOT);
        transaction.put(world.rows, ROW, VALUE, Bytes.of("x"));
        transaction.put(world.rows, Bytes.of("b"), VALUE, Bytes.of("x"));
        world.hook = (point, table, row, mutation) -> {
            if (!row.equals(ROW)) {
                log.hold();
                refuse(HookedTables.Point.BEFORE_MUTATE, point, TableException.Effect.NONE);
            }
        };
        assertThrows(TableException.class, transaction::commit);
        assertEquals(1, world.contents().pending());
        recover();
        log.go();
        hands.run();
        assertEquals(0, world.contents().pending());
        assertTrue(isForgotten());
    }

    @Test
    void fullQueueLeavesRowsToCleaner() {
        TransactionManager manager = manager();
        CleanUp ofNothing = new CleanUp(world.oracle.begin(), List.of(), false, now, Outcome.unknown());
        for (int count = 0; count < CleanUps.TRANSACTIONS_MAX; count++) {
            manager.later(ofNothing);
        }
        failCleanUps();
        put(manager, world.rows, "a", "x");
        assertEquals(1, manager.cleanUpsFailed());
        recover();
        hands.run();
        assertEquals(0, manager.cleanUpsPending());
        assertEquals(1, new Cleaner(world.oracle, world.tables).sweep().committed());
    }

    @Test
    void closedClientEndsItsCleanUps() {
        OracleClient closed = world.client();
        TransactionManager manager = manager(closed, world.tables, Runnable::run);
        failCleanUps();
        put(manager, world.rows, "a", "x");
        closed.close();
        recover();
        hands.run();
        assertTrue(hands.scheduled.isEmpty());
        assertEquals(0, manager.cleanUpsPending());
        assertEquals(1, new Cleaner(world.oracle, world.tables).sweep().forgotten());
    }

    /// The shipped timer, whose delay is no part of the test.
    @Test
    void failedCleanUpSucceedsWithoutHands() throws Exception {
        try (World other = new World(TestStore.memory(), 10, new VolatileLog())) {
            CountDownLatch cleaned = new CountDownLatch(1);
            boolean[] hasFailed = {false};
            other.hook = (point, table, row, mutation) -> {
                if (World.isCleanUp(point, mutation) && !hasFailed[0]) {
                    hasFailed[0] = true;
                    throw new TableException(TableException.Effect.NONE, "the store fails", null);
                }
                if (point == HookedTables.Point.AFTER_MUTATE_IF_MARKED) {
                    cleaned.countDown();
                }
            };
            put(new TransactionManager(other.oracle, other.tables), other.rows, "a", "x");
            assertTrue(cleaned.await(60, TimeUnit.SECONDS), "no clean-up within a minute");
            assertEquals(0, other.contents().pending());
        }
    }
}
