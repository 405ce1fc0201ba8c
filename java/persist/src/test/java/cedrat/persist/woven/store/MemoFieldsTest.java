package cedrat.persist.woven.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.AbstractMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// J3i: fields in which an object keeps a view or a hash code when it is first read.
@Timeout(60)
class MemoFieldsTest extends StoreFixture {
    private final Memoising made = new Memoising("a");

    @BeforeEach
    void mark() {
        store.setRoot("made", made);
    }

    @Test
    void memoIsAssignedOutsideTransaction() {
        assertEquals("a".hashCode(), made.hashCode());
        assertEquals(List.of(0), made.view());
        assertEquals("a".hashCode(), made.hash);
        assertThrows(IllegalStateException.class, () -> made.count = 1);
    }

    @Test
    void memoOfLockedObjectIsAssignedOutside() throws Exception {
        try (Transaction transaction = Transaction.begin()) {
            made.count = 1;
            assertEquals(List.of("a".hashCode()), elsewhere(() -> List.of(made.hashCode())));
            transaction.rollback();
        }
        assertEquals("a".hashCode(), made.hash);
    }

    @Test
    void memoTakesNoWriteLock() throws Exception {
        try (Transaction transaction = Transaction.begin()) {
            assertEquals(List.of(0), made.view());
            // It would wait for a write lock until the test times out.
            assertEquals(List.of(0), elsewhere(() -> Transaction.call(inner -> List.of(made.count))));
            transaction.rollback();
        }
    }

    /// A map that changes its content by a handle, as maps without locks do.
    private static final class Swapped extends AbstractMap<String, Integer> {
        private static final VarHandle CONTENT;

        static {
            try {
                CONTENT = MethodHandles.lookup().findVarHandle(Swapped.class, "content", String.class);
            } catch (ReflectiveOperationException e) {
                throw new ExceptionInInitializerError(e);
            }
        }

        volatile String content = "old";

        @Override
        public Set<Map.Entry<String, Integer>> entrySet() {
            return Set.of();
        }
    }

    /// J3, J9: only the views that `AbstractMap` itself makes belong to no transaction.
    @Test
    void handlesOfMapsAreRecorded() {
        Swapped swapped = new Swapped();
        store.setRoot("swapped", swapped);
        assertThrows(IllegalStateException.class, () -> Swapped.CONTENT.setVolatile(swapped, "outside"));
        Transaction.run(transaction -> {
            Swapped.CONTENT.setVolatile(swapped, "rolled back");
            transaction.rollback();
        });
        assertEquals("old", swapped.content);
        Transaction.run(() -> Swapped.CONTENT.setVolatile(swapped, "new"));
        reopen();
        assertEquals("new", ((Swapped) store.root("swapped", Object.class)).content);
    }

    private static final class Numbers extends AbstractMap<String, Integer> {
        int last = 1;

        @Override
        public Set<Map.Entry<String, Integer>> entrySet() {
            return Set.of(Map.entry("last", last));
        }
    }

    @Test
    void inheritedViewTakesNoLock() throws Exception {
        Numbers numbers = new Numbers();
        store.setRoot("numbers", numbers);
        try (Transaction transaction = Transaction.begin()) {
            assertEquals(1, numbers.keySet().size());
            assertEquals(Set.of(1), elsewhere(() -> Transaction.call(inner -> Set.copyOf(numbers.values()))));
            numbers.last = 2;
            assertEquals(1, elsewhere(() -> numbers.keySet().size()).intValue());
            transaction.rollback();
        }
        assertEquals(Set.of(1), Set.copyOf(numbers.values()));
    }

    @Test
    void memoStaysRightAfterRollback() {
        List<Integer> view;
        try (Transaction transaction = Transaction.begin()) {
            made.count = 1;
            view = made.view();
            assertEquals(List.of(1), view);
            transaction.rollback();
        }
        assertSame(view, made.view);
        assertEquals(List.of(0), view);
    }

    @Test
    void memoIsNotStored() {
        Transaction.run(() -> {
            made.count = 1;
            made.view();
            made.hashCode();
        });
        Memoising other = new Memoising("b");
        other.view();
        store.setRoot("other", other);
        reopen();
        Memoising found = store.root("made", Memoising.class);
        assertEquals(1, found.count);
        assertEquals(0, found.hash);
        assertNull(found.view);
        assertEquals(List.of(1), found.view());
        assertEquals("b", store.root("other", Memoising.class).name);
        assertNull(store.root("other", Memoising.class).view);
    }

    /// An object whose class had no memo fields when it was stored.
    private static final class Plain {
        String name = "c";
        int count = 3;
        int hash = 5;
        List<Integer> view = List.of(4);
    }

    @Test
    void storedValueOfMemoIsDropped() {
        store.setRoot("plain", new Plain());
        for (int opening = 0; opening < 2; opening++) {
            store.close();
            store = Store.open(
                    graph.open(), new StoreOptions().renameClass(Plain.class.getName(), Memoising.class.getName()));
            Memoising found = store.root("plain", Memoising.class);
            assertEquals(0, found.hash);
            assertEquals("c".hashCode(), found.hashCode());
            assertEquals(List.of(3 + opening), found.view());
            Transaction.run(() -> found.count++);
        }
    }

    private static <T> T elsewhere(Callable<T> work) throws Exception {
        FutureTask<T> task = new FutureTask<>(work);
        Thread.ofPlatform().start(task);
        return task.get();
    }
}
