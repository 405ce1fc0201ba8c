package cedrat.persist.locking;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.DeadlockException;
import cedrat.persist.Elsewhere;
import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.StoreOptions.Isolation;
import cedrat.persist.Transaction;
import cedrat.persist.locking.Place.World;
import cedrat.persist.record.Recorder;
import java.lang.ref.WeakReference;
import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.EnumSource.Mode;

/// J3.2: a transaction locks what it reads, and anomalies of unlocked reads do not occur.
class ReadLocksTest extends Threads {
    private World one;
    private World other;

    @BeforeEach
    void fill() {
        open(Isolation.SERIALISABLE);
        store.setRoot("one", new World());
        store.setRoot("other", new World());
        reopen(Isolation.SERIALISABLE);
    }

    private void reopen(Isolation isolation) {
        open(isolation);
        one = store.root("one", Object.class);
        other = store.root("other", Object.class);
    }

    private Callable<Integer> get(Place place, World world) {
        return () -> Transaction.call(() -> place.get(world));
    }

    private Callable<Integer> set(Place place, World world, int number) {
        return () -> {
            Transaction.run(() -> place.set(world, number));
            return number;
        };
    }

    /// J3.1: a virtual thread waits for a lock within the monitor that the lock's owner wants to enter.
    @Test
    void virtualThreadInMonitorIsVictim() throws Exception {
        store.setRoot("vector", new Vector<>(List.of(0)));
        reopen(Isolation.SERIALISABLE);
        Vector<Integer> vector = store.root("vector", Vector.class);
        for (boolean readsVirtually : new boolean[] {true, false}) {
            FutureTask<Integer> reader = new FutureTask<>(() -> Transaction.call(() -> vector.get(0)));
            Thread reading =
                    (readsVirtually ? Thread.ofVirtual() : Thread.ofPlatform().daemon()).unstarted(reader);
            FutureTask<Integer> writer = new FutureTask<>(() -> {
                Transaction.run(() -> {
                    vector.set(0, 1);
                    begin(reading);
                    vector.set(0, 2);
                });
                return 0;
            });
            (readsVirtually ? Thread.ofPlatform().daemon() : Thread.ofVirtual()).start(writer);
            writer.get();
            assertEquals(2, reader.get());
        }
    }

    /// Starts it, and returns when it waits for a lock.
    private static void begin(Thread thread) {
        Elsewhere.start(thread);
        while (!waitsForALock(thread)) {
            Thread.onSpinWait();
        }
    }

    /// J3.2: as where the layout of headers is unknown, so that each object may have an identity hash code.
    @Test
    void readsLockWithHashedStoreList() throws Exception {
        Field stores = Recorder.class.getDeclaredField("stores");
        stores.setAccessible(true);
        System.identityHashCode(stores.get(Recorder.get()));
        store.setRoot("map", new ConcurrentHashMap<>(Map.of(1, 1)));
        reopen(Isolation.SERIALISABLE);
        Map<Integer, Integer> map = store.root("map", Map.class);
        assertEquals(1, Transaction.call(() -> map.get(1)));
    }

    /// J3.2, G1a, G1b
    @ParameterizedTest
    @EnumSource
    void rolledBackValueIsReadByNoTransaction(Place place) throws Exception {
        Future<Integer> reader;
        try (var transaction = Transaction.begin()) {
            place.set(one, 1);
            reader = startAndWait(get(place, one));
            place.set(one, 2);
            transaction.rollback();
        }
        assertEquals(0, reader.get());
        try (var transaction = Transaction.begin()) {
            place.set(one, 1);
            reader = startAndWait(get(place, one));
            transaction.commit();
        }
        assertEquals(1, reader.get());
    }

    /// J3.2.
    @ParameterizedTest
    @EnumSource
    void lockedReadsRepeat(Place place) throws Exception {
        Future<Integer> writer;
        try (var transaction = Transaction.begin()) {
            assertEquals(0, place.get(one));
            writer = startAndWait(set(place, one, 1));
            assertEquals(0, place.get(one));
            transaction.commit();
        }
        writer.get();
        assertEquals(1, get(place, one).call());
    }

    /// J3.2: the result does not show how often a key was put.
    @ParameterizedTest
    @EnumSource(mode = Mode.EXCLUDE, names = "KEY")
    void noUpdateIsLost(Place place) throws Exception {
        Changes changes = new Changes();
        Callable<Object> change = () -> {
            changes.run(() -> place.get(one), read -> place.set(one, read + 1));
            return null;
        };
        Future<Object> first = start(change);
        Future<Object> second = start(change);
        first.get();
        second.get();
        assertEquals(2, get(place, one).call());
        assertEquals(3, changes.attempts(), "one of both has done it again");
    }

