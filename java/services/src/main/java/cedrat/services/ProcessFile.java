package cedrat.services;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/// The file with the processes of a cluster: a line `PID BOOT/TICKS NAME` for each, where `BOOT/TICKS` is the start
/// of the process ([OsProcess]). **Threads:** one at a time.
final class ProcessFile {
    private static final Pattern LINE = Pattern.compile("(\\d{1,18}) (\\S+/\\d+) (\\S+)");

    private final Path file;
    private final Map<String, OsProcess> processes = new LinkedHashMap<>();

    /// Reads it, if it is there.
    ///
    /// @throws IOException if it is not such a file
    ProcessFile(Path file) throws IOException {
        this.file = file;
        if (Files.exists(file)) {
            for (String line : Files.readAllLines(file)) {
                Matcher parts = LINE.matcher(line);
                if (!parts.matches()) {
                    throw new IOException("invalid line in " + file + ": " + line
                            + ": end the processes that it names, and remove the file");
                }
                processes.put(parts.group(3), new OsProcess(Long.parseLong(parts.group(1)), parts.group(2)));
            }
        }
    }

    /// Returns the process of a server; `null` if it does not run.
    OsProcess running(String name) throws IOException {
        OsProcess process = processes.get(name);
        return process != null && process.isAlive() ? process : null;
    }

    /// Records the process of a server, before another thing is done.
    void put(String name, OsProcess process) throws IOException {
        processes.put(name, process);
        write();
    }

    /// Removes the process of a server, which has ended.
    void remove(String name) throws IOException {
        processes.remove(name);
        write();
    }

    private void write() throws IOException {
        Path fresh = file.resolveSibling(file.getFileName() + ".new");
        Files.writeString(
                fresh,
                processes.entrySet().stream()
                        .map(each ->
                                each.getValue().pid() + " " + each.getValue().since() + " " + each.getKey() + "\n")
                        .collect(Collectors.joining()));
        Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE);
    }
}
