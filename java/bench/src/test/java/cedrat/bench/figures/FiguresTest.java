package cedrat.bench.figures;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cedrat.bench.figures.Figures.Figure;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

class FiguresTest {
    @Test
    void figureIsWrittenInSharedJsonFormat() {
        Map<String, Object> params = new LinkedHashMap<>();
        params.put("log", "none");
        params.put("clients", 16);
        params.put("warm", true);
        assertEquals(
                "{\"bench\":\"oracle\",\"system\":\"echo\",\"params\":{\"log\":\"none\",\"clients\":16,\"warm\":true},"
                        + "\"metric\":\"p50_us\",\"value\":0.5000,\"unit\":\"us\"}",
                new Figure("oracle", "echo", params, "p50_us", 0.5, "us").toJson());
    }
}
