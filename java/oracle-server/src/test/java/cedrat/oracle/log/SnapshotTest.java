package cedrat.oracle.log;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.OracleReplay.Fault;
import cedrat.oracle.state.KeyRanges;
import cedrat.oracle.state.Keys;
import cedrat.oracle.state.Lifetime;
import cedrat.oracle.state.NoDecisions;
import cedrat.oracle.state.Remembered;
import cedrat.oracle.state.Rows;
import cedrat.oracle.state.StatusOracle;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Collectors;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.LongRange;
import org.junit.jupiter.api.Test;

/// O5: an oracle that is made from a snapshot and the log behind it is the one that has written them.
class SnapshotTest {
    private static final int ROWS_LOG2 = 8;

    /// An oracle at work, and its log. Entries count from 1.
    static final class Running {
        final List<byte[]> log = new ArrayList<>();
        /// Behind each entry: the oracle's position.
        final List<Long> positions = new ArrayList<>();
        /// First parts of snapshots that came to their end.
        final List<Integer> whole = new ArrayList<>();

        final EntryWriter writer = new EntryWriter();
        final StatusOracle oracle = new StatusOracle(ROWS_LOG2, writer);
        final SnapshotRule rule = new SnapshotRule(oracle.window(), Long.MAX_VALUE);
        final SplittableRandom random;
        final SnapshotWriter snapshot;
        int firstPart;

        private final long seed;

        Running(long seed) {
            this.seed = seed;
            random = new SplittableRandom(seed);
            snapshot = new SnapshotWriter(oracle, random.nextInt(1, 40));
        }

        void run(int entries) {
            for (int count = 0; count < entries; count++) {
                writer.begin(oracle.newest());
                if (oracle.identity() == 0 && log.size() >= seed % 50) {
                    oracle.identify(seed); // a log of an earlier version has entries without one
                }
                for (int steps = random.nextInt(20); steps > 0; steps--) {
                    step(random, oracle);
                }
                writer.close(oracle.newest());
                add(writer.bytes(), writer.length());
                takeSnapshots();
            }
        }

        private void takeSnapshots() {
            boolean isStopped = random.nextInt(60) == 0;
            if (isStopped || !snapshot.hasMore() && (rule.isDue(oracle.position()) || random.nextInt(30) == 0)) {
                snapshot.begin();
                firstPart = log.size() + 1;
            }
            for (int parts = random.nextInt(3); snapshot.hasMore() && (parts > 0 || firstPart > log.size()); parts--) {
                snapshot.part();
                add(snapshot.bytes(), snapshot.length());
                if (firstPart == log.size()) {
                    rule.begun(snapshot.position());
                }
                if (!snapshot.hasMore()) {
                    whole.add(firstPart);
                    rule.ended();
                }
            }
        }

        private void add(byte[] bytes, int length) {
            rule.entry(length);
            log.add(Arrays.copyOf(bytes, length));
            positions.add(oracle.position());
        }

        StatusOracle openedFrom(int entry, Fault fault) throws DamagedEntryException {
            return openedFrom(entry, new SnapshotRule(oracle.window(), Long.MAX_VALUE), fault);
        }

        StatusOracle openedFrom(int entry, SnapshotRule rule, Fault fault) throws DamagedEntryException {
            StatusOracle again = new StatusOracle(ROWS_LOG2, new NoDecisions());
            OracleReplay replay = new OracleReplay(again, rule, fault);
            replay(entry, log.size(), replay);
            replay.end();
            return again;
        }

        void replay(int from, int to, OracleReplay replay) throws DamagedEntryException {
            for (int at = from; at <= to; at++) {
                byte[] bytes = log.get(at - 1);
                replay.entry(bytes, 0, bytes.length);
            }
        }

        /// Returns the first entry that the rule keeps of the log as it is.
        int keepFrom() {
            return (int) Math.max(1, rule.keepFrom(log.size(), oracle.position()));
        }
    }

