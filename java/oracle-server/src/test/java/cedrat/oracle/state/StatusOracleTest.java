package cedrat.oracle.state;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.state.StatusOracle.Visibility;
import cedrat.oracle.state.Transactions.Spilling;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.LongStream;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.LongRange;
import org.junit.jupiter.api.Test;

/// The oracle beside a model that forgets nothing.
class StatusOracleTest {
    private static final int STEPS = 4_000;

    /// Pages in memory, of which each is read, and freed once, as it was put.
    private static final class Pages implements PageStore {
        final Map<Long, byte[]> all = new HashMap<>();
        private long newest;

        /// Pages of eight transactions, of which two are in memory: something is spilled or read all the
        /// time.
        Spilling tiny() {
            return new Spilling(this, 0, 3);
        }

        @Override
        public long put(byte[] bytes, int length) {
            all.put(++newest, Arrays.copyOf(bytes, length));
            return newest;
        }

        @Override
        public void get(long place, byte[] bytes, int length) {
            assertEquals(all.get(place).length, length);
            Arrays.fill(bytes, (byte) 1);
            System.arraycopy(all.get(place), 0, bytes, 0, length);
        }

        @Override
        public void free(long place, int length) {
            assertEquals(all.remove(place).length, length);
        }
    }

    /// O2, T3: where outcomes are changes nothing.
    @Property(tries = 40)
    void whatIsSpilledIsAnsweredAsWhatIsNot(
            @ForAll @LongRange(min = 1) long seed, @ForAll @IntRange(min = 2, max = 3_000) int keySpace) {
        Pages pages = new Pages();
        SideBySide both = new SideBySide(seed, keySpace, pages.tiny(), Fault.NONE);
        both.run(STEPS);
        assertTrue(both.oracle.spilledReads() > STEPS / 40, "reads: " + both.oracle.spilledReads());
        assertEquals(
                pages.all.values().stream().mapToLong(bytes -> bytes.length).sum(), both.oracle.spilledBytes());
        assertEquals(both.remembered(both.oracle), both.remembered());
        // From the decisions alone, and from a snapshot, the same oracle is made, which spills as well.
        Pages others = new Pages();
        StatusOracle again = new StatusOracle(ConflictMap.ROWS_LOG2_MIN, new NoDecisions(), others.tiny(), Fault.NONE);
        Decisions replay = again.replay();
        both.decisions.all.forEach(decision -> decision.accept(replay));
        again.replayGivenOut(both.oracle.newest());
        assertEquals(both.remembered(), both.remembered(again));
        Remembered restored = again.restore(both.oracle.newest(), both.oracle.position(), both.oracle.newestCommit());
        assertEquals(Map.of(), others.all, "what was spilled before is of no use");
        for (long from = 1; from <= both.oracle.newest(); ) {
            from = both.oracle.tell(from, both.oracle.newest(), 100, restored);
        }
        again.restored(both.oracle.newest() + 1);
        assertEquals(both.remembered(), both.remembered(again));
        assertEquals(both.oracle.lowWaterMark(), again.lowWaterMark());
        for (long start : both.transactions.keySet()) {
            assertEquals(both.oracle.status(start), again.status(start));
        }
        // When all is cleaned up, nothing is left anywhere.
        again.expire(StatusOracle.NO_SESSION);
        both.transactions.keySet().forEach(again::cleaned);
        assertEquals(0, again.halfAborted() + again.halfCommitted() + again.open());
        assertEquals(Map.of(), others.all);
        assertEquals(0, again.spilledBytes());
    }

    /// O2: however many outcomes there are, memory has what it may have.
    @Test
    void memoryOfOutcomesIsBounded() {
        Pages pages = new Pages();
        long bound = 10 * Page.bytesMax(1 << Transactions.PAGE_SHIFT);
        StatusOracle oracle = new StatusOracle(ConflictMap.ROWS_LOG2_MIN, new NoDecisions(), bound, pages);
        long early = oracle.begin(7);
        for (int count = 0; count < 1_000_000; count++) {
            oracle.resolve(oracle.begin(1 + count % 100));
        }
        assertTrue(oracle.transactionBytes() <= bound, oracle.transactionBytes() + " bytes");
        assertTrue(oracle.spilledOutcomes() > 900_000, oracle.spilledOutcomes() + " outcomes");
        assertEquals(1_000_000, oracle.halfAborted());
        assertEquals(early, oracle.lowWaterMark());
        assertEquals(StatusOracle.ABORTED, oracle.status(early + 1));
        assertEquals(StatusOracle.OPEN, oracle.status(early));
        assertEquals(1, oracle.expire(7));
        long mark = oracle.begin(200);
        long forgotten = 0;
        for (long from = 1; from <= mark; ) {
            StatusOracle.Swept part = oracle.swept(StatusOracle.UNNAMED, mark, from, 100_000);
            forgotten += part.forgotten();
            from = part.next();
        }
        assertEquals(10_001, forgotten, "all of the session, wherever they were");
        oracle.end(mark);
        for (long start = early; start <= oracle.newest(); start++) {
            oracle.cleaned(start);
        }
        assertEquals(0, oracle.halfAborted());
        assertEquals(Map.of(), pages.all);
    }

