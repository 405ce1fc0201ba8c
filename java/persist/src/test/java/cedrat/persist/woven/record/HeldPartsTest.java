package cedrat.persist.woven.record;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.Elsewhere;
import cedrat.persist.RwLock;
import cedrat.persist.StoreOptions;
import cedrat.persist.StoreOptions.Isolation;
import cedrat.persist.Transaction;
import cedrat.persist.woven.branch.TestXid;
import cedrat.persist.woven.store.StoreFixture;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Hashtable;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.Vector;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.Stream;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/// Assignments to a part of a persistent Java collection: while the virtual machine collects the collection,
/// afterwards, and while another transaction adds the part to it. Reads take no lock here. With read locks, a
/// transaction would find no part that another one is adding.
class HeldPartsTest extends StoreFixture {
    /// After so many calls a method was compiled.
    private static final int CALLS = 100_000;

    private static final TestXid BRANCH = new TestXid(7, new byte[] {9}, new byte[] {1});

    @Override
    protected StoreOptions options() {
        return new StoreOptions().isolation(Isolation.READ_UNCOMMITTED);
    }

    // ---- while a method of the collection runs

    /// Lets the virtual machine collect unreachable objects, when a set asks for its hash or compares it.
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
        store.setRoot("set", made);
        reopen();
        made = null;
        for (int i = 1; i < 5; i++) {
            Collecting added = new Collecting(i, true);
            Transaction.run(() -> {
                store.<Set<Object>>root("set", Set.class).add(added);
            });
            added.collects = false;
        }
        reopen();
        assertEquals(5, store.<Set<Object>>root("set", Set.class).size());
    }

    // ---- when the collection is gone

    static Stream<Supplier<Map<String, Object>>> maps() {
        return Stream.of(HashMap::new, LinkedHashMap::new, TreeMap::new, Hashtable::new);
    }

    private enum Key {
        FIRST,
        SECOND
    }

    static Stream<Supplier<Map<Key, Object>>> mapsOfKeys() {
        return Stream.of(
                HashMap::new,
                LinkedHashMap::new,
                TreeMap::new,
                Hashtable::new,
                IdentityHashMap::new,
                () -> new EnumMap<>(Key.class));
    }

    /// J3: as a store to the part would. Some maps have no parts that are entries.
    @ParameterizedTest
    @MethodSource("mapsOfKeys")
    void lockOnPartLocksItsCollection(Supplier<Map<Key, Object>> maker) throws Exception {
        store.setRoot("map", maker.get());
        Map<Key, Object> map = store.root("map", Map.class);
        Transaction.run(() -> map.put(Key.FIRST, 1));
        Map.Entry<Key, Object> entry = map.entrySet().iterator().next();
        for (boolean toWrite : new boolean[] {false, true}) {
            FutureTask<Object> other = new FutureTask<>(() -> Transaction.call(() -> map.put(Key.SECOND, toWrite)));
            Thread thread = Thread.ofPlatform().daemon().unstarted(other);
            Transaction.run(() -> {
                if (toWrite) {
                    RwLock.acquireWrite(entry);
                } else {
                    RwLock.acquireRead(entry);
                }
                Elsewhere.start(thread);
                while (!other.isDone() && LockSupport.getBlocker(thread) == null) {
                    Thread.onSpinWait();
                }
                assertFalse(other.isDone(), "it should wait");
            });
            other.get();
        }
    }

    /// In a method of its own, whose frame does not keep the map.
    private Map.Entry<String, Object> entry() {
        return store.<Map<String, Object>>root("map", Map.class)
                .entrySet()
                .iterator()
                .next();
    }

    private WeakReference<Object> map() {
        return new WeakReference<>(store.root("map", Object.class));
    }

    /// J7: nothing leads from an entry to its map.
    @ParameterizedTest
    @MethodSource("maps")
    void anEntryWhoseMapIsGoneIsRefused(Supplier<Map<String, Object>> maker) {
        Map<String, Object> made = maker.get();
        made.put("key", "old");
        store.setRoot("map", made);
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

    /// A collection, what it gets new parts by, and what stores to one of these alone, and to another part if they
    /// are not there.
    private record Growing(String name, Supplier<Object> maker, Consumer<Object> grow, Consumer<Object> change) {
        @Override
        public String toString() {
            return name;
        }
    }

    @SuppressWarnings("unchecked")
    private static Growing ofList(String name, Supplier<List<Object>> maker, Consumer<List<Object>> change) {
        return new Growing(
                name,
                () -> {
                    List<Object> made = maker.get();
                    made.addAll(List.of("a", "b"));
                    return made;
                },
                list -> ((List<Object>) list).addAll(List.of("c", "d", "e", "f", "g", "h", "i", "j", "k")),
                list -> change.accept((List<Object>) list));
    }

    @SuppressWarnings("unchecked")
    private static Growing ofMap(
            String name, Supplier<Map<Object, Object>> maker, Consumer<Map<Object, Object>> grow, String changed) {
        return new Growing(
                name,
                () -> {
                    Map<Object, Object> made = maker.get();
                    made.put("a", 1);
                    return made;
                },
                map -> grow.accept((Map<Object, Object>) map),
                map -> ((Map<Object, Object>) map).put(changed, "other"));
    }

    private static void putMany(Map<Object, Object> map) {
        for (int i = 0; i < 100; i++) {
            map.put("" + i, i);
        }
    }

    /// Of one hash, so that their bucket becomes a tree, and another one again.
    private static void putSame(Map<Object, Object> map) {
        map.put("b", 2);
        for (int i = 0; i < 100; i++) {
            map.put(new Same(i), i);
        }
        for (int i = 0; i < 98; i++) {
            map.remove(new Same(i));
        }
    }

    private record Same(int number) {
        @Override
        public int hashCode() {
            return "b".hashCode();
        }
    }

    static Stream<Growing> growing() {
        return Stream.of(
                ofList("the array of an ArrayList", ArrayList::new, list -> list.set(0, "other")),
                ofList("the array of a Vector", () -> new Vector<>(2), list -> list.set(0, "other")),
                ofList("a node of a LinkedList", LinkedList::new, list -> list.set(list.size() - 1, "other")),
                ofMap("an entry of a HashMap", HashMap::new, map -> map.put("b", 2), "b"),
                ofMap("an entry of a HashMap that has grown", HashMap::new, HeldPartsTest::putMany, "99"),
                ofMap("an entry of a tree in a HashMap", HashMap::new, HeldPartsTest::putSame, "b"),
                ofMap("an entry of a LinkedHashMap", LinkedHashMap::new, map -> map.put("b", 2), "b"),
                ofMap("an entry of a Hashtable", Hashtable::new, map -> map.put("b", 2), "b"),
                ofMap("an entry of a Hashtable that has grown", Hashtable::new, HeldPartsTest::putMany, "99"),
                ofMap("an entry of a TreeMap", TreeMap::new, map -> map.put("b", 2), "b"),
                ofMap("an entry of a TreeMap that is built at once", TreeMap::new, HeldPartsTest::putAll, "b"),
                ofMap("the table of an IdentityHashMap", IdentityHashMap::new, HeldPartsTest::putMany, "a"),
                new Growing(
                        "the words of a BitSet",
                        () -> {
                            BitSet made = new BitSet();
                            made.set(1);
                            return made;
                        },
                        bits -> ((BitSet) bits).set(1000),
                        bits -> ((BitSet) bits).set(0)));
    }

    private static void putAll(Map<Object, Object> map) {
        map.clear();
        map.putAll(new TreeMap<>(Map.of("a", 1, "b", 2, "c", 3)));
    }

    /// Returns the visible content. Maps may have any order.
    private static Object show(Object collection) {
        return collection instanceof Map<?, ?> map
                ? map.entrySet().stream().map(Object::toString).sorted().toList()
                : collection.toString();
    }

    private static boolean waits(Thread thread) {
        return String.valueOf(LockSupport.getBlocker(thread)).startsWith("cedrat.persist.lock.Locks");
    }

    /// Runs a change while another transaction has made the collection grow, which it then commits or rolls back.
    ///
    /// @return whether the change has waited for that
    private boolean changeMeanwhile(Growing growing, Object collection, boolean commits) throws InterruptedException {
        CountDownLatch isGrown = new CountDownLatch(1);
        CountDownLatch mayEnd = new CountDownLatch(1);
        Thread one = Thread.ofPlatform()
                .start(() -> Transaction.run(transaction -> {
                    growing.grow.accept(collection);
                    isGrown.countDown();
                    await(mayEnd);
                    transaction.defaultAction(commits ? Transaction.Action.COMMIT : Transaction.Action.ROLLBACK);
                    transaction.close();
                }));
        isGrown.await();
        Thread other = Thread.ofPlatform().start(() -> Transaction.run(() -> growing.change.accept(collection)));
        while (other.isAlive() && !waits(other)) {
            Thread.onSpinWait();
        }
        boolean hasWaited = other.isAlive();
        mayEnd.countDown();
        one.join();
        other.join();
        return hasWaited;
    }

    /// J3: a part that another transaction has added is locked, and what it has taken back is not changed in vain.
    @ParameterizedTest
    @MethodSource("growing")
    void addedPartIsLockedAtOnce(Growing growing) throws InterruptedException {
        for (boolean commits : new boolean[] {false, true}) {
            Object expected = growing.maker.get();
            if (commits) {
                growing.grow.accept(expected);
            }
            growing.change.accept(expected);
            Object made = growing.maker.get();
            store.setRoot("collection", made);
            assertTrue(changeMeanwhile(growing, made, commits), "it has not waited");
            assertEquals(show(expected), show(made), "commits: " + commits);
            reopen();
            assertEquals(show(expected), show(store.root("collection", Object.class)), "commits: " + commits);
        }
    }

    /// J3.1, J3, J11.2: what has voted has the locks of what it will have made a part of the collection.
    @ParameterizedTest
    @MethodSource("growing")
    void partAddedByBranchIsLockedFromVote(Growing growing) throws XAException, InterruptedException {
        Object made = growing.maker.get();
        store.setRoot("collection", made);
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
        Object expected = show(made);
        reopen();
        assertEquals(expected, show(store.root("collection", Object.class)));
    }

    /// J3: a transaction that has assigned to it before is waited for, and its change is not lost. Before an object
    /// becomes persistent, its owner is unknown.
    @ParameterizedTest
    @MethodSource("growing")
    void addingPartWaitsForItsWriter(Growing growing) throws InterruptedException {
        Object made = growing.maker.get();
        CountDownLatch isChanged = new CountDownLatch(1);
        Thread one = Thread.ofPlatform().unstarted(() -> {
            await(isChanged);
            store.setRoot("collection", made);
        });
        one.start();
        Transaction.run(() -> {
            growing.change.accept(made);
            isChanged.countDown();
            while (one.isAlive() && !waits(one)) {
                Thread.onSpinWait();
            }
            assertTrue(one.isAlive(), "it does not wait");
        });
        one.join();
        Object expected = growing.maker.get();
        growing.change.accept(expected);
        reopen();
        assertEquals(show(expected), show(store.root("collection", Object.class)));
    }

    /// Leaves a transaction with what that has made.
    private static final class Carrier extends RuntimeException {
        private static final long serialVersionUID = 1;

        private final transient Map.Entry<String, Object> entry;

        Carrier(Map.Entry<String, Object> entry) {
            this.entry = entry;
        }
    }

    private static Map.Entry<String, Object> last(Map<String, Object> map) {
        Map.Entry<String, Object> last = null;
        for (Map.Entry<String, Object> entry : map.entrySet()) {
            last = entry;
        }
        return last;
    }

    /// J3: who has found what is taken back before he changes it is run again, and that ends: who begins later changes
    /// what is in no collection.
    @Test
    void writerOfTakenBackPartRunsAgain() throws InterruptedException {
        Map<String, Object> made = new TreeMap<>(Map.of("a", 1));
        store.setRoot("map", made);
        CountDownLatch isAdded = new CountDownLatch(1);
        CountDownLatch isFound = new CountDownLatch(1);
        CountDownLatch isTakenBack = new CountDownLatch(1);
        List<Map.Entry<String, Object>> taken = new ArrayList<>();
        Thread one = Thread.ofPlatform().start(() -> {
            Carrier carrier = assertThrows(
                    Carrier.class,
                    () -> Transaction.run(() -> {
                        made.put("b", 2);
                        isAdded.countDown();
                        await(isFound);
                        throw new Carrier(last(made));
                    }));
            taken.add(carrier.entry);
            isTakenBack.countDown();
        });
        isAdded.await();
        Transaction.run(() -> {
            Map.Entry<String, Object> found = last(made);
            isFound.countDown();
            await(isTakenBack);
            found.setValue("other");
        });
        one.join();
        assertEquals(Map.of("a", "other"), made);
        Map.Entry<String, Object> unowned = taken.getFirst();
        assertEquals("b", unowned.getKey());
        Transaction.run(() -> {
            unowned.setValue("unowned");
        });
        unowned.setValue("outside of transactions");
        reopen();
        assertEquals(Map.of("a", "other"), store.root("map", Object.class));
    }

    /// J3: a transaction has read the array before another one outgrows it, and waits to assign to it.
    @Test
    void writerOfOutgrownArrayRunsAgain() throws InterruptedException {
        List<String> made = new ArrayList<>(List.of("a", "b"));
        store.setRoot("list", made);
        CountDownLatch isRead = new CountDownLatch(1);
        CountDownLatch isGrown = new CountDownLatch(1);
        Thread other = Thread.ofPlatform()
                .start(() -> Transaction.run(() -> made.replaceAll(text -> {
                    isRead.countDown();
                    await(isGrown);
                    return text + "!";
                })));
        isRead.await();
        Transaction.run(() -> {
            made.addAll(List.of("c", "d", "e", "f", "g", "h", "i", "j"));
            isGrown.countDown();
            while (other.isAlive() && !waits(other)) {
                Thread.onSpinWait();
            }
            assertTrue(other.isAlive(), "it does not wait");
        });
        other.join();
        assertEquals("[a!, b!, c!, d!, e!, f!, g!, h!, i!, j!]", made.toString());
        reopen();
        assertEquals(
                "[a!, b!, c!, d!, e!, f!, g!, h!, i!, j!]",
                store.root("list", Object.class).toString());
    }

    /// J3: likewise of an entry that another one has taken out.
    @Test
    void writerOfRemovedEntryRunsAgain() throws InterruptedException {
        Map<String, Object> made = new TreeMap<>(Map.of("a", 1, "b", 2));
        store.setRoot("map", made);
        CountDownLatch isFound = new CountDownLatch(1);
        CountDownLatch isRemoved = new CountDownLatch(1);
        Thread other = Thread.ofPlatform()
                .start(() -> Transaction.run(() -> {
                    Map.Entry<String, Object> found = last(made);
                    isFound.countDown();
                    await(isRemoved);
                    found.setValue("other");
                }));
        isFound.await();
        Transaction.run(() -> {
            made.remove("b");
            isRemoved.countDown();
            while (other.isAlive() && !waits(other)) {
                Thread.onSpinWait();
            }
            assertTrue(other.isAlive(), "it does not wait");
        });
        other.join();
        assertEquals(Map.of("a", "other"), made);
        reopen();
        assertEquals(Map.of("a", "other"), store.root("map", Object.class));
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }
}
