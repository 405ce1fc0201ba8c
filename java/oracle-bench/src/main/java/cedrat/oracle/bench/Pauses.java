package cedrat.oracle.bench;

import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/// What a virtual machine has said of its collector with `-Xlog:gc,safepoint`.
///
/// @param count how often the program was stopped
/// @param longestMillis for how long at most
/// @param longest what the virtual machine says of that stop, with its cause; empty when there was none
/// @param stalls how often a thread had to wait for memory
record Pauses(long count, double longestMillis, String longest, long stalls) {
    /// `Safepoint "…", …, Total: 123456 ns`
    private static final Pattern STOP = Pattern.compile("Safepoint .*Total: +(\\d+) ns");

    static Pauses of(List<String> lines) {
        long count = 0;
        double longestMillis = 0;
        String longest = "";
        long stalls = 0;
        for (String line : lines) {
            Matcher stop = STOP.matcher(line);
            if (stop.find()) {
                count++;
                double millis = Long.parseLong(stop.group(1)) / 1e6;
                if (millis > longestMillis) {
                    longestMillis = millis;
                    longest = line;
                }
            } else if (line.contains("Allocation Stall")) {
                stalls++;
            }
        }
        return new Pauses(count, longestMillis, longest, stalls);
    }
}