    /// O2: the end of a session, and its return, read no outcome, however many there are.
    @Test
    void endOfSessionReadsNoOutcome() {
        Pages pages = new Pages();
        StatusOracle oracle = new StatusOracle(ConflictMap.ROWS_LOG2_MIN, new NoDecisions(), pages.tiny(), Fault.NONE);
        long early = oracle.begin(3);
        for (int session = 1; session <= 20; session++) {
            for (int count = 0; count < 80; count++) {
                oracle.resolve(oracle.begin(session));
            }
        }
        long lost = oracle.begin(3);
        long before = oracle.spilledReads();
        oracle.unclaim(3);
        oracle.adopt(early, 3);
        assertEquals(1, oracle.abortUnclaimed(3));
        assertEquals(StatusOracle.ABORTED, oracle.status(lost));
        assertEquals(1, oracle.expire(3));
        assertEquals(before, oracle.spilledReads(), "no page of outcomes was read");
        long mark = oracle.begin(30);
        long forgotten = 0;
        for (long from = 1; from <= mark; ) {
            StatusOracle.Swept part = oracle.swept(StatusOracle.UNNAMED, mark, from, 1000);
            forgotten += part.forgotten();
            from = part.next();
        }
        assertEquals(82, forgotten);
        assertEquals(19 * 80, oracle.halfAborted());
    }

    /// O1, O9.
    @Property(tries = 40)
    void itDecidesAsAModelThatForgetsNothing(
            @ForAll @LongRange(min = 1) long seed, @ForAll @IntRange(min = 2, max = 3_000) int keySpace) {
        new SideBySide(seed, keySpace, Fault.NONE).run(STEPS);
    }

    /// O5, S5: from its decisions alone the oracle comes back, and goes on deciding the same.
    @Property(tries = 20)
    void replayedDecisionsRebuildTheOracle(
            @ForAll @LongRange(min = 1) long seed, @ForAll @IntRange(min = 2, max = 3_000) int keySpace) {
        SideBySide both = new SideBySide(seed, keySpace, Fault.NONE);
        StatusOracle again = new StatusOracle(ConflictMap.ROWS_LOG2_MIN, new Recorded());
        both.run(STEPS);
        Decisions replay = again.replay();
        both.decisions.all.forEach(decision -> decision.accept(replay));
        again.replayGivenOut(both.oracle.newest());
        assertEquals(both.oracle.newest(), again.newest());
        assertEquals(both.oracle.lowWaterMark(), again.lowWaterMark());
        assertEquals(both.oracle.forgottenTimestamp(), again.forgottenTimestamp());
        for (long start : both.transactions.keySet()) {
            assertEquals(both.oracle.status(start), again.status(start));
        }
        for (int step = 0; step < STEPS; step++) {
            long start = step % 3 == 0 ? both.oracle.begin(1) : both.some();
            if (step % 3 == 0) {
                both.transactions.put(start, new SideBySide.ModelTransaction(1));
                assertEquals(start, again.begin(1));
            }
            both.fill();
            both.fillKeys();
            long answer = both.oracle.commit(start, both.writes, both.reads, both.written, both.scanned);
            if (both.isSwept(start)) { // only the oracle that was swept still knows the outcome
                answer = both.writes.count() == 0 ? both.endedAgain(start) : StatusOracle.UNKNOWN;
            }
            assertEquals(answer, again.commit(start, both.writes, both.reads, both.written, both.scanned));
        }
    }

