package cedrat.oracle.state;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.state.StatusOracle.Visibility;
import cedrat.oracle.state.Transactions.Spilling;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;

/// Runs the oracle and the model side by side, and fails where they differ.
final class SideBySide {
    /// A transaction in the model.
    static final class ModelTransaction {
        int session;
        boolean isClaimed = true;
        /// [StatusOracle#OPEN], [StatusOracle#ABORTED] or the commit timestamp.
        long outcome = StatusOracle.OPEN;
        /// Cleaned up, or ended: nothing is known of it.
        boolean gone;

        ModelTransaction(int session) {
            this.session = session;
        }
    }

    final Recorded decisions = new Recorded();
    final StatusOracle oracle;
    final SplittableRandom random;
    final int keySpace;
    final TreeMap<Long, ModelTransaction> transactions = new TreeMap<>();
    /// Numbers of the sessions that live.
    final int[] sessions = {1, 2, 3};
    /// The newest timestamp at the end of each session.
    final Map<Integer, Long> leftAt = new HashMap<>();
    /// The marks of the namespaces' newest sweeps.
    final Map<Long, Long> sweptMarks = new HashMap<>();
    /// The newest low-water mark that a pruner has got.
    long prunedBelow = 1;
    final Map<Long, Long> lastCommit = new HashMap<>();
    /// For each value of the lowest bits, the start timestamp that sweeps have forgotten last.
    final Map<Long, Long> lastSwept = new HashMap<>();
    /// The same of keys of tables whose scans are checked.
    final Map<Long, TreeMap<String, Long>> lastWrite = new HashMap<>();
    final Keys written = new Keys();
    final KeyRanges scanned = new KeyRanges();
    /// The ranges that were put into `scanned`.
    final List<Scanned> scans = new ArrayList<>();
    final Rows writes = new Rows();
    final Rows reads = new Rows();

    SideBySide(long seed, int keySpace, Fault fault) {
        this(seed, keySpace, Spilling.never(), fault);
    }

    SideBySide(long seed, int keySpace, Spilling spilling, Fault fault) {
        random = new SplittableRandom(seed);
        this.keySpace = keySpace;
        oracle = new StatusOracle(ConflictMap.ROWS_LOG2_MIN, decisions, spilling, fault);
    }

    void run(int steps) {
        for (int step = 0; step < steps; step++) {
            step();
            long open =
                    transactions.values().stream().filter(each -> isOpen(each)).count();
            assertEquals(open, oracle.open());
            long lowWater = transactions.entrySet().stream()
                    .filter(each -> isOpen(each.getValue()))
                    .mapToLong(Map.Entry::getKey)
                    .min()
                    .orElse(oracle.newest() + 1);
            assertEquals(lowWater, oracle.lowWaterMark(), "T2");
        }
    }

    private static boolean isOpen(ModelTransaction transaction) {
        return !transaction.gone && transaction.outcome == StatusOracle.OPEN;
    }

    private void step() {
        if (transactions.isEmpty() || random.nextInt(3) == 0) {
            int session = session();
            transactions.put(oracle.begin(session), new ModelTransaction(session));
            return;
        }
        long start = some();
        ModelTransaction transaction = transactions.get(start);
        switch (random.nextInt(12)) {
            case 0, 1, 2, 3, 4 -> commit(start, transaction);
            case 5 -> {
                if (isOpen(transaction)) {
                    transaction.outcome = StatusOracle.ABORTED;
                }
                assertEquals(decided(start, transaction), oracle.resolve(start), "S1");
            }
            case 6, 7 -> visible(start, transaction);
            case 8 -> {
                boolean decided = !transaction.gone && !isOpen(transaction);
                assertEquals(decided, oracle.cleaned(start));
                transaction.gone |= decided;
            }
            case 9 -> {
                assertEquals(isOpen(transaction), oracle.end(start));
                transaction.gone |= isOpen(transaction);
            }
            case 10 -> assertEquals(known(transaction), oracle.status(start), "S1");
            default -> {
                switch (random.nextInt(40)) {
                    case 0, 1 -> expire(random.nextInt(sessions.length));
                    case 12 -> {
                        long namespace = random.nextInt(3);
                        oracle.retire(namespace);
                        sweptMarks.remove(namespace);
                    }
                    case 11 -> {
                        long namespace = random.nextInt(3);
                        assertTrue(oracle.use(namespace));
                        sweptMarks.putIfAbsent(namespace, 0L);
                    }
                    case 10 -> {
                        prunedBelow = oracle.prune();
                        assertEquals(oracle.lowWaterMark(), prunedBelow);
                    }
                    case 2, 8 -> unclaim(session());
                    case 9 -> abortUnclaimed(session());
                    case 3, 4, 5 -> swept(random.nextLong(1, oracle.newest() + 1));
                    case 6, 7 -> adopt(start, transaction);
                    default -> {
                        // mostly nothing
                    }
                }
            }
        }
    }

