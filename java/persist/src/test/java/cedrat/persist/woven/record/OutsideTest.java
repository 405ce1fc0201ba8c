package cedrat.persist.woven.record;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import cedrat.persist.Transaction;
import cedrat.persist.woven.store.StoreFixture;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.FutureTask;
import org.junit.jupiter.api.Test;

/// J3j: classes whose changes belong to no transaction: excluded ones, and infrastructure.
class OutsideTest extends StoreFixture {
    @Test
    void rollbackLeavesExcludedObjectWhole() {
        Excluded object = new Excluded();
        object.add("a");
        try (Transaction transaction = Transaction.begin()) {
            object.add("b");
            transaction.rollback();
        }
        assertEquals("2 [a, b] {a=1, b=1}", object.toString());
    }

    @Test
    void excludedObjectIsNotLocked() throws Exception {
        Excluded object = new Excluded();
        try (Transaction transaction = Transaction.begin()) {
            object.add("a");
            elsewhere(() -> object.add("b"));
            transaction.rollback();
        }
        assertEquals("2 [a, b] {a=1, b=1}", object.toString());
    }

    @Test
    void persistentListIsRestoredAfterExcludedClass() {
        List<String> list = new ArrayList<>(List.of("a"));
        store.setRoot("list", list);
        try (Transaction transaction = Transaction.begin()) {
            Excluded.addTo(list, "b");
            transaction.rollback();
        }
        assertEquals(List.of("a"), list);
        Transaction.run(() -> Excluded.addTo(list, "c"));
        reopen();
        assertEquals(List.of("a", "c"), store.root("list", Object.class));
    }

    @Test
    void programCalledByExcludedClassIsRestored() {
        List<String> list = new ArrayList<>(List.of("a"));
        try (Transaction transaction = Transaction.begin()) {
            Excluded.run(() -> list.add("b"));
            transaction.rollback();
        }
        assertEquals(List.of("a"), list);
    }

    @Test
    void rollbackLeavesInfrastructureWhole() throws Exception {
        Logbook logbook = new Logbook();
        int before = Logbook.all;
        try (Transaction transaction = Transaction.begin()) {
            logbook.add("ab");
            elsewhere(() -> logbook.add("c"));
            transaction.rollback();
        }
        assertEquals("2 [ab, c] [3, 3, 7] abc 2 ab", logbook.toString());
        assertEquals(2, Logbook.all - before);
    }

    @Test
    void persistentObjectOfInfrastructureIsRestored() {
        Held held = new Held();
        store.setRoot("held", held);
        try (Transaction transaction = Transaction.begin()) {
            Logbook.set(held.numbers, 5);
            transaction.rollback();
        }
        assertArrayEquals(new int[] {1}, held.numbers);
        Transaction.run(() -> Logbook.set(held.numbers, 6));
        reopen();
        assertArrayEquals(new int[] {6}, store.root("held", Held.class).numbers);
    }

    private static final class Held {
        final int[] numbers = {1};
    }

    private static void elsewhere(Runnable work) throws Exception {
        FutureTask<Void> task = new FutureTask<>(work, null);
        new Thread(task).start();
        task.get();
    }
}
