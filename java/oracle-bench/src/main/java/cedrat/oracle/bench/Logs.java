package cedrat.oracle.bench;

import cedrat.oracle.log.Log;
import cedrat.oracle.log.embedded.EmbeddedLog;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/// The logs that an oracle can have.
final class Logs {
    /// What they are called.
    static final List<String> KINDS = List.of("none", "embedded");

    private Logs() {}

    /// Whether something of it is left behind the server's end.
    static boolean keeps(String kind) {
        return !kind.equals("none");
    }

    /// A directory on a real disk: below `CEDRAT_BENCH_DIR`, or the one that the program was started in.
    static Path newDirectory() throws IOException {
        String chosen = System.getenv("CEDRAT_BENCH_DIR");
        return Files.createTempDirectory(Path.of(chosen == null ? "." : chosen), "oracle-bench-");
    }

    /// The server's arguments that say where its log is.
    static List<String> arguments(String kind, Path directory) {
        return List.of("--data", directory.toString());
    }

    /// The log that a server has left.
    static Log open(String kind, String directory) {
        return switch (kind) {
            case "embedded" -> new EmbeddedLog(new EmbeddedLog.Options(Path.of(directory)));
            default -> throw new IllegalArgumentException("a log of kind " + kind + " leaves nothing");
        };
    }

    static void delete(Path directory) throws IOException {
        try (Stream<Path> all = Files.walk(directory)) {
            for (Path path : all.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(path);
            }
        }
    }
}
