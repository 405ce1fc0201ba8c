package cedrat.oracle.bench;

import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/// Pauses of a virtual machine's collector, as logged with [#option].
final class Pauses {
    /// `[5000000ns] Safepoint "…", …, Total: 123456 ns`: stopped for so long until then, by the clock of
    /// `System.nanoTime`.
    private static final Pattern STOP = Pattern.compile("^\\[(\\d+)ns] Safepoint .*Total: +(\\d+) ns");

    /// When the program was stopped.
    final Beside.Course stops = new Beside.Course();

    /// Log line of the longest pause, with its cause; empty when there was none.
    private String longest = "";

    /// How often a thread had to wait for memory.
    private long stalls;

    private Pauses() {}

    /// Returns the option that makes a virtual machine log its pauses to this file.
    static String option(String file) {
        return "-Xlog:gc,safepoint:file=" + file + ":timenanos";
    }

    /// Of virtual machines of one kind.
    static Pauses of(List<String> lines) {
        Pauses pauses = new Pauses();
        lines.forEach(pauses::add);
        return pauses;
    }

    private void add(String line) {
        Matcher stop = STOP.matcher(line);
        if (stop.find()) {
            long to = Long.parseLong(stop.group(1));
            long from = to - Long.parseLong(stop.group(2));
            if (to - from > stops.longest) {
                longest = line;
            }
            stops.add(from, to);
        } else if (line.contains("Allocation Stall")) {
            stalls++;
        }
    }

    String longest() {
        return longest;
    }

    long stalls() {
        return stalls;
    }
}
