package cedrat.samples.transfers;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/// The command, of which each process writes what it does into a file of its own, in the folder in which it
/// runs.
final class RecordedMain {
    private static final String FILES = "history-";

    /// Aborted attempts are calls of their own, of a process number that no process has.
    private static final long ABORTED = 1_000_000_000;

    private RecordedMain() {}

    /// The command.
    public static void main(String[] arguments) {
        System.exit(Main.run(new Recorder(), RecordedMain.class, arguments));
    }

    /// One line for each call and each answer in the format of Jepsen's Elle, behind the time on the clock
    /// that all processes of a machine have. An account is a register: the number of its last transfer.
    private static final class Recorder implements Witness {
        private final long process = ProcessHandle.current().pid();
        private final Path file = Path.of(FILES + process);
        private final List<String> done = new ArrayList<>();

        @Override
        public void begins() {
            write(process, "invoke", List.of());
        }

        @Override
        public void tries() {
            if (!done.isEmpty()) {
                write(process + ABORTED, "invoke", List.of());
                write(process + ABORTED, "fail", done);
                done.clear();
            }
        }

        @Override
        public void sees(String account, long transfer) {
            done.add("[\"r\",\"" + account + "\"," + transfer + "]");
        }

        @Override
        public void changes(String account, long transfer) {
            done.add("[\"w\",\"" + account + "\"," + transfer + "]");
        }

        @Override
        public void commits() {
            write(process, "ok", done);
            done.clear();
        }

        private void write(long who, String type, List<String> operations) {
            String line = System.nanoTime() + "\t{\"type\":\"" + type + "\",\"process\":" + who + ",\"value\":["
                    + String.join(",", operations) + "]}\n";
            try {
                Files.writeString(file, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (IOException problem) {
                throw new UncheckedIOException(problem);
            }
        }
    }

    /// Lines that all processes have written in a folder, in the order of time. The last line of a killed process
    /// may be incomplete, and is then left out.
    static List<String> history(Path folder) throws IOException {
        List<String> lines = new ArrayList<>();
        try (Stream<Path> files = Files.list(folder)) {
            for (Path file : files.filter(each -> each.getFileName().toString().startsWith(FILES))
                    .toList()) {
                Files.readString(file)
                        .lines()
                        .filter(line -> line.endsWith("]}"))
                        .forEach(lines::add);
            }
        }
        lines.sort(Comparator.comparingLong(line -> Long.parseLong(line.substring(0, line.indexOf('\t')))));
        return lines.stream()
                .map(line -> line.substring(line.indexOf('\t') + 1))
                .toList();
    }
}