    /// Asks one oracle something; the answer.
    static long step(SplittableRandom random, StatusOracle oracle) {
        long start = random.nextLong(
                Math.max(1, oracle.newest() - (random.nextInt(6) == 0 ? 4_000 : 60)), oracle.newest() + 2);
        Rows writes = rows(random, 5);
        Rows reads = rows(random, random.nextInt(4) == 0 ? 5 : 1);
        return switch (random.nextInt(15)) {
            case 13 ->
                random.nextInt(9) == 0 ? oracle.prune() : oracle.use(random.nextInt(4)) ? oracle.namespaces() : 0;
            case 0, 1, 2, 3 -> oracle.begin(1);
            case 4, 5, 6, 7, 8 -> oracle.commit(start, writes, reads, keys(writes), ranges(random));
            case 9 -> random.nextInt(4) == 0 ? oracle.resolve(start) : oracle.status(start);
            case 10, 11 -> oracle.cleaned(start) ? 1 : 0;
            case 12 -> oracle.end(start) ? 1 : 0;
            default ->
                oracle.isCommitted(start, random.nextLong(1, oracle.newest() + 2))
                        .ordinal();
        };
    }

    private static Keys keys(Rows rows) {
        Keys keys = new Keys();
        for (int at = 0; at < rows.count(); at++) {
            byte[] key = Long.toString(rows.get(at)).repeat(8).getBytes();
            keys.add(1, key, 0, key.length);
        }
        return keys;
    }

    /// Now and then one, of few keys.
    private static KeyRanges ranges(SplittableRandom random) {
        KeyRanges ranges = new KeyRanges();
        if (random.nextInt(4) == 0) {
            byte[] both = (random.nextInt(100, 600) + ":").getBytes();
            ranges.add(1, both, 0, 3, 0, 4);
        }
        return ranges;
    }

    private static Rows rows(SplittableRandom random, int bound) {
        Rows rows = new Rows();
        for (int count = random.nextInt(bound); count > 0; count--) {
            rows.add(random.nextInt(600));
        }
        return rows;
    }

    private static void assertSame(StatusOracle one, StatusOracle other, String where) {
        assertEquals(one.newest(), other.newest(), where);
        assertEquals(one.identity(), other.identity(), where);
        assertEquals(one.namespaces(), other.namespaces(), where);
        assertEquals(one.position(), other.position(), where);
        assertEquals(one.newestCommit(), other.newestCommit(), where);
        assertEquals(one.open(), other.open(), where);
        assertEquals(one.halfAborted(), other.halfAborted(), where);
        assertEquals(one.halfCommitted(), other.halfCommitted(), where);
        assertEquals(one.lowWaterMark(), other.lowWaterMark(), where);
        assertEquals(one.forgottenTimestamp(), other.forgottenTimestamp(), "T_max " + where);
    }

    /// Fails where the oracle that was opened answers otherwise than the one that was never stopped. Both are
    /// asked the same, so of that one only one opening can be tried.
    private static void assertAnswersSame(Running running, int from, Fault fault) throws DamagedEntryException {
        StatusOracle again = running.openedFrom(from, fault);
        assertSame(running.oracle, again, "from " + from);
        for (long start = 1; start <= again.newest(); start++) {
            assertEquals(running.oracle.status(start), again.status(start), "status of " + start);
        }
        long seed = running.random.nextLong();
        SplittableRandom one = new SplittableRandom(seed);
        SplittableRandom other = new SplittableRandom(seed);
        running.writer.begin(running.oracle.newest());
        for (int step = 0; step < 2_000; step++) {
            assertEquals(step(one, running.oracle), step(other, again), "step " + step + " from " + from);
            assertSame(running.oracle, again, "step " + step + " from " + from);
        }
    }

    /// O5.
    @Property(tries = 40)
    void anOracleComesBackFromTheSnapshotThatTheRuleNames(@ForAll @LongRange(min = 1) long seed)
            throws DamagedEntryException {
        Running running = new Running(seed);
        running.run(running.random.nextInt(1, 400));
        assertAnswersSame(running, running.keepFrom(), Fault.NONE);
    }

