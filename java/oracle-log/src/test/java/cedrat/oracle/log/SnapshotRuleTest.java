package cedrat.oracle.log;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class SnapshotRuleTest {
    private final SnapshotRule rule = new SnapshotRule(100);

    @Test
    void theLogIsKeptFromTheNewestSnapshotBehindWhichAllRowsLie() {
        rule.taken(10, 12, 50);
        rule.taken(20, 22, 70);
        rule.taken(30, 32, 90);
        assertEquals(0, rule.keepFrom(40, 149));
        assertEquals(10, rule.keepFrom(41, 150));
        assertEquals(20, rule.keepFrom(42, 189));
        assertEquals(30, rule.keepFrom(43, 500));
        assertEquals(30, rule.keepFrom(44, 500), "it never goes back");
    }

    @Test
    void aSnapshotCountsWhenItsLastPartIsAcknowledged() {
        rule.taken(10, 40, 50);
        assertEquals(0, rule.keepFrom(39, 150));
        assertEquals(10, rule.keepFrom(40, 150));
    }

    @Test
    void aSnapshotIsDueWhenAnEighthOfTheRowsIsNew() {
        assertFalse(rule.isDue(11));
        assertTrue(rule.isDue(12));
        rule.taken(10, 12, 50);
        assertFalse(rule.isDue(61));
        assertTrue(rule.isDue(62));
        assertFalse(new SnapshotRule(4).isDue(0), "not of nothing");
    }
}
