package cedrat.oracle.tables;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;

/// Over tables in memory; and whether the judge would notice what is wrong.
class HistoryTest extends HistoryContract {
    @Override
    protected TestStore store() {
        return TestStore.memory();
    }

    /// The judge would have noticed.
    @Test
    void plantedFaultsAreFound() throws Exception {
        for (Fault fault : List.of(Fault.CLEAN_OPEN, Fault.START_FOR_COMMIT, Fault.PRUNE_ABOVE_THE_MARK)) {
            boolean isFound = false;
            for (int attempt = 0; attempt < 5 && !isFound; attempt++) { // whether a fault meets its moment is chance
                try {
                    record(fault).check();
                } catch (AssertionError found) {
                    isFound = true;
                }
            }
            assertTrue(isFound, fault.name());
        }
    }

    @Test
    void nonSnapshotIsolationHistoriesAreDetected() {
        History.Transaction first = transaction(1, 2, 1, 2, History.NOTHING);
        history(first, transaction(3, 4, 3, 4, 1)).check();
        List<History> wrong = List.of(
                history(transaction(1, 4, 1, 3, 0), transaction(2, 3, 2, 4, 0)), // a lost update
                history(first, transaction(3, 4, 3, 4, 0)), // not the newest
                history(first, transaction(3, 4, 3, 0, 5), transaction(5, 6, 5, 6, 1)), // from the future
                history(transaction(1, 2, 1, 0, 0), transaction(3, 4, 2, 3, 1)), // of what aborted
                history(
                        transaction(1, 2, 8, 9, 3),
                        transaction(3, 4, 3, 4, 0))); // after an acknowledged commit, and below it
        for (History history : wrong) {
            assertThrows(AssertionError.class, history::check);
        }
    }

    private static History history(History.Transaction... transactions) {
        History history = new History();
        List.of(transactions).forEach(history::add);
        return history;
    }

    private static History.Transaction transaction(long begunAt, long endedAt, long start, long commit, long seen) {
        return new History.Transaction(begunAt, endedAt, start, commit, Set.of("a"), Map.of("a", seen));
    }
}
