package cedrat.persist.backup;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// E18.1: backups while threads commit.
class BackupTest {
    private static final int THREADS = 2;
    private static final int BACKUPS = 3;

    /// Numbers that each transaction changes together.
    private static final class Numbers {
        long first;
        List<Long> others = new ArrayList<>(List.of(0L, 0L, 0L));

        void add() {
            first++;
            others.replaceAll(number -> number + 1);
        }
    }

    @TempDir
    Path folder;

    private final AtomicLong committed = new AtomicLong();
    private final AtomicBoolean isOver = new AtomicBoolean();

    private void commitUntilOver(Numbers numbers) {
        while (!isOver.get()) {
            Transaction.run(numbers::add);
            committed.incrementAndGet();
        }
    }

    private static long numberIn(Path folder) {
        try (Store copy = Store.open(folder)) {
            Numbers numbers = copy.root("numbers", Numbers.class);
            assertEquals(List.of(numbers.first, numbers.first, numbers.first), numbers.others);
            return numbers.first;
        }
    }

    @Test
    void backupsHaveWholeCommits() throws InterruptedException {
        Queue<Throwable> failures = new ConcurrentLinkedQueue<>();
        try (Store store = Store.open(folder.resolve("store"))) {
            Numbers numbers = Transaction.call(() -> store.root("numbers", Numbers.class, Numbers::new));
            List<Thread> threads = new ArrayList<>();
            for (int number = 0; number < THREADS; number++) {
                threads.add(Thread.ofPlatform()
                        .uncaughtExceptionHandler((thread, problem) -> failures.add(problem))
                        .start(() -> commitUntilOver(numbers)));
            }
            for (int number = 0; number < BACKUPS; number++) {
                long before = committed.get();
                Path copy = folder.resolve("copy-" + number);
                store.backup(copy);
                long found = numberIn(copy);
                long after = committed.get() + THREADS;
                assertTrue(before <= found && found <= after, () -> before + ", " + found + ", " + after);
            }
            isOver.set(true);
            for (Thread thread : threads) {
                thread.join();
            }
        }
        assertEquals(List.of(), List.copyOf(failures));
        assertEquals(committed.get(), numberIn(folder.resolve("store")));
    }

    /// E18.9b.
    @Test
    void storeKeepsItsArchive() {
        StoreOptions options = new StoreOptions().archive(folder.resolve("archive"));
        for (int opening = 1; opening <= 2; opening++) {
            try (Store store = Store.open(folder.resolve("store"), options)) {
                Numbers numbers = Transaction.call(() -> store.root("numbers", Numbers.class, Numbers::new));
                Transaction.run(numbers::add);
            }
            assertTrue(Files.exists(folder.resolve("archive/log/000000")));
        }
        StoreException problem = assertThrows(StoreException.class, () -> Store.open(folder.resolve("other"), options));
        assertTrue(problem.getMessage().contains("the archive of another store"), problem.getMessage());
        assertEquals(2, numberIn(folder.resolve("store")));
    }

    @Test
    void refusedBackupChangesNothing() {
        try (Store store = Store.open(folder.resolve("store"))) {
            StoreException problem = assertThrows(StoreException.class, () -> store.backup(folder.resolve("store")));
            assertTrue(problem.getMessage().contains("CEDRAT_EXISTS"), problem.getMessage());
            assertThrows(IllegalArgumentException.class, () -> store.backup(folder.resolve("copy"), -1));
            Transaction.run(() -> store.setRoot("text", "still open"));
            store.backup(folder.resolve("copy"), 1L << 40);
        }
        try (Store copy = Store.open(folder.resolve("copy"))) {
            assertEquals("still open", copy.root("text", String.class));
        }
    }
}
