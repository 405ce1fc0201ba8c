package cedrat.persist.woven.weave;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import cedrat.persist.Transaction;
import org.junit.jupiter.api.Test;

/// A class as JaCoCo instruments it.
class ProbesTest {
    private static final boolean[] PROBES = new boolean[2];

    private static int sum;

    static boolean[] $jacocoInit() {
        return PROBES;
    }

    private static void add(boolean[] own) {
        boolean[] probes = $jacocoInit();
        sum++;
        probes[0] = true;
        own[1] = true;
        probes[1] = true;
    }

    @Test
    void rollbackKeepsCoverageAlone() {
        boolean[] own = new boolean[2];
        try (var transaction = Transaction.begin()) {
            add(own);
            transaction.rollback();
        }
        assertEquals(0, sum);
        assertArrayEquals(new boolean[2], own);
        assertArrayEquals(new boolean[] {true, true}, PROBES);
    }
}