    /// The model would have noticed.
    @Test
    void plantedFaultsAreFound() {
        for (Fault fault : Fault.values()) {
            if (fault != Fault.NONE) {
                assertThrows(
                        AssertionError.class,
                        () -> {
                            for (long seed = 1; seed <= 20; seed++) {
                                new SideBySide(seed, 1_000, fault).run(STEPS);
                            }
                        },
                        fault.name());
            }
        }
    }

    /// O8: a hundred million transactions that only read would leave no trace; here a few hundred thousand.
    @Test
    void transactionsThatOnlyReadLeaveNothing() {
        StatusOracle oracle = new StatusOracle(ConflictMap.ROWS_LOG2_MIN, new Recorded() {
            @Override
            public void ended(long start) {}
        });
        for (int count = 0; count < 300_000; count++) {
            oracle.end(oracle.begin(1));
        }
        assertEquals(0, oracle.open());
        assertEquals(oracle.newest() + 1, oracle.lowWaterMark());
    }

    /// O8: nor does it take memory, with a thousand open at a time. `./x soak` begins more of them.
    @Test
    void readOnlyTransactionsUseConstantMemory() {
        StatusOracle oracle = new StatusOracle(ConflictMap.ROWS_LOG2_MIN, new Recorded() {
            @Override
            public void ended(long start) {}
        });
        long atFirst = 0;
        int all = Integer.getInteger("cedrat.transactions", 20_000_000);
        for (int count = 0; count < all; count++) {
            long start = oracle.begin(1);
            if (start > 1_000) {
                assertTrue(oracle.end(start - 1_000));
            }
            atFirst = count == 200_000 ? oracle.transactionBytes() : atFirst;
        }
        assertEquals(1_000, oracle.open());
        assertEquals(atFirst, oracle.transactionBytes());
        assertTrue(atFirst < 1 << 20, "it takes " + atFirst + " bytes");
    }

    /// O5.
    /// Reports in parts are the same as one report, however few of many transactions are remembered.
    @Test
    void outcomesAreListedInParts() {
        StatusOracle oracle = oracle();
        List<String> expected = new ArrayList<>();
        for (int count = 0; count < 3_000_000; count++) {
            long start = oracle.begin(1);
            if (count % 50_000 == 7 || count < 10) {
                oracle.resolve(start);
                expected.add("aborted " + start);
            } else {
                oracle.end(start);
            }
        }
        long open = oracle.begin(1);
        expected.add("open " + open + " at 0");
        long from = 1;
        List<String> reported = new ArrayList<>();
        int parts = 0;
        for (; from <= oracle.newest(); parts++) {
            int before = reported.size();
            from = oracle.tell(from, oracle.newest(), 3, remembering(reported));
            assertTrue(reported.size() <= before + 3);
            assertTrue(parts > 0 || reported.size() == 3, "the first ten are neighbours");
        }
        assertEquals(expected, reported);
        assertEquals(oracle.newest() + 1, from);
        assertTrue(parts < 100, parts + " parts");
        long part = oracle.tell(1, oracle.newest(), 1_000, remembering(new ArrayList<>()));
        assertTrue(part < oracle.newest() / 4, "a part looks at " + part);
        assertEquals(open, oracle.tell(open - 5, open - 1, 3, remembering(reported)));
        assertEquals(expected, reported);
    }

    /// O5: the oracle went on while the parts were written, and so what is young is known before what is old.
    @Test
    void oldOutcomesAreRestoredBehindNewerOnes() {
        StatusOracle oracle = oracle();
        long newest = 1_000_000;
        Remembered restored = oracle.restore(newest, 0, 0);
        oracle.restored(5);
        oracle.replay().aborted(7); // its part comes later, and knows
        oracle.replayGivenOut(newest + 10);
        assertEquals(newest + 1, oracle.lowWaterMark());
        for (long start = 7; start <= newest; start += 30_000) {
            restored.aborted(start);
            restored.open(start + 1, 0);
        }
        oracle.restored(newest + 1);
        assertEquals(8, oracle.lowWaterMark());
        assertEquals(34, oracle.halfAborted());
        assertEquals(44, oracle.open());
        for (long start = 7; start <= newest; start += 30_000) {
            assertEquals(StatusOracle.ABORTED, oracle.status(start));
            assertEquals(StatusOracle.OPEN, oracle.status(start + 1));
        }
        long known = LongStream.rangeClosed(1, newest + 10)
                .filter(start -> oracle.status(start) != StatusOracle.UNKNOWN)
                .count();
        assertEquals(34 * 2 + 10, known, "pages are not mixed up");
        for (long start = newest + 1; start <= newest + 10; start++) {
            assertEquals(StatusOracle.OPEN, oracle.status(start));
        }
    }