    /// J3.2d: otherwise two transactions could deadlock again and again.
    @ParameterizedTest
    @EnumSource(mode = Mode.EXCLUDE, names = "KEY")
    void repeatedTransactionLocksWhatItWrites(Place place) throws Exception {
        AtomicInteger attempts = new AtomicInteger();
        CountDownLatch hasRead = new CountDownLatch(1);
        CountDownLatch repeats = new CountDownLatch(1);
        CountDownLatch mayWrite = new CountDownLatch(1);
        Future<Object> younger;
        try (var transaction = Transaction.begin()) {
            int found = place.get(one);
            younger = start(() -> {
                Transaction.run(() -> {
                    Elsewhere.count(attempts);
                    int read = place.get(one);
                    hasRead.countDown();
                    if (attempts.get() == 2) {
                        repeats.countDown();
                        mayWrite.await();
                    }
                    place.set(one, read + 1);
                });
                return null;
            });
            hasRead.await();
            place.set(one, found + 1);
            transaction.commit();
        }
        repeats.await();
        Future<Integer> reader = startAndWait(get(place, one));
        mayWrite.countDown();
        younger.get();
        assertEquals(2, reader.get());
        assertEquals(2, attempts.get());
    }

    /// J3.2, G2: each reads both, and changes its own, if the other's is as it was.
    @ParameterizedTest
    @EnumSource
    void noWritesAreSkewed(Place place) throws Exception {
        Changes changes = new Changes();
        Callable<Object> first = () -> {
            changes.run(() -> place.get(one) + place.get(other), sum -> place.set(one, sum == 0 ? 1 : 0));
            return null;
        };
        Callable<Object> second = () -> {
            changes.run(() -> place.get(one) + place.get(other), sum -> place.set(other, sum == 0 ? 1 : 0));
            return null;
        };
        Future<Object> done = start(first);
        second.call();
        done.get();
        assertEquals(1, get(place, one).call() + get(place, other).call());
        assertEquals(3, changes.attempts(), "one of both has done it again");
    }

    /// J3.2.
    /// One of two readers that want to change the object is the victim: all that it has changed is restored and
    /// unlocked.
    @Test
    void readerThatThenWritesMayBeVictim() throws Exception {
        CountDownLatch hasRead = new CountDownLatch(1);
        Future<Integer> younger;
        try (var transaction = Transaction.begin()) {
            assertEquals(0, one.number);
            younger = startAndWait(() -> {
                try (var inner = Transaction.begin()) {
                    other.number = 5;
                    int read = one.number;
                    hasRead.countDown();
                    assertThrows(DeadlockException.class, () -> one.number = read + 1);
                    assertThrows(DeadlockException.class, () -> Place.PRIMITIVE.get(one));
                    assertThrows(DeadlockException.class, inner::commit);
                }
                return other.number;
            });
            hasRead.await();
            one.number = 7;
            transaction.commit();
        }
        assertEquals(0, younger.get());
        assertEquals(7, one.number);
    }

    /// J3.2.
    @Test
    void nestedReadLocksLastUntilOutermostEnds() throws Exception {
        Future<Integer> writer;
        try (var outer = Transaction.begin()) {
            try (var inner = Transaction.begin()) {
                assertEquals(0, one.number);
                inner.rollback();
            }
            writer = startAndWait(set(Place.PRIMITIVE, one, 1));
            assertEquals(0, one.number);
            outer.commit();
        }
        writer.get();
        assertEquals(1, one.number);
    }

    /// J3.2.
    @Test
    void aRollbackUnlocksWhatWasRead() throws Exception {
        try (var transaction = Transaction.begin()) {
            assertEquals(0, one.number);
            assertEquals(0, Place.LIST.get(one));
            transaction.rollback();
        }
        elsewhere(set(Place.PRIMITIVE, one, 1));
        elsewhere(set(Place.LIST, one, 1));
        assertEquals(1, one.number);
    }

    /// J3.2.
    @Test
    void readersDoNotWaitForEachOther() throws Exception {
        for (Place place : Place.values()) {
            try (var transaction = Transaction.begin()) {
                assertEquals(0, place.get(one));
                assertEquals(0, elsewhere(get(place, one)));
                transaction.commit();
            }
        }
    }

    /// J3.2.
    /// Outside of transactions reads do not wait, and see the present values.
    @Test
    void outsideOfTransactionsNothingIsLocked() throws Exception {
        for (Place place : Place.values()) {
            assertEquals(0, place.get(one));
            try (var transaction = Transaction.begin()) {
                place.set(one, 1);
                assertEquals(1, elsewhere(() -> place.get(one)));
                transaction.rollback();
            }
        }
    }

