package cedrat.oracle.server.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;

/// History of transactions as clients have seen them, checked for snapshot isolation. **Threads:** any may
/// record.
public final class History {
    /// A transaction that read nothing committed.
    public static final long NOTHING = 0;

    /// A transaction that has ended. `commit` is 0 if it aborted; `reads` is, for each row, the start of
    /// whose version it saw.
    public record Transaction(long start, long commit, Set<Long> writes, Map<Long, Long> reads) {}

    private final ConcurrentLinkedQueue<Transaction> all = new ConcurrentLinkedQueue<>();

    public synchronized void add(Transaction transaction) {
        all.add(transaction);
        notifyAll();
    }

    /// Waits until `count` transactions were recorded.
    public synchronized void await(int count) throws InterruptedException {
        while (all.size() < count) {
            wait();
        }
    }

    public long committed() {
        return all.stream().filter(each -> each.commit > 0).count();
    }

    public long aborted() {
        return all.size() - committed();
    }

    /// Fails if what was recorded is not snapshot isolation.
    public void check() {
        Set<Long> timestamps = new HashSet<>();
        Map<Long, TreeMap<Long, Transaction>> writers = new HashMap<>();
        for (Transaction transaction : all) {
            assertTrue(timestamps.add(transaction.start), "a timestamp was given out twice");
            if (transaction.commit > 0 && !transaction.writes.isEmpty()) {
                assertTrue(timestamps.add(transaction.commit), "a timestamp was given out twice");
                assertTrue(transaction.commit > transaction.start, "committed before it began");
                for (long row : transaction.writes) {
                    writers.computeIfAbsent(row, none -> new TreeMap<>()).put(transaction.commit, transaction);
                }
            }
        }
        writers.forEach((row, commits) -> {
            long before = 0;
            for (Transaction transaction : commits.values()) {
                assertTrue(transaction.start > before, "two transactions that overlap have written row " + row);
                before = transaction.commit;
            }
        });
        for (Transaction transaction : all) {
            transaction.reads.forEach((row, seen) -> {
                Map.Entry<Long, Transaction> newest =
                        writers.getOrDefault(row, new TreeMap<>()).lowerEntry(transaction.start);
                long expected = newest == null ? NOTHING : newest.getValue().start;
                assertEquals(
                        expected, seen, "the transaction that began at " + transaction.start + " reads row " + row);
            });
        }
    }

    /// Returns a transaction that has written one row and seen another transaction's version of it.
    public static Transaction transaction(long start, long commit, long row, long seen) {
        return new Transaction(start, commit, Set.of(row), Map.of(row, seen));
    }

    public static History of(Transaction... transactions) {
        History history = new History();
        history.all.addAll(List.of(transactions));
        return history;
    }
}
