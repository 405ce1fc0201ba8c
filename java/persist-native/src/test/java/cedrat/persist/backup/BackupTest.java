package cedrat.persist.backup;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.BackupOptions;
import cedrat.persist.BackupReport;
import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import cedrat.persist.View;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
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

    /// E18.18, E18.22.
    @Test
    void storeIsReadAsItWas() throws IOException {
        Path full = folder.resolve("full");
        Path increment = folder.resolve("increment");
        Path archive = folder.resolve("archive");
        StoreOptions options = new StoreOptions().archive(archive);
        try (Store store = Store.open(folder.resolve("store"), options)) {
            Numbers numbers = Transaction.call(() -> store.root("numbers", Numbers.class, Numbers::new));
            Transaction.run(numbers::add);
            BackupReport report = store.backup(full);
            assertEquals(Optional.empty(), report.cannotContinue());
            assertTrue(report.upTo() > 0 && report.bytes() > 0, report.toString());
            Transaction.run(numbers::add);
            long two = store.backup(increment, new BackupOptions().since(full)).upTo();
            Transaction.run(numbers::add);
            long temporary = temporaryFolders();
            for (View view : List.of(
                    View.of(full, increment),
                    View.of(full, increment).archive(archive).at(two))) {
                try (Store viewed = Store.open(view, new StoreOptions())) {
                    Numbers asOf = viewed.root("numbers", Numbers.class);
                    assertEquals(2, asOf.first);
                    assertEquals(List.of(2L, 2L, 2L), asOf.others);
                    refusesChanges(viewed, asOf);
                }
            }
            assertEquals(temporary, temporaryFolders());
            assertEquals(1, valueOf(View.of(full)));
            assertEquals(3, numbers.first);
        }
        // Closing has archived all.
        assertEquals(3, valueOf(View.of(full, increment).archive(archive)));
        assertEquals(3, valueOf(View.of(full).archive(archive).at(Instant.now())));
    }

    private static void refusesChanges(Store viewed, Numbers asOf) {
        StoreException problem = assertThrows(StoreException.class, () -> Transaction.run(asOf::add));
        assertTrue(problem.getMessage().contains("CEDRAT_READ_ONLY"), problem.getMessage());
        assertThrows(StoreException.class, () -> viewed.setRoot("new", new Numbers()));
        assertThrows(StoreException.class, () -> viewed.records("new"));
        assertEquals(Optional.empty(), viewed.failure());
        assertEquals(2, asOf.first);
    }

    private static long valueOf(View view) {
        try (Store viewed = Store.open(view, new StoreOptions())) {
            return viewed.root("numbers", Numbers.class).first;
        }
    }

    /// Returns the number of folders that views have left.
    private static long temporaryFolders() throws IOException {
        try (Stream<Path> files = Files.list(Path.of(System.getProperty("java.io.tmpdir")))) {
            return files.filter(file -> file.getFileName().toString().startsWith("cedrat-view"))
                    .count();
        }
    }

    @Test
    void wrongViewsAreRefused() throws IOException {
        Path full = folder.resolve("full");
        Path other = folder.resolve("other");
        try (Store store = Store.open(folder.resolve("store"))) {
            store.setRoot("text", "first");
            store.backup(full);
        }
        try (Store store = Store.open(other)) {
            StoreException problem = assertThrows(
                    StoreException.class,
                    () -> store.backup(folder.resolve("increment"), new BackupOptions().since(full)));
            assertTrue(problem.getMessage().contains("of another store"), problem.getMessage());
        }
        long temporary = temporaryFolders();
        StoreOptions options = new StoreOptions();
        StoreException late = assertThrows(
                StoreException.class, () -> Store.open(View.of(full).at(1L << 40), options));
        assertTrue(late.getMessage().startsWith("cannot open a view of the backup in " + full), late.getMessage());
        assertThrows(StoreException.class, () -> Store.open(View.of(folder.resolve("missing")), options));
        assertEquals(temporary, temporaryFolders());
        StoreOptions archived = new StoreOptions().archive(folder.resolve("archive"));
        assertThrows(IllegalArgumentException.class, () -> Store.open(View.of(full), archived));
        assertThrows(IllegalArgumentException.class, () -> View.of(full).at(0));
    }

    /// E18.17: the page's changes before the archive's beginning are in the backup.
    @Test
    void damagedPageIsRebuiltFromBackup() throws IOException {
        Path store = folder.resolve("store");
        Path full = folder.resolve("full");
        StoreOptions archived = new StoreOptions().archive(folder.resolve("archive"));
        try (Store before = Store.open(store)) {
            before.setRoot("text", "first");
        }
        try (Store opened = Store.open(store, archived)) {
            opened.backup(full);
            opened.setRoot("other", "second");
        }
        damagePages(store);
        StoreOptions withBackup =
                new StoreOptions().archive(folder.resolve("archive")).backup(full);
        try (Store opened = Store.open(store, withBackup)) {
            assertEquals("first", opened.root("text", String.class));
            assertEquals("second", opened.root("other", String.class));
        }
        StoreOptions alone = new StoreOptions().backup(full);
        StoreException problem = assertThrows(StoreException.class, () -> Store.open(store, alone));
        assertTrue(problem.getMessage().contains("CEDRAT_OPTIONS"), problem.getMessage());
    }

    /// Changes a byte of each page that is in use.
    private static void damagePages(Path store) throws IOException {
        Path file = store.resolve("pages");
        byte[] pages = Files.readAllBytes(file);
        int damaged = 0;
        for (int page = 4096; page < pages.length; page += 4096) {
            if (!Arrays.equals(pages, page, page + 4096, new byte[4096], 0, 4096)) {
                pages[page + 1000] ^= 4;
                damaged++;
            }
        }
        assertTrue(damaged > 0, () -> "no page is in use");
        Files.write(file, pages);
    }

    @Test
    void refusedBackupChangesNothing() {
        try (Store store = Store.open(folder.resolve("store"))) {
            StoreException problem = assertThrows(StoreException.class, () -> store.backup(folder.resolve("store")));
            assertTrue(problem.getMessage().contains("CEDRAT_EXISTS"), problem.getMessage());
            assertThrows(IllegalArgumentException.class, () -> new BackupOptions().bytesPerSecondMax(-1));
            Transaction.run(() -> store.setRoot("text", "still open"));
            store.backup(folder.resolve("copy"), new BackupOptions().bytesPerSecondMax(1L << 40));
        }
        try (Store copy = Store.open(folder.resolve("copy"))) {
            assertEquals("still open", copy.root("text", String.class));
        }
    }
}
