package cedrat.persist.nativestore;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.GraphStore;
import cedrat.persist.GraphStore.Committed;
import cedrat.persist.GraphStoreException;
import cedrat.persist.Store;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.AbstractSet;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class NativeGraphStoreTest {
    private static final long NEW_OBJECT = 0xffL << 56;
    private static final Store.Provider.Files FILES =
            new Store.Provider.Files(16 << 20, Optional.empty(), Optional.empty(), Optional.empty());

    @TempDir
    Path folder;

    /// The entries of a commit.
    private static final class Entries {
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        Entries add(int classNumber, byte[] data, long... references) {
            byte[] object = object(classNumber, data, references);
            return entry(1, object.length, new byte[0], object);
        }

        Entries patch(long identity, int offset, byte[] patch) {
            ByteBuffer fixed = little(16).putLong(identity).putInt(offset).putInt(0);
            return entry(2, patch.length, fixed.array(), patch);
        }

        Entries put(long identity, int classNumber, byte[] data, long... references) {
            byte[] object = object(classNumber, data, references);
            return entry(3, object.length, little(8).putLong(identity).array(), object);
        }

        Entries root(String name, long reference) {
            byte[] text = name.getBytes(StandardCharsets.UTF_8);
            return entry(4, text.length, little(8).putLong(reference).array(), text);
        }

        Entries define(int number, byte[] definition) {
            return entry(5, definition.length, little(8).putLong(number).array(), definition);
        }

        private Entries entry(int kind, int length, byte[] fixed, byte[] body) {
            bytes.writeBytes(little(8).putInt(kind).putInt(length).array());
            bytes.writeBytes(fixed);
            bytes.writeBytes(body);
            bytes.writeBytes(new byte[-body.length & 7]);
            return this;
        }

        private static byte[] object(int classNumber, byte[] data, long... references) {
            int padded = data.length + 7 & -8;
            ByteBuffer object = little(8 + padded + 8 * references.length);
            object.putInt(classNumber).putInt(padded).put(data).position(8 + padded);
            for (long reference : references) {
                object.putLong(reference);
            }
            return object.array();
        }

        private static ByteBuffer little(int size) {
            return ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN);
        }

        Committed commit(NativeGraphStore store) throws GraphStoreException {
            return store.commit(bytes.toByteArray(), bytes.size());
        }
    }

    @Test
    void committedObjectsSurviveReopening() throws GraphStoreException {
        long[] identities;
        try (NativeGraphStore store = NativeOpening.open(folder, FILES)) {
            Committed committed = new Entries()
                    .define(1, "first".getBytes(StandardCharsets.UTF_8))
                    .define(2, new byte[200_000])
                    .add(1, new byte[] {1, 2, 3}, NEW_OBJECT | 1, 0)
                    .add(2, new byte[0], NEW_OBJECT)
                    .root("ä root", NEW_OBJECT | 1)
                    .root("another", 7L << 56)
                    .commit(store);
            identities = committed.identities();
            store.waitDurable(committed.lsn());
            new Entries()
                    .patch(identities[0], 8, new byte[] {9})
                    .put(identities[1], 1, new byte[8], identities[0])
                    .commit(store);
        }
        try (NativeGraphStore store = NativeOpening.open(folder, FILES)) {
            List<byte[]> classes = store.classes(1);
            assertEquals(2, classes.size());
            assertArrayEquals(classes.getLast(), store.classes(2).getFirst());
            assertEquals(List.of(), store.classes(3));
            assertEquals("first", new String(classes.getFirst(), StandardCharsets.UTF_8));
            assertEquals(200_000, classes.getLast().length);
            assertEquals(Map.of("ä root", identities[1], "another", 7L << 56), new TreeMap<>(store.roots()));
            byte[][] both = {
                Entries.object(1, new byte[] {9, 2, 3}, identities[1], 0), Entries.object(1, new byte[8], identities[0])
            };
            assertArrayEquals(both[0], store.read(identities[0]));
            assertArrayEquals(both, store.readMany(identities));
        }
    }

    /// J8c.
    @Test
    void unusedClassesAreDropped() throws GraphStoreException {
        byte[] definition = {1, 2, 3};
        Entries adding = new Entries().add(3, new byte[8]);
        try (NativeGraphStore store = NativeOpening.open(folder, FILES)) {
            new Entries()
                    .define(1, definition)
                    .define(2, definition)
                    .define(3, definition)
                    .add(1, new byte[8], 9L << 56 | 2L << 24)
                    .add(3, new byte[8])
                    .root("root", NEW_OBJECT)
                    .commit(store);
            try (GraphStore.Collection collection = store.collect(new long[0])) {
                GraphStore.Stage stage = collection.step(10);
                while (stage != GraphStore.Stage.DONE) {
                    stage = stage == GraphStore.Stage.MARKED ? collection.seal(new long[0]) : collection.step(10);
                }
                assertArrayEquals(new int[] {3}, collection.unusedClasses());
                assertFalse(collection.dropClasses(new int[] {3, 1}), "class 1 has an object");
                assertTrue(collection.dropClasses(new int[] {3}));
                assertArrayEquals(new int[0], collection.unusedClasses());
            }
            assertTrue(assertThrows(GraphStoreException.class, () -> adding.commit(store))
                    .isConflict());
        }
        try (NativeGraphStore store = NativeOpening.open(folder, FILES)) {
            assertEquals(3, store.classes(1).size());
            assertNull(store.classes(1).get(2));
            new Entries().define(4, definition).commit(store);
            assertArrayEquals(definition, store.classes(3).getLast());
            byte[] branch = {7};
            assertTrue(assertThrows(
                            GraphStoreException.class,
                            () -> store.prepare(adding.bytes.toByteArray(), adding.bytes.size(), branch))
                    .isConflict());
        }
    }

    /// J9g.
    @Test
    void refusedCommitDefinesNoClass() throws GraphStoreException {
        try (NativeGraphStore store = NativeOpening.open(folder, FILES)) {
            byte[] definition = {1, 2, 3};
            long object = new Entries()
                    .define(1, definition)
                    .add(1, new byte[8])
                    .commit(store)
                    .identities()[0];
            Entries refused = new Entries().define(2, definition).add(2, new byte[8]);
            refused.patch(object + 100, 8, new byte[8]);
            assertThrows(GraphStoreException.class, () -> refused.commit(store));
            byte[] branch = {7};
            assertThrows(
                    GraphStoreException.class,
                    () -> store.prepare(refused.bytes.toByteArray(), refused.bytes.size(), branch));
            assertEquals(1, store.classes(1).size());
            GraphStoreException gap = assertThrows(
                    GraphStoreException.class,
                    () -> new Entries().define(3, definition).commit(store));
            assertTrue(gap.getMessage().contains("the next number is 2"), gap.getMessage());
            new Entries().add(2, new byte[8]).define(2, new byte[0]).commit(store);
        }
        try (NativeGraphStore store = NativeOpening.open(folder, FILES)) {
            assertArrayEquals(new byte[0], store.classes(2).getFirst());
        }
    }

    /// J11.2.
    @Test
    void changesOfBranchInDoubtAreListed() throws GraphStoreException {
        try (NativeGraphStore store = NativeOpening.open(folder, FILES)) {
            new Entries().define(1, new byte[0]).commit(store);
            long object = new Entries().add(1, new byte[8]).commit(store).identities()[0];
            Entries change = new Entries().patch(object, 8, new byte[] {1});
            byte[] branch = {7};
            store.prepare(change.bytes.toByteArray(), change.bytes.size(), branch);
            GraphStoreException refused = assertThrows(
                    GraphStoreException.class,
                    () -> new Entries().patch(object, 8, new byte[] {2}).commit(store));
            assertTrue(refused.isInDoubt() && !refused.isStopped(), refused.getMessage());
            assertTrue(refused.getMessage().contains("07"), refused.getMessage());
            store.rollbackPrepared(branch);
            new Entries().patch(object, 8, new byte[] {2}).commit(store);
        }
    }

    /// J9: the library gives the LSN of what it has appended, and so tells what an error has hidden.
    @Test
    void errorTellsWhetherCommitIsAppended() throws GraphStoreException {
        try (NativeGraphStore store = NativeOpening.open(folder, FILES)) {
            new Entries().define(1, new byte[0]).commit(store);
            long object = new Entries().add(1, new byte[8]).commit(store).identities()[0];
            byte[] change = new Entries().patch(object, 8, new byte[] {1}).bytes.toByteArray();
            GraphStoreException before =
                    NativeGraphStore.uncommitted(new StackOverflowError(), NativeGraphStore.NOT_APPENDED);
            assertFalse(before.isStopped());
            long lsn = store.commit(change, change.length).lsn();
            assertTrue(lsn > 0);
            GraphStoreException behind = NativeGraphStore.uncommitted(new StackOverflowError(), lsn);
            assertTrue(behind.isStopped());
        }
    }

    @Test
    void objectLongerThanBufferIsRead() throws GraphStoreException {
        try (NativeGraphStore store = NativeOpening.open(folder, FILES)) {
            new Entries().define(1, new byte[0]).commit(store);
            int[] sizes = {40_000, 8, 300_000, 65_536, 16, 70_000};
            Entries entries = new Entries();
            for (int size : sizes) {
                byte[] data = new byte[size];
                java.util.Arrays.fill(data, (byte) size);
                entries.add(1, data);
            }
            for (int root = 0; root < 2_000; root++) {
                entries.root("a name of some length, and a number " + root, NEW_OBJECT | root % sizes.length);
            }
            long[] identities = entries.commit(store).identities();
            byte[][] read = store.readMany(identities);
            for (int i = 0; i < sizes.length; i++) {
                assertEquals(8 + sizes[i], read[i].length);
                assertEquals((byte) sizes[i], read[i][read[i].length - 1]);
                assertArrayEquals(read[i], store.read(identities[i]));
            }
            assertEquals(2_000, store.roots().size());
        }
    }

    @Test
    void refusalsNameTheirReason() throws GraphStoreException {
        NativeGraphStore store = NativeOpening.open(folder, FILES);
        try (store) {
            new Entries().define(1, new byte[0]).commit(store);
            long identity = new Entries().add(1, new byte[8]).commit(store).identities()[0];
            GraphStoreException refused = assertThrows(GraphStoreException.class, () -> new Entries()
                    .add(1, new byte[8])
                    .patch(identity + 100, 8, new byte[8])
                    .commit(store));
            assertTrue(refused.getMessage().contains("entry 1"), refused.getMessage());
            assertFalse(refused.isStopped());
            assertThrows(GraphStoreException.class, () -> store.commit(new byte[] {9, 0, 0, 0, 1}, 5));
            assertThrows(GraphStoreException.class, () -> store.read(identity + 100));
            assertThrows(GraphStoreException.class, () -> store.readMany(new long[] {identity, identity + 100}));
            String twice = assertThrows(GraphStoreException.class, () -> NativeOpening.open(folder, FILES))
                    .getMessage();
            assertTrue(twice.contains("CEDRAT_IN_USE"), twice);
        }
        GraphStoreException closed = assertThrows(GraphStoreException.class, () -> store.read(1));
        assertTrue(closed.getMessage().contains("the store is closed: open it again"), closed.getMessage());
        assertTrue(closed.isStopped());
        store.close();
    }

    @Test
    void twoStoresFitIntoAProcess() throws GraphStoreException {
        try (NativeGraphStore one = NativeOpening.open(folder.resolve("one"), FILES);
                NativeGraphStore other = NativeOpening.open(folder.resolve("other"), FILES)) {
            new Entries().define(1, new byte[0]).commit(one);
            new Entries().add(1, new byte[8]).root("name", NEW_OBJECT).commit(one);
            assertEquals(1, one.roots().size());
            assertEquals(0, other.roots().size());
            assertEquals(0, other.classes(1).size());
        }
    }

    /// A call of the store.
    @FunctionalInterface
    private interface Call {
        void run(NativeGraphStore store) throws GraphStoreException;
    }

    /// Repeats a call until the store is closed. Calls that the store refuses count too.
    private static void repeat(Call call, NativeGraphStore store, CountDownLatch hasCalled) {
        try {
            while (true) {
                try {
                    call.run(store);
                } catch (GraphStoreException refused) {
                    if (refused.isStopped()) {
                        assertTrue(refused.getMessage().contains("open it again"), refused.getMessage());
                        return;
                    }
                }
                hasCalled.countDown();
            }
        } finally {
            hasCalled.countDown();
        }
    }

    /// Later calls fail because it is closed.
    @Test
    void closeWaitsForCallsUnderWay() throws Exception {
        for (int round = 0; round < 20; round++) {
            Path directory = folder.resolve("round " + round);
            NativeGraphStore store = NativeOpening.open(directory, FILES);
            new Entries().define(1, new byte[8]).commit(store);
            long identity = new Entries().add(1, new byte[20_000]).commit(store).identities()[0];
            long records = store.records("records");
            List<Call> calls = List.of(
                    opened -> opened.read(identity),
                    opened -> opened.inDoubt(),
                    opened -> opened.commitPrepared(new byte[] {1}),
                    opened -> opened.rollbackPrepared(new byte[] {1}),
                    opened -> opened.records("records"),
                    opened -> opened.heap("heap", 1 << 20),
                    opened -> insert(opened, records),
                    opened -> collect(opened, identity));
            CountDownLatch haveCalled = new CountDownLatch(calls.size());
            Queue<Throwable> problems = new ConcurrentLinkedQueue<>();
            List<Thread> threads = new ArrayList<>();
            for (Call call : calls) {
                threads.add(Thread.ofPlatform()
                        .uncaughtExceptionHandler((thread, problem) -> problems.add(problem))
                        .start(() -> repeat(call, store, haveCalled)));
            }
            haveCalled.await();
            store.close();
            for (Thread thread : threads) {
                thread.join();
            }
            assertEquals(List.of(), List.copyOf(problems));
            // It is closed in truth.
            NativeOpening.open(directory, FILES).close();
        }
    }

    /// Holds what is begun until a thread that closes the store has freed it.
    private static final class FreedAtOnce extends AbstractSet<Dependent> {
        private final Set<Dependent> held = ConcurrentHashMap.newKeySet();
        private final CountDownLatch isFreed = new CountDownLatch(1);
        private Thread closing;
        private NativeGraphStore store;

        @Override
        public boolean add(Dependent begun) {
            held.add(begun);
            closing = Thread.ofPlatform().start(() -> assertDoesNotThrow(store::close));
            assertDoesNotThrow(() -> isFreed.await());
            return true;
        }

        @Override
        public void forEach(Consumer<? super Dependent> action) {
            held.forEach(action);
            isFreed.countDown();
        }

        @Override
        public boolean remove(Object freed) {
            return held.remove(freed);
        }

        @Override
        public Iterator<Dependent> iterator() {
            return held.iterator();
        }

        @Override
        public int size() {
            return held.size();
        }
    }

    /// The store is closed when the library has begun a transaction, which has no memory yet.
    @Test
    void storeMayCloseWhileTransactionBegins() throws Exception {
        FreedAtOnce dependents = new FreedAtOnce();
        NativeGraphStore store = NativeOpening.open(folder, FILES, dependents);
        dependents.store = store;
        GraphStoreException closed = assertThrows(GraphStoreException.class, store::begin);
        assertTrue(closed.getMessage().contains("the store is closed: open it again"), closed.getMessage());
        dependents.closing.join();
        assertEquals(List.of(), List.copyOf(dependents));
        NativeOpening.open(folder, FILES).close();
    }

    private static void insert(NativeGraphStore store, long records) throws GraphStoreException {
        try (GraphStore.Faces faces = store.begin()) {
            long savepoint = faces.savepoint();
            faces.read(records, faces.insert(records, new byte[100]));
            faces.rollbackTo(savepoint);
        }
    }

    private static void collect(NativeGraphStore store, long identity) throws GraphStoreException {
        try (GraphStore.Collection collection = store.collect(new long[] {identity})) {
            collection.step(10);
            collection.removed();
        }
    }

    /// Closing the store ends open transactions, also if a call waits for one.
    @Test
    void closingEndsOpenTransactions() throws Exception {
        NativeGraphStore store = NativeOpening.open(folder, FILES);
        long records = store.records("records");
        GraphStore.Faces first = store.begin();
        long number = first.insert(records, new byte[] {1});
        GraphStore.Collection collection = store.collect(new long[0]);
        CountDownLatch begins = new CountDownLatch(1);
        Thread other = Thread.ofPlatform().start(() -> {
            try (GraphStore.Faces second = store.begin()) {
                begins.countDown();
                second.read(records, number);
            } catch (GraphStoreException closedOrGone) {
                // The first has rolled back by then.
            } finally {
                begins.countDown();
            }
        });
        begins.await();
        store.close();
        other.join();
        assertTrue(assertThrows(GraphStoreException.class, () -> first.read(records, number))
                .isStopped());
        assertTrue(assertThrows(GraphStoreException.class, () -> collection.step(1))
                .isStopped());
        first.close();
        collection.close();
        try (NativeGraphStore again = NativeOpening.open(folder, FILES);
                GraphStore.Faces faces = again.begin()) {
            assertEquals(0, faces.numbers(records).length);
        }
    }
}
