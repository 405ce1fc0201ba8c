package cedrat.oracle.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cedrat.oracle.bench.Figures.Figure;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class FiguresTest {
    @Test
    void aFigureIsWrittenAsOthersReadIt() {
        Map<String, Object> params = new LinkedHashMap<>();
        params.put("log", "none");
        params.put("clients", 16);
        assertEquals(
                "{\"bench\":\"oracle\",\"system\":\"echo\",\"params\":{\"log\":\"none\",\"clients\":16},"
                        + "\"metric\":\"p50_us\",\"value\":0.5000,\"unit\":\"us\"}",
                new Figure("echo", params, "p50_us", 0.5, "us").toJson());
    }

    @Test
    void pausesAreReadFromTheLog() {
        String longest =
                "[0.1s][info][safepoint] Safepoint \"G1CollectForAllocation\", Time since last: 9 ns, Total:   1750000 ns";
        Pauses pauses = Pauses.of(List.of(
                "[0.1s][info][gc] GC(0) Pause Young (Normal) (G1 Evacuation Pause) 38M->2M(64M) 1.5ms",
                longest,
                "[0.2s][info][safepoint] Safepoint \"Cleanup\", Time since last: 9 ns, Total: 5000 ns",
                "[0.3s][info][gc] Allocation Stall (main) 3.2ms"));
        assertEquals(new Pauses(2, 1.75, longest, 1), pauses);
    }
}
