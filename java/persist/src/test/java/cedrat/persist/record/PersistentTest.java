package cedrat.persist.record;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.boot.Barrier;
import cedrat.persist.boot.Identity;
import cedrat.persist.boot.Persistable;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/// Barriers while a store is open, without a weaver.
class PersistentTest {
    private static final class Person implements Persistable {
        private Identity identity;
        Object friend;
        Object enemy;

        @Override
        public Identity cedrat$identity() {
            return identity;
        }

        @Override
        public void cedrat$identity(Identity identity) {
            this.identity = identity;
        }
    }

    /// J2
    @Test
    void assignmentOutsideOfTransactionIsRefused() {
        Person person = new Person();
        int[] array = new int[1];
        List<String> list = new ArrayList<>();
        try (TestStore store = new TestStore()) {
            Barrier.beforeFields(person);
            Barrier.beforeElement(array, 0);
            list.add("one");
            store.add(person);
            store.addPart(array);
            store.addPart(list);
            var thrown = assertThrows(IllegalStateException.class, () -> Barrier.beforeFields(person));
            assertTrue(thrown.getMessage().contains("within a transaction"), thrown.getMessage());
            assertThrows(IllegalStateException.class, () -> Barrier.beforeElement(array, 0));
            assertThrows(IllegalStateException.class, () -> list.add("two"));
            assertEquals(List.of("one"), list);
            store.remove(person);
            Barrier.beforeFields(person);
        }
        list.add("two");
    }

    @Test
    void readsOutsideWovenCodeLoadAll() {
        Person person = new Person();
        try (TestStore store = new TestStore()) {
            Barrier.beforeRead(person);
            Barrier.beforeRead("text");
            Barrier.beforeRead(null);
            store.add(person);
            store.pend(person, "friend", "Ada");
            Barrier.beforeRead(person);
            assertEquals("Ada", person.friend);
            assertTrue(store.takeReads().containsAll(List.of("friend", "enemy")));
        }
    }
}