    /// O2: the same where pages were spilled since a part that ended within one: the next part joins it.
    @Test
    void oldOutcomesAreRestoredIntoSpilledPages() {
        Pages pages = new Pages();
        StatusOracle oracle = new StatusOracle(ConflictMap.ROWS_LOG2_MIN, new NoDecisions(), pages.tiny(), Fault.NONE);
        long newest = 100;
        Remembered restored = oracle.restore(newest, 0, 0);
        for (long start = 1; start <= newest; start++) {
            restored.committed(new Lifetime(start, 1000 + start));
            if (start % 11 == 0) { // the end of a part; then comes what was decided before the next one
                oracle.restored(start + 1);
                for (int count = 0; count < 30; count++) {
                    oracle.replay().aborted(oracle.newest() + 1);
                }
                assertTrue(oracle.spilledOutcomes() > 0);
            }
        }
        oracle.restored(newest + 1);
        assertEquals(newest, oracle.halfCommitted());
        assertEquals(oracle.newest() - newest, oracle.halfAborted());
        for (long start = 1; start <= oracle.newest(); start++) {
            assertEquals(start <= newest ? 1000 + start : StatusOracle.ABORTED, oracle.status(start));
            oracle.cleaned(start);
        }
        assertEquals(Map.of(), pages.all);
    }

    private static Remembered remembering(List<String> reported) {
        return new Remembered() {
            @Override
            public void identified(long identity) {
                reported.add("identified " + identity);
            }

            @Override
            public void restored(long generation) {
                reported.add("restored " + generation);
            }

            @Override
            public void used(long namespace) {
                reported.add("used " + namespace);
            }

            @Override
            public void pruned(long upTo) {
                throw new AssertionError("no pruner has asked");
            }

            @Override
            public void open(long start, long position) {
                reported.add("open " + start + " at " + position);
            }

            @Override
            public void committed(Lifetime lifetime) {
                reported.add("committed " + lifetime.start() + " at " + lifetime.commit());
            }

            @Override
            public void aborted(long start) {
                reported.add("aborted " + start);
            }
        };
    }

    /// O1 and O3: a commit that is sent again hears the same, and does not conflict with itself.
    @Test
    void resentCommitGetsSameOutcome() {
        StatusOracle oracle = new StatusOracle(ConflictMap.ROWS_LOG2_MIN, new Recorded());
        Rows rows = new Rows();
        rows.add(5);
        long start = oracle.begin(1);
        long other = oracle.begin(2);
        long commit = oracle.commit(start, rows, new Rows());
        assertEquals(commit, oracle.commit(start, rows, new Rows()));
        assertEquals(commit, oracle.resolve(start));
        assertEquals(StatusOracle.ABORTED, oracle.commit(other, rows, new Rows()));
        assertEquals(StatusOracle.ABORTED, oracle.commit(other, rows, new Rows()));
        assertEquals(StatusOracle.UNKNOWN, oracle.commit(99, rows, new Rows()));
        assertTrue(oracle.cleaned(start));
        assertEquals(StatusOracle.UNKNOWN, oracle.commit(start, rows, new Rows()));
    }

    private static StatusOracle oracle() {
        return new StatusOracle(ConflictMap.ROWS_LOG2_MIN, new Recorded());
    }

    private static Rows rows(long... ids) {
        Rows rows = new Rows();
        for (long id : ids) {
            rows.add(id);
        }
        return rows;
    }

    /// Commits so many other rows that all before them are forgotten.
    private static void forgetRows(StatusOracle oracle) {
        for (long row = 1; row <= 2 * oracle.window(); row++) {
            long start = oracle.begin(9);
            assertTrue(oracle.commit(start, rows(1_000_000 + row), rows()) > start);
            oracle.cleaned(start);
        }
    }

    /// O1: the paper would count it among the half-aborted ones from then on.
    @Test
    void openTransactionOlderThanTmaxStaysOpen() {
        StatusOracle oracle = oracle();
        long start = oracle.begin(1);
        forgetRows(oracle);
        assertTrue(oracle.forgottenTimestamp() > start);
        assertEquals(StatusOracle.OPEN, oracle.status(start));
        assertEquals(0, oracle.halfAborted());
        assertEquals(Visibility.FALSE, oracle.isCommitted(start, oracle.begin(2)));
        assertEquals(StatusOracle.ABORTED, oracle.commit(start, rows(7), rows()));
        assertEquals(1, oracle.halfAborted());
    }