    /// J3.2: reads of a store of a weaker level lock nothing, whatever the level of another store.
    @Test
    void uncommittedReadsLockNothing() throws Exception {
        reopen(Isolation.READ_UNCOMMITTED);
        Store another = Store.open(new MemoryGraph().open(), new StoreOptions());
        for (Place place : Place.values()) {
            try (var transaction = Transaction.begin()) {
                assertEquals(0, place.get(one));
                elsewhere(set(place, one, 1));
                assertEquals(1, place.get(one));
                transaction.commit();
            }
        }
        another.close();
    }

    /// J3.2.
    /// Reads do not lock what is not persistent, statics included.
    @Test
    void ordinaryObjectsAreNotLocked() throws Exception {
        World ordinary = new World();
        for (Place place : Place.values()) {
            try (var transaction = Transaction.begin()) {
                assertEquals(0, place.get(ordinary));
                elsewhere(set(place, ordinary, 1));
                assertEquals(1, place.get(ordinary));
                transaction.commit();
            }
        }
        int before = total;
        try (var transaction = Transaction.begin()) {
            assertEquals(before, total);
            elsewhere(() -> {
                Transaction.run(() -> {
                    total++;
                });
                return null;
            });
            transaction.commit();
        }
        assertEquals(before + 1, total);
    }

    private static int total;

    private Map<String, Integer> map() {
        return store.root("map", Object.class);
    }

    private Map.Entry<String, Integer> entryOfMap() {
        return map().entrySet().iterator().next();
    }

    private WeakReference<Object> mapIfThere() {
        return new WeakReference<>(map());
    }

    /// J3.2, J7: nothing leads from an entry to its map, and its map in the store may have changed since.
    @Test
    void entryOfUnloadedMapIsNotRead() throws Exception {
        store.setRoot("map", new HashMap<>(Map.of("key", 0)));
        reopen(Isolation.SERIALISABLE);
        Map.Entry<String, Integer> entry = entryOfMap();
        WeakReference<Object> gone = mapIfThere();
        while (!gone.refersTo(null)) {
            System.gc();
        }
        elsewhere(() -> Transaction.call(() -> map().put("key", 42)));
        var refused = assertThrows(IllegalStateException.class, () -> Transaction.call(entry::getValue));
        assertTrue(refused.getMessage().contains("look the collection up again"), refused.getMessage());
        assertEquals(0, entry.getValue(), "outside of transactions nothing is locked");
        assertEquals(42, Transaction.<Integer, Exception>call(() -> entryOfMap().getValue()));
    }

    /// J3.2: a name, one that leads nowhere, and the names that there are.
    @Test
    void namesAreReadUnderLocksToo() throws Exception {
        Future<Object> marking;
        try (var transaction = Transaction.begin()) {
            assertEquals(null, store.root("more", World.class));
            assertEquals(Set.of("one", "other"), store.rootNames());
            marking = startAndWait(() -> store.setRoot("more", new World()));
            assertEquals(null, store.root("more", World.class));
            transaction.commit();
        }
        marking.get();
        Future<Boolean> looking;
        try (var transaction = Transaction.begin()) {
            store.removeRoot("more");
            looking = startAndWait(() -> Transaction.call(() -> store.root("more", Object.class) != null));
            transaction.commit();
        }
        assertFalse(looking.get());
        try (var transaction = Transaction.begin()) {
            assertEquals(2, store.rootNames().size());
            marking = startAndWait(() -> store.setRoot("last", new World()));
            assertEquals(2, store.rootNames().size());
            transaction.commit();
        }
        marking.get();
    }

    /// J3.2.
    /// Others come and go.
    @Test
    void creatorWaitsForReaderOfAbsentKey() throws Exception {
        Future<Object> marking;
        try (var transaction = Transaction.begin()) {
            assertEquals(null, store.root("more", World.class));
            assertTrue(elsewhere(() -> store.setRoot("another", new World())));
            marking = startAndWait(() -> store.setRoot("more", new World()));
            assertEquals(null, store.root("more", World.class));
            transaction.commit();
        }
        marking.get();
        Future<Object> looking;
        try (var transaction = Transaction.begin()) {
            store.setRoot("last", new World());
            looking = startAndWait(() -> Transaction.call(() -> store.root("last", Object.class)));
            store.removeRoot("last");
            transaction.commit();
        }
        assertEquals(null, looking.get());
    }

    /// J3.2.
    @Test
    void absentNamesTakeNoMemory() throws ReflectiveOperationException {
        Object engine = field(store, "engine");
        int count = ((Map<?, ?>) field(engine, "roots")).size();
        for (int i = 0; i < 1_000; i++) {
            String name = "absent " + i;
            assertEquals(null, store.root(name, World.class));
            Transaction.run(() -> assertEquals(null, store.root(name, World.class)));
        }
        assertEquals(count, ((Map<?, ?>) field(engine, "roots")).size());
    }

    private static Object field(Object object, String name) throws ReflectiveOperationException {
        Field field = object.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(object);
    }
}
