package cedrat.persist.woven;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Persistence;
import cedrat.persist.PersistenceOptions;
import cedrat.persist.Transaction;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Hashtable;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.Stream;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/// What is stored to a part of a persistent collection: while the virtual machine collects the collection, when it
/// has, and while another transaction makes the part one of it.
class HeldPartsTest {
    /// After so many calls a method was compiled.
    private static final int CALLS = 100_000;

    private static final BranchTest.Id BRANCH = new BranchTest.Id(7, new byte[] {9}, new byte[] {1});

    private final MemoryGraph graph = new MemoryGraph();
    private Persistence store;

    @BeforeEach
    void open() {
        store = Persistence.open(graph.open(), new PersistenceOptions());
    }

    @AfterEach
    void close() {
        store.close();
    }

    private void reopen() {
        store.close();
        open();
    }

    // ---- while a method of the collection runs

    /// Lets the virtual machine collect what nobody has any more, when a set asks for its hash or compares it.
    private static final class Collecting implements Comparable<Collecting> {
        private final int number;
        private transient boolean collects;

        Collecting(int number, boolean collects) {
            this.number = number;
            this.collects = collects;
        }

        private void collect() {
            if (collects) {
                System.gc();
            }
        }

        @Override
        public int hashCode() {
            collect();
            return number;
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Collecting collecting && collecting.number == number;
        }

        @Override
        public int compareTo(Collecting other) {
            collect();
            return Integer.compare(number, other.number);
        }
    }

    static Stream<Supplier<Set<Object>>> sets() {
        return Stream.of(HashSet::new, TreeSet::new);
    }

    /// J3: in compiled code nothing but the method that runs holds the set, which is not the map that it changes.
    @ParameterizedTest
    @MethodSource("sets")
    void aCollectionStaysWhileAMethodOfItRuns(Supplier<Set<Object>> maker) {
        Collecting first = new Collecting(0, false);
        for (int i = 0; i < CALLS; i++) {
            Set<Object> set = maker.get();
            set.add(first);
            set.add(new Collecting(1, false));
        }
        Set<Object> made = maker.get();
        made.add(first);
        store.mark("set", made);
        reopen();
        made = null;
        for (int i = 1; i < 5; i++) {
            Collecting added = new Collecting(i, true);
            Transaction.run(() -> {
                store.<Set<Object>>lookup("set").add(added);
            });
            added.collects = false;
        }
        reopen();
        assertEquals(5, store.<Set<Object>>lookup("set").size());
    }

    // ---- when the collection is gone

    static Stream<Supplier<Map<String, Object>>> maps() {
        return Stream.of(HashMap::new, LinkedHashMap::new, TreeMap::new, Hashtable::new);
    }

    /// In a method of its own, whose frame does not keep the map.
    private Map.Entry<String, Object> entry() {
        return store.<Map<String, Object>>lookup("map").entrySet().iterator().next();
    }

    private WeakReference<Object> map() {
        return new WeakReference<>(store.lookup("map"));
    }

    /// J7: nothing leads from an entry to its map.
    @ParameterizedTest
    @MethodSource("maps")
    void anEntryWhoseMapIsGoneIsRefused(Supplier<Map<String, Object>> maker) {
        Map<String, Object> made = maker.get();
        made.put("key", "old");
        store.mark("map", made);
        made = null;
        reopen();
        Map.Entry<String, Object> entry = entry();
        WeakReference<Object> map = map();
        for (int i = 0; i < 100 && !map.refersTo(null); i++) {
            System.gc();
        }
        assertTrue(map.refersTo(null));
        Transaction.run(() -> {
            var refused = assertThrows(IllegalStateException.class, () -> entry.setValue("lost"));
            assertTrue(refused.getMessage().contains("look the collection up again"), refused.getMessage());
        });
        assertThrows(IllegalStateException.class, () -> entry.setValue("lost"), "outside of a transaction");
        assertEquals("old", entry.getValue());
        Transaction.run(() -> {
            entry().setValue("new");
        });
        reopen();
        assertEquals("new", entry().getValue());
    }

    // ---- while another transaction makes it a part

    /// A collection, what it gets a new part by, and what stores to that part alone.
    private record Growing(String name, Object made, Consumer<Object> grow, Consumer<Object> change) {
        @Override
        public String toString() {
            return name;
        }
    }

    @SuppressWarnings("unchecked")
    static Stream<Growing> growing() {
        return Stream.of(
                new Growing(
                        "the array of a list",
                        new ArrayList<>(List.of("a", "b")),
                        list -> ((List<Object>) list).addAll(List.of("c", "d", "e", "f", "g")),
                        list -> ((List<Object>) list).set(0, "other")),
                new Growing(
                        "an entry of a hash table",
                        new HashMap<>(Map.of("a", 1)),
                        map -> ((Map<Object, Object>) map).put("b", 2),
                        map -> ((Map<Object, Object>) map).put("b", "other")),
                new Growing(
                        "an entry of a tree",
                        new TreeMap<>(Map.of("a", 1)),
                        map -> ((Map<Object, Object>) map).put("b", 2),
                        map -> ((Map<Object, Object>) map).put("b", "other")));
    }

    /// Those whose parts nobody has locked before the commit.
    static Stream<Growing> growingUnlocked() {
        return growing().limit(2);
    }

    private static boolean waits(Thread thread) {
        return String.valueOf(LockSupport.getBlocker(thread)).startsWith("cedrat.persist.Locks");
    }

    /// J3, J11.2: what has voted has the locks of what it will have made a part of the collection.
    @ParameterizedTest
    @MethodSource("growing")
    void whatABranchAddsIsLockedFromItsVoteOn(Growing growing) throws XAException, InterruptedException {
        Object made = growing.made;
        store.mark("collection", made);
        XAResource resource = store.xaResource();
        resource.start(BRANCH, XAResource.TMNOFLAGS);
        Transaction.run(() -> growing.grow.accept(made));
        resource.end(BRANCH, XAResource.TMSUCCESS);
        resource.prepare(BRANCH);
        Thread other = Thread.ofPlatform().start(() -> Transaction.run(() -> growing.change.accept(made)));
        while (other.isAlive() && !waits(other)) {
            Thread.onSpinWait();
        }
        boolean hasWaited = other.isAlive();
        resource.commit(BRANCH, false);
        other.join();
        assertTrue(hasWaited);
        String expected = made.toString();
        reopen();
        assertEquals(expected, store.lookup("collection").toString());
    }

    /// J3: who has stored to it before is waited for, and his change is not lost.
    @ParameterizedTest
    @MethodSource("growingUnlocked")
    void whoHasChangedWhatBecomesAPartIsWaitedFor(Growing growing) throws InterruptedException {
        Object made = growing.made;
        store.mark("collection", made);
        CountDownLatch isGrown = new CountDownLatch(1);
        CountDownLatch isChanged = new CountDownLatch(1);
        Thread one = Thread.ofPlatform()
                .start(() -> Transaction.run(() -> {
                    growing.grow.accept(made);
                    isGrown.countDown();
                    await(isChanged);
                }));
        isGrown.await();
        Transaction.run(() -> {
            growing.change.accept(made);
            isChanged.countDown();
            while (one.isAlive() && !waits(one)) {
                Thread.onSpinWait();
            }
            assertTrue(one.isAlive(), "it does not wait");
        });
        one.join();
        String expected = made.toString();
        assertTrue(expected.contains("other"), expected);
        reopen();
        assertEquals(expected, store.lookup("collection").toString());
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }
}