    /// O2: and a second read of the same version hears true or false.
    @Test
    void outcomesOutliveTheRows() {
        StatusOracle oracle = oracle();
        long start = oracle.begin(1);
        long commit = oracle.commit(start, rows(7), rows());
        forgetRows(oracle);
        long reader = oracle.begin(2);
        assertEquals(Visibility.TRUE, oracle.isCommitted(start, reader));
        assertEquals(Visibility.TRUE, oracle.isCommitted(start, reader));
        assertEquals(commit, oracle.status(start));
        oracle.cleaned(start);
        assertEquals(Visibility.RETRY, oracle.isCommitted(start, reader));
    }

    /// O3.
    @Test
    void aLateCommitLosesAgainstResolve() {
        StatusOracle oracle = oracle();
        long start = oracle.begin(1);
        assertEquals(StatusOracle.ABORTED, oracle.resolve(start));
        assertEquals(StatusOracle.ABORTED, oracle.commit(start, rows(7), rows()));
        long other = oracle.begin(1);
        long commit = oracle.commit(other, rows(7), rows());
        assertEquals(commit, oracle.resolve(other));
    }

    /// O4.
    @Test
    void abortedTransactionIsKnownUntilCleaned() {
        StatusOracle oracle = oracle();
        long start = oracle.begin(1);
        assertFalse(oracle.cleaned(start), "it is open");
        assertEquals(1, oracle.expire(1));
        forgetRows(oracle);
        assertEquals(StatusOracle.ABORTED, oracle.status(start));
        assertEquals(Visibility.FALSE, oracle.isCommitted(start, oracle.begin(2)));
        assertTrue(oracle.cleaned(start));
        assertEquals(StatusOracle.UNKNOWN, oracle.status(start));
    }

    /// O8c: its session has expired, its snapshot was pruned, and a sweep has made the oracle forget its
    /// abort.
    @Test
    void readerOfPrunedSnapshotDoesNotCommit() {
        Recorded decisions = new Recorded();
        StatusOracle oracle = new StatusOracle(ConflictMap.ROWS_LOG2_MIN, decisions);
        long reader = oracle.begin(1);
        long ended = oracle.begin(2);
        assertEquals(ended, oracle.commit(ended, rows(), rows()));
        assertEquals(ended, oracle.commit(ended, rows(), rows()), "asked again, before any pruning");
        oracle.commit(oracle.begin(2), rows(7), rows());
        assertEquals(1, oracle.expire(1));
        long mark = oracle.prune();
        assertTrue(mark > reader);
        assertEquals(
                1, oracle.swept(StatusOracle.UNNAMED, oracle.begin(2), 1, 100).forgotten());
        StatusOracle again = new StatusOracle(ConflictMap.ROWS_LOG2_MIN, new NoDecisions());
        Decisions replay = again.replay();
        decisions.all.forEach(decision -> decision.accept(replay));
        for (StatusOracle each : List.of(oracle, again)) {
            assertEquals(StatusOracle.UNKNOWN, each.status(reader));
            assertEquals(StatusOracle.ABORTED, each.commit(reader, rows(), rows()));
            assertFalse(each.end(reader));
        }
        long later = oracle.begin(2);
        assertEquals(later, oracle.commit(later, rows(), rows()));
        assertEquals(later, oracle.commit(later, rows(), rows()));
    }

    private static Keys keys(long table, String... all) {
        Keys keys = new Keys();
        for (String key : all) {
            keys.add(table, key.getBytes(), 0, key.length());
        }
        return keys;
    }

    private static KeyRanges range(long table, String from, String to) {
        KeyRanges ranges = new KeyRanges();
        ranges.add(table, (from + to).getBytes(), 0, from.length(), from.length(), to.length());
        return ranges;
    }

