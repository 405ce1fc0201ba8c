package cedrat.persist.faces;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.Heap;
import cedrat.persist.Records;
import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/// An object, a record and a word that change in one transaction.
class FacesTest {
    private static final class Purse {
        long coins;
        Object other;
    }

    @TempDir
    Path folder;

    private Store store;
    private Records records;
    private Heap heap;
    private long record;
    private long word;

    private static byte[] bytes(long value) {
        return ByteBuffer.allocate(Long.BYTES).putLong(value).array();
    }

    @BeforeEach
    void open() {
        store = Store.open(folder, new StoreOptions());
        records = store.records("records");
        heap = store.heap("heap", 1 << 20);
        Transaction.run(() -> {
            if (store.isNew()) {
                store.setRoot("purse", new Purse());
                records.insert(bytes(0));
                heap.setRoot("word", heap.allocate(Long.BYTES));
            }
            record = records.numbers()[0];
            word = heap.root("word");
        });
    }

    @AfterEach
    void close() {
        store.close();
    }

    private Purse purse() {
        return store.root("purse", Object.class);
    }

    private void set(long value) {
        purse().coins = value;
        records.update(record, bytes(value));
        heap.write(word, value);
    }

    /// Only within a transaction.
    private void assertAll(long expected) {
        assertEquals(expected, purse().coins);
        assertArrayEquals(bytes(expected), records.read(record));
        assertEquals(expected, heap.read(word));
    }

    private void assertAllAre(long expected) {
        Transaction.run(() -> assertAll(expected));
    }

    @Test
    void committedDataIsThereAfterReopening() {
        assertSame(records, store.records("records"));
        assertSame(heap, store.heap("heap", 1));
        Transaction.run(() -> set(7));
        assertAllAre(7);
        close();
        open();
        assertAllAre(7);
    }

    /// J16.
    @Test
    void pagesAndWordsAloneAreCommittedToo() {
        Transaction.run(() -> heap.write(word, 3));
        Transaction.run(() -> records.update(record, bytes(4)));
        close();
        open();
        Transaction.run(() -> {
            assertEquals(3, heap.read(word));
            assertArrayEquals(bytes(4), records.read(record));
        });
    }

    /// J16: a transaction that only reads pages and heaps of a store may change objects of another one.
    @Test
    void readObjectsAreNotCommitted() {
        Transaction.run(() -> set(7));
        try (Store other = Store.open(folder.resolve("other"), new StoreOptions())) {
            other.setRoot("purse", new Purse());
            Purse there = other.root("purse", Purse.class);
            Transaction.run(() -> {
                there.coins = heap.read(word);
                assertArrayEquals(bytes(7), records.read(record));
            });
            assertThrows(
                    StoreException.class,
                    () -> Transaction.run(() -> {
                        there.coins = 8;
                        heap.write(word, 8);
                    }));
            assertEquals(7, there.coins);
        }
        assertAllAre(7);
        try (Store other = Store.open(folder.resolve("other"), new StoreOptions())) {
            assertEquals(7, other.root("purse", Purse.class).coins);
        }
    }

    @Test
    void invalidArgumentsAreRefusedWithMessages() {
        refuses("NUL", () -> store.records("records\0b"));
        refuses("NUL", () -> store.heap("heap\0b", 1 << 20));
        refuses("NUL", () -> Transaction.run(() -> heap.setRoot("word\0b", 0)));
        refuses("NUL", () -> Transaction.run(() -> heap.root("word\0b")));
        refuses("size", () -> store.heap("another", 0));
        refuses("size", () -> store.heap("another", -1));
        refuses("as insert", () -> Transaction.run(() -> records.read(-1)));
        refuses("as insert", () -> Transaction.run(() -> records.update(-1, bytes(0))));
        refuses("as insert", () -> Transaction.run(() -> records.delete(-1)));
        for (long none :
                new long[] {Long.MAX_VALUE, 1L << 62, 1L << 47, 1L << 40, 1L << 24, 1L << 20, 1L << 17, 1, 0}) {
            refuses("CEDRAT_UNKNOWN", () -> Transaction.run(() -> records.read(none)));
            refuses("CEDRAT_UNKNOWN", () -> Transaction.run(() -> records.update(none, bytes(0))));
            refuses("CEDRAT_UNKNOWN", () -> Transaction.run(() -> records.delete(none)));
        }
        assertSame(heap, store.heap("heap", 0));
        assertAllAre(0);
    }

    private static void refuses(String why, Executable what) {
        StoreException refused = assertThrows(StoreException.class, what);
        assertTrue(refused.getMessage().contains(why), refused.getMessage());
    }