    /// O5.
    /// The rule lets go no more than it may, and keeps no more than it must: from any older place the oracle
    /// comes back, too, whether a snapshot begins there or not.
    @Property(tries = 20)
    void anOracleComesBackFromEachSnapshotThatTheRuleAllows(@ForAll @LongRange(min = 1) long seed)
            throws DamagedEntryException {
        Running running = new Running(seed);
        running.run(300);
        int keepFrom = running.keepFrom();
        long forgotten = running.oracle.position() - running.oracle.window();
        int newest = running.whole.stream()
                .filter(first -> running.positions.get(first - 1) <= forgotten)
                .mapToInt(first -> first)
                .max()
                .orElse(1);
        assertEquals(newest, keepFrom);
        for (int from = 1; from <= keepFrom; from++) {
            assertSame(running.oracle, running.openedFrom(from, Fault.NONE), "from " + from);
        }
        for (int first : running.whole.subList(0, running.whole.indexOf(keepFrom) + 1)) {
            Running same = new Running(seed);
            same.run(300);
            assertAnswersSame(same, first, Fault.NONE);
        }
    }

    /// O5e: the identity survives the entry that it was drawn in.
    @Test
    void identityOutlivesForgottenEntries() throws DamagedEntryException {
        for (long seed = 1; seed <= 20; seed++) {
            Running running = new Running(seed);
            running.run(300);
            int from = running.keepFrom();
            assertTrue(from > 60, "the entry is forgotten");
            assertEquals(seed, running.openedFrom(from, Fault.NONE).identity());
        }
    }

    /// O5e, O4f: the entry behind the first one also follows timestamp 0, and need not be the first of all.
    @Test
    void factsBeforeFirstTimestampOutliveTheirEntry() throws DamagedEntryException {
        Running running = new Running(7);
        running.writer.begin(0);
        running.oracle.identify(5);
        running.oracle.use(9);
        running.writer.close(0);
        running.add(running.writer.bytes(), running.writer.length());
        running.run(300);
        assertTrue(running.keepFrom() > 2, "the entry is forgotten");
        for (int from = 1; from <= running.keepFrom(); from++) {
            assertSame(running.oracle, running.openedFrom(from, Fault.NONE), "from " + from);
        }
    }

    /// O5: an opening of the log forgets the same entries as its writer, whichever entry it begins with.
    @Property(tries = 20)
    void ruleLearnsOfReplayedSnapshots(@ForAll @LongRange(min = 1) long seed) throws DamagedEntryException {
        Running running = new Running(seed);
        running.run(running.random.nextInt(1, 400));
        int from = running.keepFrom();
        SnapshotRule rule = new SnapshotRule(running.oracle.window(), Long.MAX_VALUE);
        StatusOracle again = running.openedFrom(from, rule, Fault.NONE);
        assertEquals(running.log.size() - from + 1, rule.entries());
        assertEquals(running.rule.isDue(again.position()), rule.isDue(again.position()));
        for (long further = 0; further < 2 * again.window(); further += 7) {
            long position = again.position() + further;
            long kept = running.rule.keepFrom(running.log.size(), position);
            assertEquals(kept == 0 ? 0 : kept - from + 1, rule.keepFrom(rule.entries(), position), "at " + position);
        }
    }

    /// O5k: at any entry, also within a snapshot. Nothing remains of what was replayed before the restart.
    @Property(tries = 20)
    void restartedReplayForgetsEarlierEntries(@ForAll @LongRange(min = 1) long seed) throws DamagedEntryException {
        Running running = new Running(seed);
        running.run(running.random.nextInt(1, 400));
        int from = running.keepFrom();
        SnapshotRule rule = new SnapshotRule(running.oracle.window(), Long.MAX_VALUE);
        SnapshotRule restartedRule = new SnapshotRule(running.oracle.window(), Long.MAX_VALUE);
        StatusOracle restarted = new StatusOracle(ROWS_LOG2, new NoDecisions());
        OracleReplay replay = new OracleReplay(restarted, restartedRule);
        running.replay(running.random.nextInt(1, from + 1), running.random.nextInt(running.log.size() + 1), replay);
        replay.restart();
        running.replay(from, running.log.size(), replay);
        replay.end();
        StatusOracle opened = running.openedFrom(from, rule, Fault.NONE);
        assertSame(opened, restarted, "from " + from);
        assertEquals(rule.entries(), restartedRule.entries());
        assertEquals(rule.isDue(opened.position()), restartedRule.isDue(opened.position()));
        for (long start = 1; start <= opened.newest(); start++) {
            assertEquals(opened.status(start), restarted.status(start), "status of " + start);
        }
    }

