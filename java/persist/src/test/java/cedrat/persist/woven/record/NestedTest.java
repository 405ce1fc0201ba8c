package cedrat.persist.woven.record;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.RwLock;
import cedrat.persist.Transaction;
import cedrat.persist.Transaction.Action;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.junit.jupiter.api.Test;

/// Transactions within transactions, ends of transactions, and their owners.
public class NestedTest {
    private static final class Cell {
        int value;
        int other;
    }

    private final Cell cell = new Cell();

    @Test
    void aNestedRollbackLeavesTheOuterChanges() {
        try (var outer = Transaction.begin()) {
            cell.value = 1;
            try (var inner = Transaction.begin()) {
                cell.value = 2;
                cell.other = 2;
                inner.rollback();
            }
            assertEquals(1, cell.value);
            assertEquals(0, cell.other);
            outer.commit();
        }
        assertEquals(1, cell.value);
        assertEquals(0, cell.other);
    }

    @Test
    void outerRollbackUndoesNestedCommit() {
        try (var outer = Transaction.begin()) {
            cell.value = 1;
            try (var inner = Transaction.begin()) {
                cell.value = 2;
                cell.other = 2;
                inner.commit();
            }
            assertEquals(2, cell.value);
            outer.rollback();
        }
        assertEquals(0, cell.value);
        assertEquals(0, cell.other);
    }

    /// J13.
    @Test
    void levelsAreRestoredOneByOne() {
        try (var first = Transaction.begin()) {
            cell.value = 1;
            try (var second = Transaction.begin()) {
                cell.value = 2;
                try (var third = Transaction.begin()) {
                    cell.value = 3;
                    third.commit();
                }
                try (var third = Transaction.begin()) {
                    cell.value = 4;
                    third.rollback();
                }
                assertEquals(3, cell.value);
                second.rollback();
            }
            assertEquals(1, cell.value);
            try (var second = Transaction.begin()) {
                try (var third = Transaction.begin()) {
                    cell.value = 5;
                    third.commit();
                }
                second.rollback();
            }
            assertEquals(1, cell.value);
            first.commit();
        }
        assertEquals(1, cell.value);
    }

    @Test
    void theDefaultActionCanBeSet() {
        try (var transaction = Transaction.begin()) {
            assertEquals(Action.ROLLBACK, transaction.defaultAction());
            cell.value = 1;
        }
        assertEquals(0, cell.value);
        try (var transaction = Transaction.begin()) {
            transaction.defaultAction(Action.COMMIT);
            cell.value = 1;
        }
        assertEquals(1, cell.value);
    }

    /// J2.
    @Test
    @SuppressWarnings("try") // closed twice
    void anEndedTransactionIsNotUsedAgain() {
        Transaction ended;
        try (var transaction = Transaction.begin()) {
            transaction.commit();
            assertFalse(transaction.isOpen());
            var thrown = assertThrows(IllegalStateException.class, transaction::rollback);
            assertTrue(thrown.getMessage().contains("has ended"), thrown.getMessage());
            assertThrows(IllegalStateException.class, transaction::commit);
            transaction.close();
            ended = transaction;
        }
        assertThrows(IllegalStateException.class, ended::commit);
        assertThrows(IllegalStateException.class, () -> ended.defaultAction(Action.COMMIT));
        assertThrows(IllegalStateException.class, ended::detach);
        assertThrows(IllegalStateException.class, ended::attach);
        assertThrows(IllegalStateException.class, () -> RwLock.acquireRead(cell));
        cell.value = 5;
        assertEquals(5, cell.value);
    }

    @Test
    void outerTransactionCannotEndBeforeNested() {
        try (var outer = Transaction.begin()) {
            try (var inner = Transaction.begin()) {
                assertThrows(IllegalStateException.class, outer::commit);
                assertThrows(IllegalStateException.class, outer::rollback);
                assertTrue(inner.isOpen());
                inner.commit();
            }
            outer.commit();
        }
    }

    /// J2.
    @Test
    void aTransactionBelongsToItsThread() throws Exception {
        try (var transaction = Transaction.begin()) {
            var thrown = assertThrows(
                    IllegalStateException.class,
                    () -> elsewhere(() -> {
                        transaction.commit();
                        return null;
                    }));
            assertTrue(thrown.getMessage().contains("another thread"), thrown.getMessage());
            assertThrows(
                    IllegalStateException.class,
                    () -> elsewhere(() -> {
                        transaction.attach();
                        return null;
                    }));
            assertTrue(transaction.isOpen());
            transaction.commit();
        }
    }

    /// J2.
    @Test
    void aTransactionIsHandedOver() throws Exception {
        try (var transaction = Transaction.begin()) {
            cell.value = 1;
            transaction.detach();
            assertThrows(IllegalStateException.class, transaction::commit);
            assertThrows(IllegalStateException.class, () -> cell.value = 3, "it is locked, and this is outside");
            elsewhere(() -> {
                transaction.attach();
                cell.value = 2;
                cell.other = 2;
                transaction.detach();
                return null;
            });
            transaction.attach();
            assertEquals(2, cell.value);
            transaction.rollback();
        }
        assertEquals(0, cell.value);
        assertEquals(0, cell.other);
    }

    private static void elsewhere(Callable<?> work) throws Exception {
        try (ExecutorService thread = Executors.newVirtualThreadPerTaskExecutor()) {
            thread.submit(work).get();
        } catch (ExecutionException e) {
            throw (Exception) e.getCause();
        }
    }
}
