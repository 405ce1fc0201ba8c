package cedrat.persist.bench;

import cedrat.persist.bench.bank.Run;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/// How often a process has waited for its disk, from what `strace -f` wrote of it.
final class Syncs {
    /// The calls to be traced. A file that was opened with `O_SYNC` or `O_DSYNC` is synced by each write, another one
    /// by a write that says so itself.
    static final String CALLS =
            "openat,close,fsync,fdatasync,msync,sync_file_range,write,pwrite64,pwritev,pwritev2,io_submit";

    private static final Pattern OPENING = Pattern.compile("^(\\d+) +openat\\(\\w+, \"(.*)\", ([A-Z_|]+)(.*)$");
    private static final Pattern RESUMED = Pattern.compile("^(\\d+) +<\\.\\.\\. openat resumed>(.*)$");
    private static final Pattern RESULT = Pattern.compile(" = (\\d+)$");
    private static final Pattern CALLED = Pattern.compile("^\\d+ +(\\w+)\\((\\w+)");

    /// Files whose writes are synced.
    private final Set<String> synced = new HashSet<>();
    /// Flags of a call that another thread's call interrupts in the list, by thread.
    private final Map<String, String> unfinished = new HashMap<>();
    private boolean isMeasured;
    private long count;

    private Syncs() {}

    /// Returns the number of forced writes between the two files that [Run] makes.
    static long count(Path trace) throws IOException {
        Syncs syncs = new Syncs();
        try (Stream<String> lines = Files.lines(trace)) {
            lines.forEach(syncs::line);
        }
        return syncs.count;
    }

    private void line(String line) {
        Matcher opening = OPENING.matcher(line);
        if (opening.find()) {
            String path = opening.group(2);
            isMeasured = isMeasured ? !path.endsWith(Run.ENDS) : path.endsWith(Run.BEGINS);
            unfinished.put(opening.group(1), opening.group(3));
            opened(opening.group(1), opening.group(4));
            return;
        }
        Matcher resumed = RESUMED.matcher(line);
        if (resumed.find()) {
            opened(resumed.group(1), resumed.group(2));
            return;
        }
        Matcher called = CALLED.matcher(line);
        if (!called.find()) {
            return;
        }
        switch (called.group(1)) {
            case "close" -> synced.remove(called.group(2));
            case "fsync", "fdatasync", "msync", "sync_file_range", "io_submit" -> add();
            case "write", "pwrite64", "pwritev", "pwritev2" -> {
                if (synced.contains(called.group(2)) || line.contains("RWF_DSYNC") || line.contains("RWF_SYNC")) {
                    add();
                }
            }
            default -> throw new IllegalArgumentException("not traced on purpose: " + line);
        }
    }

    /// The thread's `openat` has come to an end, unless this is not it.
    private void opened(String thread, String end) {
        Matcher result = RESULT.matcher(end);
        if (!result.find()) {
            return;
        }
        String flags = unfinished.remove(thread);
        if (flags.contains("O_SYNC") || flags.contains("O_DSYNC")) {
            synced.add(result.group(1));
        } else {
            synced.remove(result.group(1));
        }
    }

    private void add() {
        if (isMeasured) {
            count++;
        }
    }
}