    /// Each reason is counted once for each transaction that it has aborted.
    @Test
    void abortsAreCountedByTheirReasons() {
        StatusOracle oracle = oracle();
        long conflict = oracle.begin(1);
        long forgotten = oracle.begin(1);
        long scan = oracle.begin(1);
        long resolved = oracle.begin(1);
        oracle.begin(2);
        oracle.end(oracle.begin(1));
        oracle.commit(oracle.begin(1), rows(7), rows(), keys(1, "k"), new KeyRanges());
        oracle.commit(conflict, rows(7), rows());
        oracle.commit(conflict, rows(7), rows());
        oracle.commit(scan, rows(8), rows(), new Keys(), range(1, "", ""));
        oracle.resolve(resolved);
        oracle.expire(2);
        for (AbortReason reason : AbortReason.values()) {
            assertEquals(reason == AbortReason.FORGOTTEN ? 0 : 1, oracle.aborts(reason), reason.name());
        }
        assertEquals(7, oracle.begun());
        assertEquals(1, oracle.committed());
        assertEquals(1, oracle.ended());
        forgetRows(oracle);
        oracle.commit(forgotten, rows(9), rows());
        assertEquals(1, oracle.aborts(AbortReason.FORGOTTEN));
        assertEquals(1, oracle.aborts(AbortReason.CONFLICT));
    }

    /// O9: a key that was not there is a conflict, in its table and range.
    @Test
    void aPhantomAborts() {
        StatusOracle oracle = oracle();
        Keys none = new Keys();
        for (int kind = 0; kind < 6; kind++) {
            long start = oracle.begin(1);
            long other = oracle.begin(2);
            assertTrue(oracle.commit(other, rows(kind), rows(), keys(7, "m" + kind), new KeyRanges()) > 0);
            KeyRanges ranges =
                    switch (kind) {
                        case 0 -> range(7, "m0", "m00");
                        case 1 -> range(7, "", "");
                        case 2 -> range(7, "m", "n");
                        case 3 -> range(7, "m", "m3"); // ends before it
                        case 4 -> range(7, "m40", ""); // begins behind it
                        default -> range(8, "", "");
                    };
            long outcome = oracle.commit(start, rows(100 + kind), rows(), none, ranges);
            assertEquals(kind < 3, outcome == StatusOracle.ABORTED, "range " + kind);
            long later = oracle.begin(1);
            assertTrue(oracle.commit(later, rows(200 + kind), rows(), none, range(7, "", "")) > 0, "committed before");
        }
        assertEquals(6, oracle.keys());
    }

    /// O9: ranges have a T_max of their own.
    @Test
    void scanAbortsWhenKeysMayBeForgotten() {
        StatusOracle oracle = oracle();
        long first = oracle.begin(1);
        long second = oracle.begin(1);
        oracle.commit(oracle.begin(2), rows(1), rows(), keys(7, "k".repeat(10_000)), new KeyRanges());
        assertTrue(oracle.commit(first, rows(2), rows(), new Keys(), range(7, "a", "b")) > 0);
        oracle.commit(oracle.begin(2), rows(3), rows(), keys(7, "k".repeat(10_000)), new KeyRanges());
        assertEquals(1, oracle.keys(), "256 keys have 16 KB");
        assertEquals(StatusOracle.ABORTED, oracle.commit(second, rows(4), rows(), new Keys(), range(7, "a", "b")));
        long third = oracle.begin(1);
        oracle.commit(oracle.begin(2), rows(5), rows(), keys(7, "k".repeat(20_000)), new KeyRanges());
        assertEquals(0, oracle.keys(), "which does not fit at all");
        assertEquals(StatusOracle.ABORTED, oracle.commit(third, rows(6), rows(), new Keys(), range(7, "a", "b")));
        long fourth = oracle.begin(1);
        assertTrue(oracle.commit(fourth, rows(7), rows(), new Keys(), range(7, "", "")) > 0);
    }

