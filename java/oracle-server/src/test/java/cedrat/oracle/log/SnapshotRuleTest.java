package cedrat.oracle.log;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class SnapshotRuleTest {
    /// A block that an entry may fill, and what it is given here.
    private static final int BYTES = 4096 + 904;

    private final SnapshotRule rule = new SnapshotRule(100, Long.MAX_VALUE);

    /// A snapshot at this position whose first part and last part are these entries.
    private static void taken(SnapshotRule rule, long first, long last, long position) {
        entriesUpTo(rule, first);
        rule.begun(position);
        entriesUpTo(rule, last);
        rule.ended();
    }

    private static void entriesUpTo(SnapshotRule rule, long number) {
        while (rule.entries() < number) {
            rule.entry(904);
        }
    }

    @Test
    void logIsKeptFromNewestCoveringSnapshot() {
        taken(rule, 10, 12, 50);
        taken(rule, 20, 22, 70);
        taken(rule, 30, 32, 90);
        assertEquals(0, rule.keepFrom(40, 149));
        assertEquals(10, rule.keepFrom(41, 150));
        assertEquals(20, rule.keepFrom(42, 189));
        assertEquals(30, rule.keepFrom(43, 500));
        assertEquals(30, rule.keepFrom(44, 500), "it never goes back");
    }

    @Test
    void snapshotCountsOnceLastPartIsAcknowledged() {
        taken(rule, 10, 40, 50);
        assertEquals(0, rule.keepFrom(39, 150));
        assertEquals(10, rule.keepFrom(40, 150));
    }

    @Test
    void oneEighthNewRowsMakeSnapshotDue() {
        assertFalse(rule.isDue(11));
        assertTrue(rule.isDue(12));
        taken(rule, 10, 12, 50);
        assertFalse(rule.isDue(61));
        assertTrue(rule.isDue(62));
        assertFalse(new SnapshotRule(4, 4).isDue(0), "not of nothing");
    }

    @Test
    void unfinishedSnapshotIsIgnored() {
        entriesUpTo(rule, 10);
        rule.begun(50);
        assertTrue(rule.isDue(50));
        taken(rule, 20, 22, 60);
        assertFalse(rule.isDue(60));
        assertEquals(0, rule.keepFrom(22, 159));
        assertEquals(20, rule.keepFrom(22, 160));
    }

    /// Though no row is committed.
    @Test
    void theLogIsBoundedByItsBytes() {
        SnapshotRule bounded = new SnapshotRule(100, 80 * BYTES);
        entriesUpTo(bounded, 9);
        assertFalse(bounded.isDue(0));
        entriesUpTo(bounded, 10);
        assertTrue(bounded.isDue(0));
        taken(bounded, 11, 13, 0);
        entriesUpTo(bounded, 20);
        assertFalse(bounded.isDue(0));
        entriesUpTo(bounded, 21);
        assertTrue(bounded.isDue(0), "an eighth behind the first part");
        taken(bounded, 22, 24, 0);
        entriesUpTo(bounded, 90);
        assertEquals(0, bounded.keepFrom(90, 0));
        entriesUpTo(bounded, 91);
        assertEquals(11, bounded.keepFrom(91, 0));
        entriesUpTo(bounded, 102);
        assertEquals(22, bounded.keepFrom(102, 0));
    }
}
