package cedrat.oracle.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;

class PausesTest {
    @Test
    void theyAreReadFromTheLog() {
        String longest =
                "[200000000ns] Safepoint \"G1CollectForAllocation\", Time since last: 9 ns, Total:   7500000 ns";
        Pauses pauses = Pauses.of(List.of(
                "[200000000ns] GC(0) Pause Young (Normal) (G1 Evacuation Pause) 38M->2M(64M) 7.4ms",
                longest,
                "[300000000ns] Safepoint \"Cleanup\", Time since last: 9 ns, Total: 5000 ns",
                "[400000000ns] Allocation Stall (main) 3.2ms"));
        assertEquals(2, pauses.stops.times.total());
        assertEquals(7_500_000, pauses.stops.longest);
        assertEquals(7.5, pauses.stops.longestIn(new Results.Gap(199_000_000, 210_000_000)));
        assertEquals(0, pauses.stops.longestIn(new Results.Gap(190_000_000, 192_500_000)));
        assertEquals(longest, pauses.longest());
        assertEquals(1, pauses.stalls());
    }
}
