package cedrat.oracle.state;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.LongRange;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// O5h: an oracle whose timestamps continue far above its remembered transactions.
class FarTimestampsTest {
    private static final long ABOVE = 1L << 50;
    private static final long MEMORY_MAX = 8L << 20;
    private static final int SHIFT = 3;

    private static StatusOracle oracle() {
        Transactions.Spilling small = new Transactions.Spilling(new MemoryPages(), Long.MAX_VALUE, SHIFT);
        return new StatusOracle(ConflictMap.ROWS_LOG2_MIN, new NoDecisions(), small, Fault.NONE);
    }

    /// An oracle that continues above [#ABOVE], and remembers all decided transactions of another.
    private static StatusOracle continued(StatusOracle from) {
        StatusOracle to = oracle();
        Remembered restoring = to.restore(ABOVE, from.position(), ABOVE);
        for (long next = 1; next <= from.newest(); ) {
            next = from.tell(next, from.newest(), 100, restoring);
        }
        to.restored(ABOVE + 1);
        return to;
    }

    private static Rows row(long row) {
        Rows rows = new Rows();
        rows.add(row);
        return rows;
    }

    private static List<String> remembered(StatusOracle oracle, int countMax) {
        List<String> remembered = new ArrayList<>();
        int parts = 0;
        for (long from = 1; from <= oracle.newest(); parts++) {
            from = oracle.tell(from, oracle.newest(), countMax, new Recording(remembered));
        }
        assertTrue(parts < 100 + remembered.size(), parts + " parts");
        return remembered;
    }

    private record Recording(List<String> to) implements Remembered {
        @Override
        public void identified(long identity) {}

        @Override
        public void restored(long generation) {}

        @Override
        public void used(long namespace) {}

        @Override
        public void pruned(long upTo) {}

        @Override
        public void open(long start, long position) {
            to.add("open " + start);
        }

        @Override
        public void committed(Lifetime lifetime) {
            to.add("committed " + lifetime);
        }

        @Override
        public void aborted(long start) {
            to.add("aborted " + start);
        }
    }

    @Test
    @Timeout(60)
    void gapTakesNeitherMemoryNorTime() {
        StatusOracle before = oracle();
        long committed = before.begin(1);
        long commit = before.commit(committed, row(7), new Rows());
        long aborted = before.begin(1);
        before.resolve(aborted);
        StatusOracle after = continued(before);
        long start = after.begin(1);
        assertEquals(ABOVE + 1, start);
        assertEquals(commit, after.status(committed));
        assertEquals(StatusOracle.ABORTED, after.status(aborted));
        assertEquals(StatusOracle.UNKNOWN, after.status(ABOVE / 2));
        assertTrue(after.transactionBytes() < MEMORY_MAX, after.transactionBytes() + " bytes");
        assertEquals(ABOVE + 2, after.commit(start, row(7), new Rows()));
        assertEquals(3, remembered(after, 2).size());
        assertTrue(after.cleaned(committed) && after.cleaned(aborted) && after.cleaned(start));
        assertEquals(List.of(), remembered(after, 2));
    }

    /// Decisions go on while the parts of a snapshot are read.
    @Property(tries = 60)
    void snapshotSpansGap(@ForAll @LongRange(min = 1) long seed) {
        SideBySide both = new SideBySide(seed, 50, Fault.NONE);
        both.run(400);
        for (long start : List.copyOf(both.transactions.keySet())) {
            both.oracle.resolve(start);
        }
        StatusOracle running = continued(both.oracle);
        assertEquals(remembered(both.oracle, 100), remembered(running, 1 + (int) (seed & 31)));
        for (int count = 0; count < 50; count++) {
            long start = running.begin(1);
            if (count % 3 == 0) {
                running.commit(start, row(count), new Rows());
            }
        }
        StatusOracle again = oracle();
        long taken = running.newest();
        Remembered restoring = again.restore(taken, running.position(), running.newestCommit());
        for (long from = 1; from <= taken; ) {
            from = running.tell(from, taken, 7, restoring);
            again.restored(from);
            running.begin(2);
            again.replayGivenOut(running.newest());
        }
        assertEquals(remembered(running, 100), remembered(again, 100));
        assertEquals(running.lowWaterMark(), again.lowWaterMark());
        assertTrue(again.transactionBytes() < MEMORY_MAX, again.transactionBytes() + " bytes");
        for (long start : both.transactions.keySet()) {
            assertEquals(running.status(start), again.status(start));
            assertEquals(running.cleaned(start), again.cleaned(start));
        }
        assertEquals(remembered(running, 3), remembered(again, 100));
    }
}
