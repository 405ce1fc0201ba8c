package cedrat.persist.xa;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.postgresql.xa.PGXADataSource;

/// A PostgreSQL server of its own, in a folder of its own, on a port of its own. Where the tests are run by root, it
/// belongs to the user `postgres`, for it refuses to serve root.
///
/// **Threads:** one.
final class Postgres {
    private static final String USER = "postgres";
    private static final int STARTS_MAX = 50;

    private final Path folder;
    private final Path programs;
    final int port;

    private Postgres(Path folder, Path programs, int port) {
        this.folder = folder;
        this.programs = programs;
        this.port = port;
    }

    /// Makes one and starts it.
    static Postgres start() throws IOException, InterruptedException {
        Path folder = Files.createTempDirectory(
                "cedrat-postgres", PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        if (isRoot()) {
            run(List.of("chown", USER, folder.toString()));
        }
        int port;
        try (ServerSocket any = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = any.getLocalPort();
        }
        Postgres server = new Postgres(folder, programs(), port);
        server.as("initdb", "--pgdata=" + server.data(), "--username=test", "--auth=trust", "--no-sync");
        server.restart();
        return server;
    }

    /// Where Debian has the newest server.
    private static Path programs() throws IOException {
        Path all = Path.of("/usr/lib/postgresql");
        if (!Files.isDirectory(all)) {
            throw new IllegalStateException("these tests need PostgreSQL: install the package postgresql");
        }
        try (Stream<Path> versions = Files.list(all)) {
            return versions.map(version -> version.resolve("bin"))
                    .filter(bin -> Files.isExecutable(bin.resolve("initdb")))
                    .max(Comparator.naturalOrder())
                    .orElseThrow(() -> new IllegalStateException("no server below " + all + ": install postgresql"));
        }
    }

    private static boolean isRoot() {
        return System.getProperty("user.name").equals("root");
    }

    private String data() {
        return folder.resolve("data").toString();
    }

    private void as(String program, String... arguments) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>();
        if (isRoot()) {
            command.addAll(List.of("setpriv", "--reuid=" + USER, "--regid=" + USER, "--clear-groups", "--"));
        }
        command.add(programs.resolve(program).toString());
        command.addAll(List.of(arguments));
        run(command);
    }

    private static void run(List<String> command) throws IOException, InterruptedException {
        Path said = Files.createTempFile("said", ".txt");
        Process process = new ProcessBuilder(command)
                .directory(Path.of("/").toFile())
                .redirectErrorStream(true)
                .redirectOutput(said.toFile())
                .start();
        int status = process.waitFor();
        String text = Files.readString(said, StandardCharsets.UTF_8);
        Files.delete(said);
        if (status != 0) {
            throw new IOException(command + " ended with " + status + ": " + text);
        }
    }

    /// Starts it, also after a kill: as soon as what was there before lets it.
    void restart() throws IOException, InterruptedException {
        String options = "-c listen_addresses=127.0.0.1 -c port=" + port
                + " -c unix_socket_directories='' -c max_prepared_transactions=20 -c lock_timeout=20s -c shared_buffers=8MB";
        IOException last = null;
        for (int start = 0; start < STARTS_MAX; start++) {
            try {
                as(
                        "pg_ctl",
                        "start",
                        "--wait",
                        "--pgdata=" + data(),
                        "--options=" + options,
                        "--log=" + data() + ".log");
                return;
            } catch (IOException e) {
                last = e;
            }
        }
        throw last;
    }

    /// As `kill -9` does: the first process, and what it has started, which would see that a moment later.
    void kill() throws IOException, InterruptedException {
        List<String> lines = Files.readAllLines(folder.resolve("data/postmaster.pid"));
        ProcessHandle first = ProcessHandle.of(Long.parseLong(lines.getFirst().trim()))
                .orElseThrow(() -> new IOException("the server is not running"));
        List<ProcessHandle> others = first.descendants().toList();
        first.destroyForcibly();
        first.onExit().join();
        others.forEach(ProcessHandle::destroyForcibly);
        others.forEach(other -> other.onExit().join());
    }

    static PGXADataSource source(int port) {
        PGXADataSource source = new PGXADataSource();
        source.setServerNames(new String[] {"127.0.0.1"});
        source.setPortNumbers(new int[] {port});
        source.setDatabaseName("postgres");
        source.setUser("test");
        source.setConnectTimeout((int) TimeUnit.MINUTES.toSeconds(1));
        return source;
    }

    /// Ends it, and what it has written.
    void stop() throws IOException, InterruptedException {
        as("pg_ctl", "stop", "--wait", "--mode=immediate", "--pgdata=" + data());
        try (Stream<Path> all = Files.walk(folder)) {
            all.sorted(Comparator.reverseOrder()).forEach(path -> {
                try {
                    Files.delete(path);
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
            });
        }
    }
}
