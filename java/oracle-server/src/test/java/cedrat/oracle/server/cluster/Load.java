package cedrat.oracle.server.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cedrat.oracle.client.AbortReason;
import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.StartTimestamp;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/// Clients that read and write few rows of a table in memory, until they are stopped.
///
/// Some kinds of clients are faulty, to show that the check finds it.
public final class Load implements AutoCloseable {
    private static final int ROWS = 24;
    private static final int FOR_ALL_WHO_WAIT = 1 << 20;

    /// Number of outcomes in one request.
    private static final int RESOLVED_TOGETHER = 1000;

    /// Kinds of clients, by the outcome that they assume for a commit.
    public enum Client {
        /// Takes the answer.
        HEARS,
        /// If it hears nothing for a while, an abort.
        GUESSES
    }

    private static final long A_WHILE_MS = 100;

    private final ClientOptions options;
    private final Client kind;
    private final History history = new History();
    private final Map<Long, Queue<Long>> table = new ConcurrentHashMap<>();
    private final Map<StartTimestamp, Outcome> outcomes = new ConcurrentHashMap<>();
    private final Queue<Throwable> failures = new ConcurrentLinkedQueue<>();
    private final Semaphore committed = new Semaphore(0);
    private final List<Thread> threads = new ArrayList<>();
    private volatile boolean ends;

    public Load(ClientOptions options, int clients) {
        this(options, clients, Client.HEARS);
    }

    public Load(ClientOptions options, int clients, Client kind) {
        this.options = options;
        this.kind = kind;
        for (int number = 0; number < clients; number++) {
            SplittableRandom random = new SplittableRandom(number);
            threads.add(Thread.ofPlatform().daemon().name("client-" + number).start(() -> run(random)));
        }
    }

    /// Waits until so many more have committed.
    public void await(int count) throws InterruptedException {
        committed.acquire(count);
        assertEquals(List.of(), List.copyOf(failures));
    }

    private void run(SplittableRandom random) {
        try (OracleClient oracle = OracleClient.open(options)) {
            while (!ends) {
                transact(oracle, random);
            }
        } catch (Throwable failure) {
            failures.add(failure);
            committed.release(FOR_ALL_WHO_WAIT);
        }
    }

    private void transact(OracleClient oracle, SplittableRandom random) {
        StartTimestamp start = oracle.begin();
        Map<Long, Long> reads = new HashMap<>();
        Set<Long> writes = new HashSet<>();
        for (int count = random.nextInt(3); count > 0; count--) {
            long row = 1 + random.nextLong(ROWS);
            reads.put(row, read(oracle, start, row));
        }
        for (int count = random.nextInt(1, 3); count > 0; count--) {
            writes.add(1 + random.nextLong(ROWS));
        }
        writes.forEach(row -> versions(row).add(start.value()));
        Outcome outcome =
                commit(oracle, start, writes.stream().mapToLong(Long::longValue).toArray());
        outcomes.put(start, outcome);
        if (outcome.kind() == Outcome.Kind.COMMITTED) {
            history.add(new History.Transaction(
                    start.value(), outcome.commitTimestamp().value(), writes, reads));
            committed.release();
        } else {
            assertEquals(Outcome.Kind.ABORTED, outcome.kind());
            writes.forEach(row -> versions(row).remove(start.value()));
            history.add(new History.Transaction(start.value(), 0, writes, reads));
        }
    }

    private Outcome commit(OracleClient oracle, StartTimestamp start, long[] rows) {
        if (kind == Client.HEARS) {
            return oracle.commit(start, rows);
        }
        return oracle.commitAsync(start, rows)
                .completeOnTimeout(Outcome.aborted(AbortReason.UNKNOWN), A_WHILE_MS, TimeUnit.MILLISECONDS)
                .join();
    }

    /// A transaction that another client has begun, and that has written nothing.
    public void began(StartTimestamp start) {
        history.add(new History.Transaction(start.value(), 0, Set.of(), Map.of()));
    }

    private Queue<Long> versions(long row) {
        return table.computeIfAbsent(row, none -> new ConcurrentLinkedQueue<>());
    }

    /// Returns the writer of the version that a transaction sees: the newest commit before it began.
    private long read(OracleClient oracle, StartTimestamp reader, long row) {
        List<StartTimestamp> writers = new ArrayList<>();
        versions(row).forEach(writer -> writers.add(new StartTimestamp(writer)));
        long seen = History.NOTHING;
        long newest = 0;
        if (!writers.isEmpty()) {
            List<Outcome> found = oracle.status(reader, writers);
            for (int index = 0; index < found.size(); index++) {
                assertEquals(false, found.get(index).kind() == Outcome.Kind.UNKNOWN, "nothing is cleaned here");
                Outcome outcome = found.get(index);
                if (outcome.visibleTo(reader) == Outcome.Visibility.TRUE
                        && outcome.commitTimestamp().value() > newest) {
                    newest = outcome.commitTimestamp().value();
                    seen = writers.get(index).value();
                }
            }
        }
        return seen;
    }

    /// Ends, and checks: the clients have seen snapshot isolation, and the outcomes that they received hold.
    public void check(OracleClient oracle) throws InterruptedException {
        end();
        assertEquals(List.of(), List.copyOf(failures));
        history.check();
        List<StartTimestamp> starts = List.copyOf(outcomes.keySet());
        for (int from = 0; from < starts.size(); from += RESOLVED_TOGETHER) {
            Map<StartTimestamp, CompletableFuture<Outcome>> resolved = new HashMap<>();
            starts.subList(from, Math.min(from + RESOLVED_TOGETHER, starts.size()))
                    .forEach(start -> resolved.put(start, oracle.resolveAsync(start)));
            resolved.forEach((start, outcome) -> assertEquals(outcomes.get(start), outcome.join(), "O3: " + start));
        }
    }

    private void end() throws InterruptedException {
        ends = true;
        for (Thread thread : threads) {
            thread.join();
        }
    }

    /// Stops the clients, and does not wait for their end.
    @Override
    public void close() {
        ends = true;
    }
}