    /// O4: transactions that expired sessions leave behind are forgotten by a sweep that began afterwards, and
    /// by no other. Transactions of live sessions, and those that a returning client adopts, stay.
    @Test
    void sweepForgetsOnlyTransactionsLeftBeforeIt() {
        StatusOracle oracle = oracle();
        long aborted = oracle.begin(1);
        long committed = oracle.begin(1);
        long cameBack = oracle.begin(1);
        long alive = oracle.begin(2);
        oracle.commit(committed, rows(7), rows());
        oracle.resolve(alive);
        long early = oracle.begin(3);
        assertEquals(2, oracle.expire(1));
        long mark = oracle.begin(3);
        oracle.end(early);
        oracle.end(mark);
        oracle.adopt(cameBack, 4);
        assertEquals(new StatusOracle.Swept(0, early + 1), oracle.swept(StatusOracle.UNNAMED, early, 1, 100));
        assertEquals(StatusOracle.ABORTED, oracle.status(aborted), "the sweep may have passed its rows before");
        assertEquals(new StatusOracle.Swept(1, committed), oracle.swept(StatusOracle.UNNAMED, mark, 1, 1));
        assertEquals(new StatusOracle.Swept(1, mark + 1), oracle.swept(StatusOracle.UNNAMED, mark, committed, 100));
        assertEquals(StatusOracle.UNKNOWN, oracle.status(aborted));
        assertEquals(StatusOracle.UNKNOWN, oracle.status(committed));
        // Readers no longer receive the outcomes, but returning clients do.
        long commit = mark - 2;
        assertEquals(commit, oracle.commit(committed, rows(7), rows()), "O3");
        assertEquals(commit, oracle.resolve(committed));
        assertEquals(StatusOracle.ABORTED, oracle.commit(aborted, rows(8), rows()), "O3");
        assertEquals(AbortReason.EXPIRED, oracle.abortReason(aborted));
        assertEquals(StatusOracle.ABORTED, oracle.status(cameBack));
        assertEquals(StatusOracle.ABORTED, oracle.status(alive));
        assertEquals(2, oracle.halfAborted());
        assertEquals(0, oracle.halfCommitted());
    }

    /// O4f: rows of a transaction may lie in any namespace, so all have to be swept.
    @Test
    void sweepForgetsWhatAllNamespacesHaveSwept() {
        Recorded decisions = new Recorded();
        StatusOracle oracle = new StatusOracle(ConflictMap.ROWS_LOG2_MIN, decisions);
        assertTrue(oracle.use(5));
        assertTrue(oracle.use(6));
        long committed = oracle.begin(1);
        long commit = oracle.commit(committed, rows(7), rows());
        oracle.expire(1);
        assertEquals(0, oracle.swept(5, oracle.begin(2), 1, 100).forgotten(), "6 was never swept");
        assertEquals(commit, oracle.status(committed));
        StatusOracle again = new StatusOracle(ConflictMap.ROWS_LOG2_MIN, new NoDecisions());
        Decisions replay = again.replay();
        decisions.all.forEach(decision -> decision.accept(replay));
        assertEquals(2, again.namespaces());
        again.expire(StatusOracle.NO_SESSION);
        again.begin(1);
        assertEquals(0, again.swept(6, again.begin(1), 1, 100).forgotten(), "5 was not swept since");
        assertTrue(again.swept(5, again.begin(1), 1, 100).forgotten() > 0);
        assertEquals(StatusOracle.UNKNOWN, again.status(committed));
    }

    /// O4f: a namespace that ends with its sessions holds nothing back afterwards, and no log keeps it.
    @Test
    void volatileNamespaceEndsWithItsSessions() {
        Recorded decisions = new Recorded();
        StatusOracle oracle = new StatusOracle(ConflictMap.ROWS_LOG2_MIN, decisions);
        assertTrue(oracle.use(5));
        assertTrue(oracle.useWhileOpen(6));
        assertTrue(oracle.useWhileOpen(6));
        long committed = oracle.begin(1);
        oracle.commit(committed, rows(7), rows());
        oracle.expire(1);
        oracle.release(6);
        assertEquals(0, oracle.swept(5, oracle.begin(2), 1, 100).forgotten(), "another session uses it");
        oracle.release(6);
        oracle.release(6);
        assertEquals(1, oracle.swept(5, oracle.begin(2), 1, 100).forgotten());
        assertTrue(oracle.useWhileOpen(5));
        oracle.release(5);
        assertTrue(oracle.useWhileOpen(7));
        assertTrue(oracle.use(7));
        oracle.release(7);
        assertEquals(2, oracle.namespaces(), "those that a client has registered durably stay");
        assertTrue(oracle.use(8));
        oracle.retire(8);
        oracle.retire(8);
        assertTrue(oracle.useWhileOpen(9));
        oracle.retire(9);
        assertEquals(3, oracle.namespaces(), "one that ends with its sessions is not retired");
        oracle.release(9);
        StatusOracle again = new StatusOracle(ConflictMap.ROWS_LOG2_MIN, new NoDecisions());
        Decisions replay = again.replay();
        decisions.all.forEach(decision -> decision.accept(replay));
        assertEquals(2, again.namespaces());
    }

