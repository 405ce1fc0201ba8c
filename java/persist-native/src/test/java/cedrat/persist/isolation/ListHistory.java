package cedrat.persist.isolation;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/// History of transactions that read lists and append to them, each element once, so that a checker that
/// knows nothing of locks can infer what happened.
///
/// **Threads:** any.
final class ListHistory {
    /// Where histories lie that `./x test` has judged, each under what is expected of it.
    private static final Path FILES = Path.of("target/histories");

    private final List<String> lines = new ArrayList<>();
    private long committed;

    /// Operations of a transaction, in order. **Threads:** one at a time.
    static final class Seen {
        private final List<String> done = new ArrayList<>();

        /// It is run once more.
        void again() {
            done.clear();
        }

        void read(String list, List<Long> elements) {
            String text = elements.stream().map(String::valueOf).collect(Collectors.joining(","));
            done.add("[\"r\",\"" + list + "\",[" + text + "]]");
        }

        void append(String list, long element) {
            done.add("[\"append\",\"" + list + "\"," + element + "]");
        }
    }

    /// A transaction of a process is about to begin. What was said to have committed before is before it.
    synchronized void begins(int process) {
        add("invoke", process, new Seen());
    }

    /// It has committed.
    synchronized void committed(int process, Seen seen) {
        add("ok", process, seen);
        committed++;
    }

    /// It was rolled back.
    synchronized void failed(int process, Seen seen) {
        add("fail", process, seen);
    }

    private void add(String type, int process, Seen seen) {
        lines.add("{\"type\":\"" + type + "\",\"process\":" + process + ",\"value\":[" + String.join(",", seen.done)
                + "]}");
    }

    synchronized long committed() {
        return committed;
    }

    /// Writes it to where it is judged, once for each model that it is expected to satisfy, or with `not-` not to,
    /// in the format of Jepsen's Elle.
    synchronized void write(String name, String... expectations) throws IOException {
        for (String expectation : expectations) {
            Path folder = Files.createDirectories(FILES.resolve(expectation));
            Files.write(folder.resolve(name + ".jsonl"), lines);
        }
    }
}