    private int session() {
        return sessions[random.nextInt(sessions.length)];
    }

    /// Returns the answer to an end of a transaction of which nothing is known.
    long endedAgain(long start) {
        return start < prunedBelow ? StatusOracle.ABORTED : start;
    }

    /// Mostly one of the newest, sometimes any.
    long some() {
        long newest = transactions.lastKey();
        long from = random.nextInt(5) == 0 ? 1 : Math.max(1, newest - 30);
        return transactions.floorKey(Math.max(transactions.firstKey(), random.nextLong(from, newest + 1)));
    }

    /// Returns the transactions that the model remembers.
    List<String> remembered() {
        List<String> all = new ArrayList<>();
        transactions.forEach((start, transaction) -> {
            if (!transaction.gone) {
                all.add(start + " " + transaction.outcome);
            }
        });
        return all;
    }

    /// Returns the transactions that an oracle remembers, asked in parts.
    List<String> remembered(StatusOracle of) {
        List<String> all = new ArrayList<>();
        Remembered to = new Remembered() {
            @Override
            public void identified(long identity) {
                assertEquals(oracle.identity(), identity);
            }

            @Override
            public void restored(long generation) {
                assertEquals(of.generation(), generation);
            }

            @Override
            public void used(long namespace) {
                assertTrue(sweptMarks.containsKey(namespace));
            }

            @Override
            public void pruned(long upTo) {
                assertEquals(prunedBelow - 1, upTo);
            }

            @Override
            public void open(long start, long position) {
                all.add(start + " " + StatusOracle.OPEN);
            }

            @Override
            public void committed(Lifetime lifetime) {
                all.add(lifetime.start() + " " + lifetime.commit());
            }

            @Override
            public void aborted(long start) {
                all.add(start + " " + StatusOracle.ABORTED);
            }
        };
        for (long from = 1; from <= of.newest(); ) {
            from = of.tell(from, of.newest(), random.nextInt(1, 50), to);
        }
        return all;
    }

    private static long known(ModelTransaction transaction) {
        return transaction.gone ? StatusOracle.UNKNOWN : transaction.outcome;
    }

    /// Returns the answer to the client of the transaction, also after a sweep.
    private long decided(long start, ModelTransaction transaction) {
        return isSwept(start) ? transaction.outcome : known(transaction);
    }

    /// Whether a sweep has forgotten it so recently that its client still receives the outcome.
    boolean isSwept(long start) {
        return lastSwept.getOrDefault(start % SweptOutcomes.COUNT, 0L) == start;
    }

    private void commit(long start, ModelTransaction transaction) {
        boolean serialisable = fill();
        long before = oracle.newest();
        boolean mayBeForgotten = oracle.forgottenTimestamp() > start;
        if (random.nextBoolean()) {
            oracle.expect(writes);
        }
        fillKeys();
        long answer = oracle.commit(start, writes, reads, written, scanned);
        if (!isOpen(transaction)) {
            boolean nothing = decided(start, transaction) == StatusOracle.UNKNOWN && writes.count() == 0;
            assertEquals(nothing ? endedAgain(start) : decided(start, transaction), answer, "S1, O8");
            return;
        }
        if (writes.count() == 0) {
            assertEquals(start, answer);
            transaction.gone = true;
            return;
        }
        boolean conflict = isNewer(writes, start)
                || serialisable && isNewer(reads, start)
                || scans.stream().anyMatch(scan -> isNewer(scan, start));
        if (answer == StatusOracle.ABORTED) {
            assertTrue(conflict || mayBeForgotten, "aborted for nothing: " + start);
        } else {
            assertTrue(!conflict, "S3: " + start + " committed over " + lastCommit);
            assertEquals(before + 1, answer);
            for (int at = 0; at < writes.count(); at++) {
                lastCommit.put(writes.get(at), answer);
            }
            for (int at = 0; at < written.count(); at++) {
                lastWrite
                        .computeIfAbsent(written.table(at), none -> new TreeMap<>())
                        .put(new String(written.bytes(), written.begin(at), written.length(at)), answer);
            }
        }
        transaction.outcome = answer;
    }

    /// Rows to write and to read; `true` if reads are to be looked at.
    boolean fill() {
        writes.clear();
        reads.clear();
        for (int count = random.nextInt(6); count > 0; count--) {
            writes.add(random.nextInt(keySpace));
        }
        boolean serialisable = random.nextInt(4) == 0;
        for (int count = serialisable ? random.nextInt(6) : 0; count > 0; count--) {
            reads.add(random.nextInt(keySpace));
        }
        return serialisable;
    }