    /// A hostile client cannot make the oracle remember an unlimited number of namespaces.
    @Test
    void namespacesAreLimited() {
        StatusOracle oracle = oracle();
        for (long namespace = 1; namespace <= StatusOracle.NAMESPACES_MAX; namespace++) {
            assertTrue(oracle.use(namespace));
        }
        assertFalse(oracle.use(-1));
        assertFalse(oracle.useWhileOpen(-1));
        assertTrue(oracle.use(1));
        assertTrue(oracle.use(StatusOracle.UNNAMED));
        assertFalse(oracle.use(-1));
        assertEquals(StatusOracle.NAMESPACES_MAX + 1, oracle.namespaces());
    }

    /// O4: those of before a recovery are left when those who could have come back have had their time.
    @Test
    void recoveredOracleSweepsUnclaimedTransactions() {
        StatusOracle oracle = oracle();
        Decisions replay = oracle.replay();
        replay.aborted(3);
        oracle.replayGivenOut(10);
        long early = oracle.begin(1);
        assertEquals(0, oracle.swept(StatusOracle.UNNAMED, early, 1, 100).forgotten());
        assertEquals(9, oracle.expire(StatusOracle.NO_SESSION));
        assertEquals(0, oracle.swept(StatusOracle.UNNAMED, early, 1, 100).forgotten());
        assertEquals(
                10, oracle.swept(StatusOracle.UNNAMED, oracle.begin(1), 1, 100).forgotten());
    }

    /// O4: expired sessions leave nothing permanently.
    @Test
    void deadTransactionsUseMemoryOfOneSweep() {
        StatusOracle oracle = oracle();
        for (int session = 1; session <= 1_000; session++) {
            for (int count = 0; count < 100; count++) {
                oracle.begin(session);
            }
            oracle.expire(session);
            if (session % 10 == 0) {
                long mark = oracle.begin(2_000);
                oracle.end(mark);
                oracle.swept(StatusOracle.UNNAMED, mark, 1, 10_000);
                assertEquals(0, oracle.halfAborted());
            }
        }
        assertTrue(oracle.transactionBytes() < 1 << 20, oracle.transactionBytes() + " bytes");
    }

    /// Sessions come and go, and no sweep ever comes: those that have left nothing take no memory.
    @Test
    void endedSessionsWithoutOutcomesUseNoMemory() {
        StatusOracle oracle = oracle();
        for (int session = 1; session <= 300_000; session++) {
            long start = oracle.begin(session);
            oracle.commit(start, rows(session), rows());
            oracle.cleaned(start);
            oracle.expire(session);
        }
        assertTrue(oracle.transactionBytes() < 4 << 20, oracle.transactionBytes() + " bytes");
        long left = oracle.begin(400_000);
        oracle.commit(left, rows(7), rows());
        oracle.expire(400_000);
        for (int session = 500_000; session <= 600_000; session++) {
            oracle.expire(session);
        }
        assertTrue(oracle.isLeft(left), "it waits for a sweep");
        assertEquals(
                1, oracle.swept(StatusOracle.UNNAMED, oracle.begin(1), 1, 100).forgotten());
    }

    /// O10: a transaction that T_max has passed commits where its row is in memory, and aborts where it is
    /// not. Rows that crowd one home make T_max run ahead of the window.
    @Test
    void tmaxIsIgnoredForRowsInMemory() {
        StatusOracle oracle = oracle();
        ConflictMap map = new ConflictMap(ConflictMap.ROWS_LOG2_MIN);
        long[] crowd = LongStream.range(0, 1_000_000)
                .filter(row -> map.line(row) == 0)
                .limit(9 * ConflictMap.HOPS)
                .toArray();
        long kept = LongStream.range(0, 1_000_000)
                .filter(row -> map.line(row) == map.lines() / 2)
                .findFirst()
                .getAsLong();
        oracle.commit(oracle.begin(1), rows(kept), rows());
        long old = oracle.begin(1);
        long older = oracle.begin(1);
        for (long row : crowd) {
            oracle.commit(oracle.begin(1), rows(row), rows());
        }
        assertTrue(crowd.length < oracle.window() && oracle.forgottenTimestamp() > older);
        assertTrue(oracle.commit(old, rows(kept), rows()) > old, "the row is in memory, and older");
        assertEquals(StatusOracle.ABORTED, oracle.commit(older, rows(7_000_000), rows()), "T_max");
    }
}