    /// O5: at any time, of what is acknowledged: a crash may take the rest.
    @Property(tries = 20)
    void whatTheRuleKeepsIsEnoughAfterACrash(@ForAll @LongRange(min = 1) long seed) throws DamagedEntryException {
        Running running = new Running(seed);
        for (int count = running.random.nextInt(30); count >= 0; count--) {
            running.run(10);
            running.rule.keepFrom(acknowledged(running), running.positions.get(acknowledged(running) - 1));
        }
        int acknowledged = acknowledged(running);
        int keepFrom = (int) Math.max(1, running.rule.keepFrom(acknowledged, running.positions.get(acknowledged - 1)));
        while (running.log.size() > acknowledged) {
            running.log.removeLast();
        }
        assertSame(running.openedFrom(1, Fault.NONE), running.openedFrom(keepFrom, Fault.NONE), "from " + keepFrom);
    }

    /// All but the last few entries.
    private static int acknowledged(Running running) {
        return Math.max(1, running.log.size() - 12);
    }

    /// O5.
    /// Purpose of the rule: T_max := now, with an empty map, is no snapshot.
    @Test
    void aYoungerSnapshotRaisesTMax() throws DamagedEntryException {
        int raised = 0;
        for (long seed = 1; seed <= 20; seed++) {
            Running running = new Running(seed);
            running.run(300);
            int youngest = running.whole.getLast();
            if (youngest == running.keepFrom()) {
                continue;
            }
            StatusOracle again = running.openedFrom(youngest, Fault.NONE);
            assertTrue(again.forgottenTimestamp() >= running.oracle.forgottenTimestamp(), "a conflict could be missed");
            raised += again.forgottenTimestamp() > running.oracle.forgottenTimestamp() ? 1 : 0;
        }
        assertTrue(raised >= 10, "raised " + raised + " times");
    }

    @Test
    void plantedFaultsAreFound() {
        for (Fault fault : Fault.values()) {
            int found = 0;
            for (long seed = 1; seed <= 20; seed++) {
                Running running = new Running(seed);
                running.run(300);
                try {
                    assertAnswersSame(running, running.keepFrom(), fault);
                } catch (AssertionError | DamagedEntryException expected) {
                    found++;
                }
            }
            assertEquals(fault == Fault.NONE ? 0 : 20, found, fault.name());
        }
    }

    @Test
    void truncatedLogWithoutSnapshotIsRefused() throws DamagedEntryException {
        Running running = new Running(3);
        running.run(300);
        int last = running.whole.getLast();
        assertThrows(DamagedEntryException.class, () -> running.openedFrom(last + 1, Fault.NONE));
        new OracleReplay(new StatusOracle(ROWS_LOG2, new NoDecisions())).end();
    }

    /// Changed, missing and doubled bytes are either detected by their content, or read as another snapshot: the
    /// log has to guarantee that an entry is complete. The only exception is [DamagedEntryException], which names
    /// the offset.
    @Property(tries = 300)
    void damagedPartsAreRefusedOrRead(@ForAll @LongRange(min = 1) long seed) {
        Running running = new Running(seed);
        running.run(60);
        SplittableRandom random = running.random;
        List<byte[]> parts = running.log.stream()
                .filter(entry -> SnapshotReader.isPart(entry, 0, entry.length))
                .toList();
        byte[] part = parts.get(random.nextInt(parts.size()));
        int at = running.log.indexOf(part);
        byte[] damaged = part.clone();
        switch (random.nextInt(4)) {
            case 0 -> damaged = Arrays.copyOf(part, random.nextInt(1, part.length));
            case 1 -> {
                for (int count = random.nextInt(1, 8); count > 0; count--) {
                    int place = random.nextInt(Math.min(part.length, SnapshotWriter.HEADER_BYTES - 1), part.length);
                    damaged[place] = (byte) random.nextInt();
                }
            }
            default -> {
                int place = random.nextInt(1, part.length);
                damaged[place] ^= (byte) (1 << random.nextInt(8));
            }
        }
        if (random.nextInt(8) == 0) {
            running.log.remove(at);
        } else {
            running.log.set(at, damaged);
        }
        for (int from = 1; from <= at + 1; from++) {
            try {
                running.openedFrom(from, Fault.NONE);
            } catch (DamagedEntryException refused) {
                String said = refused.getMessage();
                assertTrue(said.contains(", at byte ") || said.startsWith("the log lacks its first entry"), said);
            }
        }
    }