    /// J16.
    @Test
    void aRollbackTakesAllOfItBack() {
        Transaction.run(() -> set(1));
        Transaction.run(transaction -> {
            set(2);
            assertAll(2);
            transaction.rollback();
        });
        assertAllAre(1);
        assertThrows(
                IllegalArgumentException.class,
                () -> Transaction.run(() -> {
                    set(3);
                    throw new IllegalArgumentException("as planned");
                }));
        assertAllAre(1);
        close();
        open();
        assertAllAre(1);
    }

    /// J16.
    @Test
    void nestedRollbackUndoesOnlyNestedChanges() {
        Transaction.run(() -> {
            set(1);
            Transaction.run(middle -> {
                Transaction.run(inner -> {
                    set(2);
                    inner.rollback();
                });
                assertAll(1);
                Transaction.run(() -> set(3));
                assertAll(3);
                middle.rollback();
            });
            assertAll(1);
            Transaction.run(() -> set(4));
            Transaction.run(last -> {
                set(5);
                last.rollback();
            });
        });
        close();
        open();
        assertAllAre(4);
    }

    /// J16.
    @Test
    void refusedCommitChangesNothing() {
        Transaction.run(() -> set(1));
        assertThrows(
                StoreException.class,
                () -> Transaction.run(() -> {
                    set(2);
                    purse().other = new Thread("of the process");
                }));
        assertAllAre(1);
        assertEquals(1, purse().coins);
    }

    @Test
    void aRefusedCallChangesNothing() {
        Transaction.run(() -> {
            assertThrows(StoreException.class, () -> heap.read(word + 1));
            assertThrows(StoreException.class, () -> records.read(record + 1));
            assertThrows(StoreException.class, () -> records.insert(new byte[4000]));
            set(6);
        });
        assertAllAre(6);
        String message = assertThrows(IllegalStateException.class, () -> heap.write(word, 1))
                .getMessage();
        assertTrue(message.contains("begin a transaction"), message);
        assertThrows(StoreException.class, () -> store.records("heap of another kind".repeat(100)));
    }

    @Test
    void recordsComeAndGo() {
        byte[] longest = new byte[3800];
        Transaction.run(() -> {
            long added = records.insert(longest);
            assertArrayEquals(longest, records.read(added));
            assertEquals(2, records.numbers().length);
            records.delete(added);
            long block = heap.allocate(64);
            heap.write(block + 56, 5);
            heap.free(block);
            heap.setRoot("other", heap.allocate(8));
            heap.setRoot("other", 0);
            assertEquals(0, heap.root("other"));
        });
        Transaction.run(() -> assertArrayEquals(new long[] {record}, records.numbers()));
    }

    @Test
    void transactionsOfTwoStoresAreRefused() {
        try (Store other = Store.open(folder.resolve("other"), new StoreOptions())) {
            Heap there = other.heap("heap", 1 << 20);
            Transaction.run(() -> {
                heap.write(word, 1);
                assertThrows(StoreException.class, () -> there.allocate(8));
            });
            assertThrows(
                    StoreException.class,
                    () -> Transaction.run(() -> {
                        there.allocate(8);
                        purse().coins = 9;
                    }));
        }
        Transaction.run(() -> {
            assertEquals(0, purse().coins);
            assertEquals(1, heap.read(word));
        });
    }

    @Test
    void threadsTakeTurns() throws InterruptedException {
        int threads = 4;
        CountDownLatch begun = new CountDownLatch(threads);
        Thread[] all = new Thread[threads];
        for (int thread = 0; thread < threads; thread++) {
            boolean isReversed = thread % 2 == 1;
            all[thread] = Thread.ofPlatform().start(() -> {
                begun.countDown();
                for (int turn = 0; turn < 50; turn++) {
                    Transaction.run(() -> add(isReversed));
                }
            });
        }
        begun.await();
        for (Thread thread : all) {
            thread.join();
        }
        assertAllAre(200);
    }

    /// In one order, or the other: that a deadlock comes of it is no matter.
    private void add(boolean isReversed) {
        if (isReversed) {
            heap.write(word, heap.read(word) + 1);
        }
        byte[] was = records.read(record);
        records.update(record, bytes(ByteBuffer.wrap(was).getLong() + 1));
        if (!isReversed) {
            heap.write(word, heap.read(word) + 1);
        }
        purse().coins++;
    }

    @Test
    void storeClosesDuringTransactionOfOtherThread() throws InterruptedException {
        Transaction.run(() -> set(1));
        CountDownLatch written = new CountDownLatch(1);
        CountDownLatch closed = new CountDownLatch(1);
        Thread thread = Thread.ofPlatform()
                .start(() -> assertThrows(
                        IllegalStateException.class,
                        () -> Transaction.run(() -> {
                            set(2);
                            written.countDown();
                            await(closed);
                            heap.write(word, 3);
                        })));
        written.await();
        store.close();
        closed.countDown();
        thread.join();
        open();
        assertAllAre(1);
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
