package cedrat.oracle.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayDeque;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.function.LongUnaryOperator;
import org.junit.jupiter.api.Test;

/// A load over a connection whose other end is here.
class LoadTest {
    private static final int OUTSTANDING = 3;
    private static final int OUTSTANDING_WARM = 5;

    private final Results results = new Results();
    private final CountDownLatch ended = new CountDownLatch(1);
    private Phase phase = Phase.WARM_UP;

    /// Answers each request on demand.
    private final class System implements Connection {
        final ArrayDeque<Runnable> asked = new ArrayDeque<>();
        final LongUnaryOperator outcome;
        final Load load;
        long newest;
        boolean closed;
        final Set<Long> cleaned = new HashSet<>();

        /// `outcome` says, of a commit timestamp that would be right, what is answered.
        System(LongUnaryOperator outcome, double perSecond) {
            this.outcome = outcome;
            load = new Load(
                    new Load.Wanted(OUTSTANDING, OUTSTANDING_WARM, 1_000, perSecond, true),
                    1,
                    () -> phase,
                    results,
                    ended);
            load.run(this);
        }

        /// Answers so many requests.
        void answer(int count) {
            for (; count > 0; count--) {
                asked.remove().run();
            }
        }

        @Override
        public void execute(Runnable work) {
            work.run();
        }

        @Override
        public void begin(int worker) {
            asked.add(() -> load.begun(worker, ++newest));
        }

        @Override
        public void commit(int worker, long start, long[] rows, int count) {
            asked.add(() -> load.decided(worker, outcome.applyAsLong(count == 0 ? start : ++newest)));
        }

        @Override
        public void cleaned(long start) {
            assertTrue(cleaned.add(start), "once");
        }

        @Override
        public void close() {
            closed = true;
        }
    }

    @Test
    void onlyAnswersWhileMeasuringAreCounted() {
        System system = new System(LongUnaryOperator.identity(), 0);
        assertEquals(OUTSTANDING_WARM, system.asked.size());
        system.answer(100);
        phase = Phase.SETTLING;
        system.answer(100);
        assertEquals(OUTSTANDING, system.asked.size());
        assertEquals(0, results.commits.total());
        phase = Phase.MEASURING;
        system.answer(600);
        assertEquals(300, results.commits.total());
        assertEquals(300, results.starts.total());
        assertFalse(system.closed);
        phase = Phase.ENDING;
        system.answer(OUTSTANDING * 2 - system.asked.size() % 2);
        while (!system.asked.isEmpty()) {
            system.answer(1);
        }
        assertTrue(system.closed);
        assertEquals(0, ended.getCount());
        assertFalse(system.cleaned.isEmpty());
        assertEquals("", results.wrong());
    }

    @Test
    void abortsAreNoCommits() {
        phase = Phase.MEASURING;
        System system = new System(commit -> Load.ABORTED, 0);
        system.answer(40);
        assertEquals(results.commits.total(), results.aborted);
        assertEquals(0, results.acknowledged.count());
        assertEquals("", results.wrong());
    }

    @Test
    void wrongAnswersAreSeen() {
        for (LongUnaryOperator wrong : new LongUnaryOperator[] {commit -> 0, commit -> 1, commit -> -2}) {
            Results before = new Results();
            System system = new System(wrong, 0);
            system.answer(60);
            before.add(results);
            assertFalse(before.wrong().isEmpty());
        }
    }

    @Test
    void duplicateStartTimestampIsDetected() {
        System system = new System(LongUnaryOperator.identity(), 0);
        system.answer(1);
        system.newest--;
        system.answer(1);
        assertFalse(results.wrong().isEmpty());
    }

    /// A transaction that waits for its turn at the end has not begun.
    @Test
    void unreachedTurnsAreNotAwaited() {
        phase = Phase.MEASURING;
        System system = new System(LongUnaryOperator.identity(), 1e-6);
        assertTrue(system.asked.size() <= 1, "a turn takes eleven days");
        phase = Phase.ENDING;
        system.answer(system.asked.size());
        while (!system.asked.isEmpty()) {
            system.answer(1);
        }
        system.load.turn();
        assertTrue(system.closed);
    }
}
