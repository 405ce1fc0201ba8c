package cedrat.persist.libraries;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Objects of libraries that know nothing of stores: each kind works as a plain copy does, or is refused. One process
/// stores an object of each kind, the next one compares and changes them, a third one compares them again.
class LibrariesTest {
    private static final int WORKING_MIN = 278;

    /// The kinds whose objects assign to fields when they are read, and whose values follow from what may change: no
    /// memo fields.
    private static final Set<String> READ_IN_TRANSACTIONS = Set.of(
            "Commons Collections, CursorableLinkedList",
            "Commons Collections, LRUMap",
            "HdrHistogram, DoubleHistogram",
            "HdrHistogram, Histogram",
            "JTS, LineString",
            "JTS, MultiPoint",
            "JTS, Point",
            "JTS, Polygon",
            "JTS, STRtree");

    @TempDir
    Path folder;

    private final Map<String, String> results = new LinkedHashMap<>();

    @Test
    void eachKindWorksOrIsRefused() throws Exception {
        run("store");
        run("change");
        run("compare");
        Path table = Files.writeString(Path.of("target", "libraries.txt"), table());
        List<String> wrong = matching(Program.WRONG);
        assertTrue(wrong.isEmpty(), () -> wrong.size() + " kinds are wrong:\n" + String.join("\n", wrong));
        assertEquals(Kinds.all().size(), results.size());
        assertTrue(matching(Program.WORKS).size() >= WORKING_MIN, () -> "too few kinds work, see " + table);
        assertEquals(READ_IN_TRANSACTIONS, readInTransactions());
        for (String refused : matching(Program.REFUSED)) {
            assertTrue(refused.contains("cannot be persistent: "), refused);
        }
    }

    private Set<String> readInTransactions() {
        Set<String> found = new TreeSet<>();
        results.forEach((kind, result) -> {
            if (result.equals(Program.WORKS + Program.IN_TRANSACTIONS)) {
                found.add(kind.replace("\t", ", "));
            }
        });
        return found;
    }

    private List<String> matching(String outcome) {
        List<String> found = new ArrayList<>();
        results.forEach((kind, result) -> {
            if (result.startsWith(outcome)) {
                found.add(kind + ": " + result);
            }
        });
        return found;
    }

    /// Runs a process, whose results replace older ones.
    private void run(String mode) throws IOException, InterruptedException {
        Path found = folder.resolve(mode);
        Path errors = Path.of("target", mode + ".txt").toAbsolutePath();
        List<String> command = AgentCommand.of(
                System.getProperty("java.class.path"),
                Program.class.getName(),
                mode,
                folder.resolve("objects").toString(),
                found.toString());
        Process process = new ProcessBuilder(command)
                .redirectOutput(Redirect.to(errors.toFile()))
                .redirectErrorStream(true)
                .start();
        assertEquals(0, process.waitFor(), () -> "see " + errors);
        for (String line : Files.readAllLines(found)) {
            String[] parts = line.split("\t", 3);
            String kind = parts[0] + "\t" + parts[1];
            results.merge(kind, parts[2], LibrariesTest::merged);
        }
    }

    /// Keeps an older result that is worse: wrong, or read in a transaction only.
    private static String merged(String before, String now) {
        boolean isWorse = before.startsWith(Program.WRONG)
                || now.equals(Program.WORKS) && before.endsWith(Program.IN_TRANSACTIONS);
        return isWorse ? before : now;
    }

    private String table() {
        Map<String, int[]> counts = new TreeMap<>();
        results.forEach((kind, result) -> {
            int[] count = counts.computeIfAbsent(kind.substring(0, kind.indexOf('\t')), name -> new int[3]);
            count[List.of(Program.WORKS, Program.REFUSED, Program.WRONG).indexOf(result.split(" ", 2)[0])]++;
        });
        StringBuilder table = new StringBuilder("works refused wrong\n");
        counts.forEach(
                (library, count) -> table.append("%4d %4d %4d %s%n".formatted(count[0], count[1], count[2], library)));
        results.forEach(
                (kind, result) -> table.append(kind).append(": ").append(result).append('\n'));
        return table.toString();
    }
}
