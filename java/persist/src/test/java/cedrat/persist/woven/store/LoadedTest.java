package cedrat.persist.woven.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import cedrat.persist.boot.Persistable;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/// J7: unused objects are unloaded.
class LoadedTest {
    private static final class Node {
        int value;
        String name;
        Node next;

        Node(int value, Node next) {
            this.value = value;
            name = "node " + value;
            this.next = next;
        }
    }

    private record Pair(Node node, List<Integer> numbers) {}

    private static volatile boolean hasStored;

    private final MemoryGraph graph = new MemoryGraph();

    private static Node list(int length) {
        Node first = null;
        for (int i = length - 1; i >= 0; i--) {
            first = new Node(i, first);
        }
        return first;
    }

    private static void walk(Node first, int length) {
        Node node = first;
        for (int i = 0; i < length; i++) {
            assertEquals(i, node.value);
            if (i % 100 == 0) {
                assertEquals("node " + i, node.name);
            }
            node = node.next;
        }
    }

    /// In a method of its own, whose frame does not keep the object.
    private static WeakReference<Node> tenth(Node first) {
        return new WeakReference<>(first.next.next.next.next.next.next.next.next.next.next);
    }

    private Store open(long bytes) {
        return Store.open(graph.open(), new StoreOptions().loadedBytesMax(bytes));
    }

    /// J7.
    @Test
    void walkedListIsUnloaded() {
        int length = 20_000;
        try (Store store = open(1 << 30)) {
            store.setRoot("first", list(length));
        }
        try (Store store = open(20_000)) {
            Node first = store.root("first", Node.class);
            WeakReference<Node> tenth = tenth(first);
            walk(first, length);
            for (int i = 0; i < 100 && tenth.get() != null; i++) {
                System.gc();
            }
            assertNull(tenth.get());
            // One collection may find some of the others in use still.
            long reads = 0;
            for (int i = 0; i < 100 && reads <= length / 2; i++) {
                System.gc();
                long before = graph.reads();
                walk(first, length);
                reads = graph.reads() - before;
            }
            assertTrue(reads > length / 2, "reads: " + reads);
        }
    }

    /// J7.
    @Test
    void objectsInUseKeepIdentity() {
        int length = 2_000;
        try (Store store = open(1 << 30)) {
            store.setRoot("first", list(length));
        }
        try (Store store = open(5_000)) {
            List<Node> kept = new ArrayList<>();
            Map<Node, Integer> byIdentity = new HashMap<>();
            Node first = store.root("first", Node.class);
            int at = 0;
            for (Node node = first; node != null; node = node.next) {
                kept.add(node);
                byIdentity.put(node, at++);
            }
            at = 0;
            for (Node node = first; node != null; node = node.next) {
                assertSame(kept.get(at), node);
                assertEquals(at++, byIdentity.get(node));
            }
            assertSame(first, store.root("first", Object.class));
        }
    }

    /// J7.
    @Test
    void changedObjectsStayUntilTransactionEnds() {
        int length = 1_000;
        try (Store store = open(1 << 30)) {
            store.setRoot("first", list(length));
        }
        try (Store store = open(3_000)) {
            Node first = store.root("first", Node.class);
            try (var transaction = Transaction.begin()) {
                for (Node node = first; node != null; node = node.next) {
                    if (node.value % 2 == 0 && node.next != null) {
                        node.next = node.next.next;
                    }
                    node.name = node.value % 4 == 0 ? null : node.name;
                }
                transaction.rollback();
            }
            walk(first, length);
            try (var transaction = Transaction.begin()) {
                for (Node node = first; node != null; node = node.next) {
                    node.next = node.next == null ? null : node.next.next;
                }
                transaction.commit();
            }
        }
        try (Store store = open(3_000)) {
            int expected = 0;
            for (Node node = store.root("first", Object.class); node != null; node = node.next) {
                assertEquals(expected, node.value);
                assertEquals("node " + expected, node.name);
                expected += 2;
            }
            assertEquals(length, expected);
        }
    }

    /// J7: the hash of a record is made of its fields behind the barriers' back.
    @Test
    void objectsReadByUnwovenCodeStayLoaded() {
        int length = 300;
        Pair[] pairs = new Pair[length];
        for (int i = 0; i < length; i++) {
            pairs[i] = new Pair(new Node(i, null), new ArrayList<>(List.of(i)));
        }
        try (Store store = open(1 << 30)) {
            store.setRoot("pairs", pairs);
        }
        try (Store store = open(2_000)) {
            Pair[] found = store.root("pairs", Pair[].class);
            for (int round = 0; round < 3; round++) {
                for (int i = 0; i < length; i++) {
                    assertEquals(List.of(i), found[i].numbers());
                    assertNotNull(found[i].node().name);
                    assertEquals(found[i], found[i]);
                    assertTrue(found[i].toString().contains("numbers=[" + i + "]"), found[i].toString());
                    assertEquals(found[i].hashCode(), new Pair(found[i].node, found[i].numbers).hashCode());
                }
            }
        }
    }

    /// J7.
    @Test
    void severalThreadsReadWhileOthersLetGo() throws Exception {
        int length = 3_000;
        try (Store store = open(1 << 30)) {
            store.setRoot("first", list(length));
        }
        try (Store store = open(5_000)) {
            List<Throwable> failures = java.util.Collections.synchronizedList(new ArrayList<>());
            Thread[] threads = new Thread[3];
            for (int t = 0; t < threads.length; t++) {
                boolean changes = t == 0;
                threads[t] = new Thread(() -> {
                    try {
                        for (int round = 0; round < 5; round++) {
                            walk(store.root("first", Object.class), length);
                            if (changes) {
                                Transaction.run(() -> {
                                    Node node = store.root("first", Node.class);
                                    for (int i = 0; i < 500; i++) {
                                        node.name = "node " + node.value;
                                        node = node.next;
                                    }
                                });
                            }
                        }
                    } catch (Throwable e) {
                        failures.add(e);
                    }
                });
                threads[t].start();
            }
            for (Thread thread : threads) {
                thread.join();
            }
            assertEquals(List.of(), failures);
        }
    }

    /// J7.1: the unloading thread looks under the monitor of the identity, and may be about to make the field pending.
    @Test
    void aWriterWaitsForWhoLetsGo() throws Exception {
        try (Store store = open(1 << 30)) {
            Node first = list(2);
            store.setRoot("first", first);
            hasStored = false;
            Thread writer = new Thread(() -> Transaction.run(() -> {
                first.next = null;
                hasStored = true;
            }));
            synchronized (((Persistable) (Object) first).cedrat$identity()) {
                writer.start();
                while (writer.getState() != Thread.State.BLOCKED) {
                    assertTrue(writer.isAlive(), "it should wait");
                    Thread.onSpinWait();
                }
                assertFalse(hasStored);
            }
            writer.join();
            assertTrue(hasStored);
            assertNull(first.next);
        }
    }
}