    /// Of each row that is written, its key, if its table is one whose scans are checked; and now and
    /// then ranges.
    void fillKeys() {
        written.clear();
        scanned.clear();
        scans.clear();
        for (int at = 0; at < writes.count(); at++) {
            if (writes.get(at) % 3 != 0) {
                byte[] key = Long.toString(writes.get(at)).getBytes();
                written.add(writes.get(at) % 3, key, 0, key.length);
            }
        }
        for (int count = random.nextInt(4) == 0 ? random.nextInt(4) : 0; count > 0; count--) {
            String from = Integer.toString(random.nextInt(keySpace));
            String to = random.nextInt(5) == 0 ? "" : from + random.nextInt(10);
            byte[] both = (from + to).getBytes();
            long table = random.nextLong(1, 3);
            scanned.add(table, both, 0, from.length(), from.length(), to.length());
            scans.add(new Scanned(table, from, to));
        }
    }

    private record Scanned(long table, String from, String to) {}

    private boolean isNewer(Scanned scan, long start) {
        TreeMap<String, Long> written = lastWrite.getOrDefault(scan.table, new TreeMap<>());
        return (scan.to.isEmpty() ? written.tailMap(scan.from) : written.subMap(scan.from, scan.to))
                .values().stream().anyMatch(commit -> commit > start);
    }

    private boolean isNewer(Rows rows, long start) {
        for (int at = 0; at < rows.count(); at++) {
            if (lastCommit.getOrDefault(rows.get(at), 0L) > start) {
                return true;
            }
        }
        return false;
    }

    private void visible(long writer, ModelTransaction transaction) {
        long reader = random.nextLong(1, oracle.newest() + 1);
        Visibility expected = Visibility.RETRY;
        if (!transaction.gone) {
            boolean before = transaction.outcome > 0 && transaction.outcome < reader;
            expected = before ? Visibility.TRUE : Visibility.FALSE;
        }
        assertEquals(expected, oracle.isCommitted(writer, reader));
    }

    private void expire(int at) {
        int session = sessions[at];
        assertEquals(abortOpen(session, true), oracle.expire(session));
        leftAt.put(session, oracle.newest());
        sessions[at] = sessions.length + leftAt.size();
    }

    private int abortOpen(int session, boolean isClaimed) {
        int count = 0;
        for (ModelTransaction transaction : transactions.values()) {
            if (isOpen(transaction) && transaction.session == session && (isClaimed || !transaction.isClaimed)) {
                transaction.outcome = StatusOracle.ABORTED;
                count++;
            }
        }
        return count;
    }

    private void unclaim(int session) {
        for (ModelTransaction transaction : transactions.values()) {
            transaction.isClaimed &= transaction.session != session;
        }
        oracle.unclaim(session);
    }

    private void abortUnclaimed(int session) {
        assertEquals(abortOpen(session, false), oracle.abortUnclaimed(session));
    }

    private void adopt(long start, ModelTransaction transaction) {
        if (!transaction.gone) {
            transaction.session = session();
            transaction.isClaimed = true;
            oracle.adopt(start, transaction.session);
            assertEquals(transaction.session, oracle.session(start));
            assertFalse(oracle.isLeft(start));
        }
    }

    private void swept(long mark) {
        long namespace =
                sweptMarks.isEmpty() ? 7 : List.copyOf(sweptMarks.keySet()).get(random.nextInt(sweptMarks.size()));
        sweptMarks.computeIfPresent(namespace, (same, before) -> Math.max(before, mark));
        long since = sweptMarks.isEmpty() ? mark : Math.min(mark, Collections.min(sweptMarks.values()));
        long expected = 0;
        for (Map.Entry<Long, ModelTransaction> each :
                transactions.headMap(mark, true).entrySet()) {
            ModelTransaction transaction = each.getValue();
            if (!transaction.gone && leftAt.getOrDefault(transaction.session, since) < since) {
                assertFalse(isOpen(transaction));
                assertTrue(oracle.isLeft(each.getKey()));
                transaction.gone = true;
                lastSwept.put(each.getKey() % SweptOutcomes.COUNT, each.getKey());
                expected++;
            }
        }
        long forgotten = 0;
        long from = 1;
        while (from <= mark) {
            StatusOracle.Swept part = oracle.swept(namespace, mark, from, random.nextInt(1, 100));
            forgotten += part.forgotten();
            from = part.next();
        }
        assertEquals(expected, forgotten, "O4");
    }
}
