package cedrat.oracle.tables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;

/// History as clients have seen it, checked for snapshot isolation. **Threads:** any may record.
public final class History {
    /// The reader saw nothing in the row.
    public static final long NOTHING = 0;

    /// A transaction.
    ///
    /// @param begunAt when it was asked for, by [#now]
    /// @param endedAt when its commit was acknowledged
    /// @param commit 0 if it aborted
    /// @param reads for each row the start of whose version it saw
    public record Transaction(
            long begunAt, long endedAt, long start, long commit, Set<String> writes, Map<String, Long> reads) {}

    private final ConcurrentLinkedQueue<Transaction> all = new ConcurrentLinkedQueue<>();
    private final AtomicLong clock = new AtomicLong();

    /// Nothing yet.
    public History() {}

    /// Returns a moment: later than all commits that were acknowledged so far.
    public long now() {
        return clock.incrementAndGet();
    }

    /// Records one.
    public void add(Transaction transaction) {
        all.add(transaction);
    }

    /// Returns the number of recorded transactions that have committed.
    public long committed() {
        return all.stream().filter(each -> each.commit > 0).count();
    }

    /// Returns the number of recorded transactions that have aborted.
    public long aborted() {
        return all.size() - committed();
    }

    /// Returns the number of these that have aborted without a commit to one of their rows since they began:
    /// the oracle had forgotten so many rows meanwhile that it could not exclude one.
    public long abortedAlone(Set<Long> aborted) {
        Map<String, Long> newest = new HashMap<>();
        for (Transaction each : all) {
            each.writes.forEach(row -> newest.merge(row, each.commit, Math::max));
        }
        return all.stream()
                .filter(each -> aborted.contains(each.start))
                .filter(each -> each.writes.stream().noneMatch(row -> newest.get(row) > each.start))
                .count();
    }

    /// Fails if what was recorded is not snapshot isolation.
    public void check() {
        Set<Long> timestamps = new HashSet<>();
        Map<String, TreeMap<Long, Transaction>> writers = new HashMap<>();
        for (Transaction each : all) {
            assertTrue(timestamps.add(each.start), "a timestamp was given out twice");
            if (each.commit > 0 && !each.writes.isEmpty()) {
                assertTrue(timestamps.add(each.commit), "a timestamp was given out twice");
                assertTrue(each.commit > each.start);
                each.writes.forEach(row ->
                        writers.computeIfAbsent(row, none -> new TreeMap<>()).put(each.commit, each));
            }
        }
        writers.forEach((row, commits) -> {
            long last = 0;
            for (Transaction each : commits.values()) {
                assertTrue(last < each.start, () -> "two that overlap have committed row " + row + "; one is " + each);
                last = each.commit;
            }
        });
        for (Transaction each : all) {
            each.reads.forEach((row, seen) -> {
                var newest = writers.getOrDefault(row, new TreeMap<>()).lowerEntry(each.start);
                assertEquals(
                        newest == null ? NOTHING : newest.getValue().start, seen, () -> "row " + row + " of " + each);
            });
        }
        checkTime();
    }

    /// A transaction that begins after a commit was acknowledged begins above it.
    private void checkTime() {
        List<Transaction> begun = new ArrayList<>(all);
        List<Transaction> ended = new ArrayList<>(all);
        begun.sort(Comparator.comparingLong(Transaction::begunAt));
        ended.sort(Comparator.comparingLong(Transaction::endedAt));
        int next = 0;
        long acknowledged = 0;
        for (Transaction each : begun) {
            while (next < ended.size() && ended.get(next).endedAt < each.begunAt) {
                acknowledged = Math.max(acknowledged, ended.get(next++).commit);
            }
            assertTrue(acknowledged < each.start, "a commit was acknowledged and is not seen by " + each);
        }
    }
}
