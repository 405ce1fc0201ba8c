package cedrat.oracle.state;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;

class LifetimeTest {
    @Test
    void lifetimeEndsAboveItsStart() {
        assertEquals(4, new Lifetime(3, 7).length());
        for (long[] invalid : new long[][] {{7, 3}, {3, 3}, {0, 3}, {-1, 3}}) {
            assertThrows(IllegalArgumentException.class, () -> new Lifetime(invalid[0], invalid[1]));
        }
    }
}
