package cedrat.persist.woven.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.MemoryGraph;
import cedrat.persist.RwLock;
import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.StoreStatistics;
import cedrat.persist.Transaction;
import cedrat.persist.TransactionStatistics;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Counters, events and logs of stores and transactions.
class MonitoringTest {
    private static final class Node {
        int value;
        Node next;

        Node(Node next) {
            this.next = next;
        }
    }

    @TempDir
    Path folder;

    private final MemoryGraph graph = new MemoryGraph();
    private final List<LogRecord> logged = new ArrayList<>();
    private final Logger logger = Logger.getLogger("cedrat.persist");
    private final Handler handler = new Handler() {
        @Override
        public void publish(LogRecord record) {
            logged.add(record);
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    };

    @BeforeEach
    void listen() {
        logger.setUseParentHandlers(false);
        logger.addHandler(handler);
    }

    @AfterEach
    void leave() {
        logger.removeHandler(handler);
        logger.setUseParentHandlers(true);
    }

    private static Node list(int length) {
        Node first = null;
        for (int i = 0; i < length; i++) {
            first = new Node(first);
        }
        return first;
    }

    private static int length(Node first) {
        int length = 0;
        for (Node node = first; node != null; node = node.next) {
            length++;
        }
        return length;
    }

    @Test
    void commitsAndRefusalsAreCounted() {
        try (Store store = Store.open(graph.open(), new StoreOptions())) {
            store.setRoot("list", list(3));
            Node first = store.root("list", Node.class);
            Transaction.run(() -> first.value = 1);
            assertThrows(StoreException.class, () -> store.setRoot("thread", Thread.currentThread()));
            StoreStatistics counted = store.statistics();
            assertEquals(2, counted.commits());
            assertEquals(1, counted.refusedCommits());
            assertEquals(3, counted.newObjects());
            assertTrue(counted.committedBytes() >= 3 * 16, counted.toString());
            assertTrue(counted.loadedBytes() > 0, counted.toString());
        }
    }

    @Test
    void loadsAndCollectionsAreCounted() {
        try (Store store = Store.open(graph.open(), new StoreOptions())) {
            store.setRoot("list", list(2_000));
            store.setRoot("garbage", list(5));
            store.removeRoot("garbage");
        }
        try (Store store = Store.open(graph.open(), new StoreOptions().loadedBytesMax(20_000))) {
            assertEquals(2_000, length(store.root("list", Object.class)));
            StoreStatistics counted = store.statistics();
            assertEquals(2_000, counted.loadedObjects());
            assertTrue(counted.unloadedObjects() > 1_000, counted.toString());
            assertEquals(5, store.collect());
            assertEquals(1, store.statistics().collections());
            assertEquals(5, store.statistics().removedObjects());
        }
    }

    @Test
    void transactionsAreCounted() {
        TransactionStatistics before = Transaction.statistics();
        Node node = new Node(null);
        Transaction.run(() -> node.value++);
        Transaction.run(transaction -> {
            node.value++;
            Transaction.run(nested -> nested.rollback());
            transaction.rollback();
        });
        TransactionStatistics after = Transaction.statistics();
        assertEquals(1, after.commits() - before.commits());
        assertEquals(1, after.rollbacks() - before.rollbacks(), "nested ones do not count");
        assertEquals(0, after.deadlocks() - before.deadlocks());
    }

    @Test
    void waitsAreCounted() throws InterruptedException {
        TransactionStatistics before = Transaction.statistics();
        waitForLock(new Node(null));
        assertEquals(1, Transaction.statistics().lockWaits() - before.lockWaits());
    }

    /// A transaction of another thread waits for one of this thread.
    private static void waitForLock(Node node) throws InterruptedException {
        Thread other;
        try (var transaction = Transaction.begin()) {
            RwLock.acquireWrite(node);
            other = Thread.ofPlatform().start(() -> Transaction.run(() -> node.value = 1));
            while (other.getState() != Thread.State.TIMED_WAITING) {
                Thread.onSpinWait();
            }
            transaction.commit();
        }
        other.join();
    }

    @Test
    void stoppedStoreSaysWhy() {
        Store store = Store.open(graph.open(), new StoreOptions());
        Node node = new Node(null);
        store.setRoot("node", node);
        assertTrue(store.failure().isEmpty());
        graph.refuseSyncs();
        assertThrows(StoreException.class, () -> Transaction.run(() -> node.value = 1));
        String why = store.failure().orElseThrow().getMessage();
        assertTrue(why.contains("close it and open it again"), why);
        assertEquals(1, logged.size());
        assertTrue(
                logged.getFirst().getMessage().contains(MemoryGraph.NAME),
                logged.getFirst().getMessage());
        store.close();
        assertTrue(store.failure().isEmpty());
    }

    @Test
    void recorderReceivesEvents() throws IOException, InterruptedException {
        try (Recording recording = new Recording()) {
            for (String event : List.of("Commit", "DurableWait", "Load", "LockWait", "Collection", "Unload")) {
                recording.enable("cedrat." + event).withThreshold(Duration.ZERO);
            }
            recording.start();
            try (Store store = Store.open(graph.open(), new StoreOptions())) {
                store.setRoot("list", list(2_000));
                waitForLock(store.root("list", Object.class));
            }
            try (Store store = Store.open(graph.open(), new StoreOptions().loadedBytesMax(20_000))) {
                assertEquals(2_000, length(store.root("list", Object.class)));
                store.collect();
            }
            recording.stop();
            Path file = folder.resolve("events.jfr");
            recording.dump(file);
            checkEvents(RecordingFile.readAllEvents(file));
        }
    }

    private static void checkEvents(List<RecordedEvent> events) {
        RecordedEvent commit = first(events, "cedrat.Commit");
        assertEquals(MemoryGraph.NAME, commit.getString("store"));
        assertTrue(commit.getBoolean("committed"));
        assertTrue(commit.getInt("bytes") > 0);
        assertTrue(first(events, "cedrat.DurableWait").getLong("lsn") > 0);
        assertEquals(
                Node.class.getName(),
                first(events, "cedrat.Load").getClass("loadedClass").getName());
        RecordedEvent wait = first(events, "cedrat.LockWait");
        assertEquals(Node.class.getName(), wait.getClass("lockedClass").getName());
        assertTrue(wait.getBoolean("write"));
        assertFalse(wait.getBoolean("deadlock"));
        assertEquals(0, first(events, "cedrat.Collection").getLong("removedObjects"));
        assertTrue(first(events, "cedrat.Unload").getInt("objects") > 0);
    }

    private static RecordedEvent first(List<RecordedEvent> events, String name) {
        return events.stream()
                .filter(event -> event.getEventType().getName().equals(name))
                .findFirst()
                .orElseThrow(() -> new AssertionError("no event " + name));
    }
}
