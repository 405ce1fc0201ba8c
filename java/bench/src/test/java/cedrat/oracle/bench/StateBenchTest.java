package cedrat.oracle.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;
import picocli.CommandLine;

class StateBenchTest {
    @Test
    void shortRunPrintsAllFiguresAsJson() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        PrintStream out = new PrintStream(bytes, true, StandardCharsets.UTF_8);
        String arguments = "--json --map-log2 12 --rows 100000 --clients 4 --seconds 0.01 --turns 1 --batch 1,8";
        assertEquals(0, new CommandLine(new StateBench(out)).execute(arguments.split(" ")));
        List<String> lines = bytes.toString(StandardCharsets.UTF_8).lines().toList();
        assertEquals(5, lines.size());
        String params = "\"params\":{\"part\":\"state\",\"map_log2\":12,\"rows\":100000,\"clients\":4,\"batch\":8}";
        String begin = "{\"bench\":\"oracle\",\"system\":\"cedrat\"," + params + ",\"metric\":\"state_commits_per_s\",";
        assertTrue(lines.get(1).startsWith(begin), lines.get(1));
        assertTrue(lines.get(3).contains("\"metric\":\"state_rows_kept\""), lines.get(3));
        assertTrue(lines.get(4).contains("\"metric\":\"state_bytes_per_row\""), lines.get(4));
    }
}
