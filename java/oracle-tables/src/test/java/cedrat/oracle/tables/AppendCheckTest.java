package cedrat.oracle.tables;

import static org.junit.jupiter.api.Assertions.assertThrows;

import cedrat.oracle.tables.AppendHistory.Entry;
import cedrat.oracle.tables.AppendHistory.Outcome;
import cedrat.oracle.tables.ListHistory.Operation;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/// The check of lists: histories that hold, and one for each way in which one does not.
class AppendCheckTest {
    private static final Map<String, List<Long>> LISTS = Map.of("x", List.of(1L, 2L), "y", List.of(3L));

    private static Operation read(String row, Long... elements) {
        return new Operation(row, List.of(elements), 0);
    }

    private static Operation append(String row, long element) {
        return new Operation(row, null, element);
    }

    private static Entry entry(long began, long ended, Outcome outcome, Operation... operations) {
        return new Entry((int) began, began, ended, outcome, List.of(operations));
    }

    private static Entry ok(long began, long ended, Operation... operations) {
        return entry(began, ended, Outcome.OK, operations);
    }

    private static void check(Isolation isolation, Map<String, List<Long>> lists, Entry... entries) {
        AppendHistory history = new AppendHistory();
        List.of(entries).forEach(history::add);
        AppendCheck.check(history, isolation, lists);
    }

    private static void refuse(Isolation isolation, Entry... entries) {
        assertThrows(AssertionError.class, () -> check(isolation, LISTS, entries));
    }

    private static final Entry FIRST = ok(1, 2, read("x"), append("x", 1), read("y"), append("y", 3));
    private static final Entry SECOND = ok(3, 4, read("x", 1L), append("x", 2));

    @Test
    void serialHistoryHolds() {
        check(Isolation.SERIALISABLE, LISTS, FIRST, SECOND, ok(5, 6, read("x", 1L, 2L), read("y", 3L)));
    }

    @Test
    void unknownOutcomesMayBeEither() {
        Entry kept = entry(3, 4, Outcome.INFO, read("x", 1L), append("x", 2));
        Entry lost = entry(3, 4, Outcome.INFO, read("y", 3L), append("y", 4));
        check(Isolation.SERIALISABLE, LISTS, FIRST, kept, lost);
        refuse(Isolation.SNAPSHOT, FIRST, SECOND, entry(5, 6, Outcome.INFO, append("y", 4), append("x", 2)));
    }

    @Test
    void lostAndAbortedWritesAreFound() {
        refuse(Isolation.SNAPSHOT, FIRST, SECOND, ok(5, 6, append("y", 4)));
        refuse(Isolation.SNAPSHOT, FIRST, entry(3, 4, Outcome.FAIL, append("x", 2)));
        refuse(Isolation.SNAPSHOT, FIRST); // an element of no transaction
        Map<String, List<Long>> twice = Map.of("x", List.of(1L, 1L), "y", List.of(3L));
        assertThrows(AssertionError.class, () -> check(Isolation.SNAPSHOT, twice, FIRST));
    }

    @Test
    void readsOfOtherListsAreFound() {
        refuse(Isolation.SNAPSHOT, FIRST, SECOND, ok(5, 6, read("x", 2L)));
        refuse(Isolation.SNAPSHOT, FIRST, SECOND, ok(5, 6, read("x", 1L, 2L, 4L)));
    }

    @Test
    void fracturedReadIsFound() {
        refuse(Isolation.SNAPSHOT, FIRST, SECOND, ok(1, 6, read("x", 1L), read("y")));
    }

    @Test
    void staleReadIsFound() {
        refuse(Isolation.SNAPSHOT, FIRST, SECOND, ok(5, 6, read("x", 1L)));
        check(Isolation.SERIALISABLE, LISTS, FIRST, SECOND, ok(4, 6, read("x", 1L)));
    }

    @Test
    void lostUpdateIsFound() {
        refuse(Isolation.SNAPSHOT, FIRST, ok(1, 4, read("x"), append("x", 2)));
    }

    @Test
    void writeSkewIsFoundIfSerialisable() {
        Entry one = ok(1, 6, read("x"), read("y"), append("y", 3));
        Entry other = ok(1, 6, read("x"), read("y"), append("x", 1));
        Map<String, List<Long>> lists = Map.of("x", List.of(1L), "y", List.of(3L));
        check(Isolation.SNAPSHOT, lists, one, other);
        assertThrows(AssertionError.class, () -> check(Isolation.SERIALISABLE, lists, one, other));
    }
}