    /// A part that ends behind its snapshot would never be the last of it.
    @Test
    void partEndingBeyondSnapshotIsRefused() throws DamagedEntryException {
        Running running = new Running(5);
        running.run(300);
        byte[] part = running.log.get(running.whole.getLast() - 1);
        SnapshotReader reader = new SnapshotReader();
        reader.open(part, 0, part.length);
        for (long end : new long[] {reader.taken() + 2, Long.MAX_VALUE}) {
            EntryBytes.LONG.set(part, SnapshotWriter.END_AT, end);
            assertThrows(DamagedEntryException.class, () -> reader.open(part, 0, part.length), "up to " + end);
        }
        EntryBytes.LONG.set(part, SnapshotWriter.END_AT, reader.taken() + 1);
        reader.open(part, 0, part.length);
        assertTrue(reader.isLast());
    }

    @Test
    void cutOrMissingPartMakesSnapshotIncomplete() throws DamagedEntryException {
        Running running = new Running(5);
        running.run(300);
        int first = running.whole.getLast();
        byte[] part = running.log.get(first - 1);
        for (int length = 0; length < SnapshotWriter.HEADER_BYTES; length++) {
            running.log.set(first - 1, Arrays.copyOf(part, length));
            assertThrows(DamagedEntryException.class, () -> running.openedFrom(first, Fault.NONE), "cut to " + length);
        }
        running.log.set(first - 1, part);
        running.openedFrom(first, Fault.NONE);
        int second = first;
        do {
            second++;
        } while (!SnapshotReader.isPart(running.log.get(second - 1), 0, 1));
        running.log.remove(second - 1);
        assertThrows(DamagedEntryException.class, () -> running.openedFrom(first, Fault.NONE));
    }

    /// The example on the format's page.
    @Test
    void partBytesMatchFormatPage() throws DamagedEntryException, IOException {
        StatusOracle oracle = new StatusOracle(ROWS_LOG2, new NoDecisions());
        Rows none = new Rows();
        Rows row = new Rows();
        row.add(7);
        for (int count = 0; count < 300; count++) {
            oracle.end(oracle.begin(1));
        }
        oracle.resolve(oracle.begin(1)); // 301
        oracle.begin(1); // 302
        oracle.commit(oracle.begin(1), row, none); // 303, 304
        oracle.begin(1); // 305
        SnapshotWriter writer = new SnapshotWriter(oracle, 3);
        writer.begin();
        assertEquals(1, writer.position());
        writer.part();
        String page = Files.readString(Path.of("../../docs/formats/oracle-log.md"));
        String expected = page.substring(page.indexOf("## A part of a snapshot"))
                .lines()
                .filter(line -> line.startsWith("| `"))
                .map(line -> line.split("`")[1].replace(" ", ""))
                .collect(Collectors.joining());
        assertEquals(expected, HexFormat.of().formatHex(writer.bytes(), 0, writer.length()));
        assertTrue(writer.hasMore());
        SnapshotReader reader = new SnapshotReader();
        List<String> reported = new ArrayList<>();
        reader.open(writer.bytes(), 0, writer.length());
        assertTrue(reader.isFirst() && !reader.isLast());
        reader.tell(telling(reported));
        assertEquals(List.of("aborted 301", "open 302 at 0", "committed 303 at 304"), reported);
        writer.part();
        assertFalse(writer.hasMore());
        reader.open(writer.bytes(), 0, writer.length());
        assertTrue(!reader.isFirst() && reader.isLast());
        reader.tell(telling(reported));
        assertEquals("open 305 at 1", reported.getLast());
    }

    private static Remembered telling(List<String> reported) {
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
                reported.add("pruned " + upTo);
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
}
