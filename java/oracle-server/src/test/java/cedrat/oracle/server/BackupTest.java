package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.OpenMode;
import cedrat.oracle.log.Restoration;
import cedrat.oracle.log.embedded.EmbeddedLog;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.server.cluster.RawClient;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/// O5g and O5h: backups of an oracle that serves, and the oracles that are restored from them.
@Timeout(300)
class BackupTest {
    private static final Path PAGE = Path.of("../../docs/use/oracle-backup.md");
    private static final int LOG_BYTES_MAX = 1 << 20;
    private static final ServerOptions OPTIONS = ServerOptions.DEFAULTS
            .withListen(new InetSocketAddress("127.0.0.1", 0))
            .withRowsLog2(8)
            .withLogBytesMax(LOG_BYTES_MAX)
            .withSessionTimeout(Duration.ofDays(1));

    @TempDir
    Path folder;

    record Result(int code, String out, String err) {}

    static Result run(String... arguments) {
        StringWriter out = new StringWriter();
        StringWriter err = new StringWriter();
        int code = AdminCommands.addTo(new CommandLine(new Main(Fault.NONE)))
                .setCaseInsensitiveEnumValuesAllowed(true)
                .setOut(new PrintWriter(out))
                .setErr(new PrintWriter(err))
                .execute(arguments);
        return new Result(code, out.toString(), err.toString());
    }

    private static void assertDone(Result result) {
        assertEquals(0, result.code(), result.err());
    }

    private static Log log(Path data, OpenMode mode) {
        return new EmbeddedLog(EmbeddedLog.Options.keeping(data, LOG_BYTES_MAX).withMode(mode));
    }

    private static OracleServer start(Path data, OpenMode mode) throws IOException, DamagedEntryException {
        return OracleServer.start(OPTIONS, log(data, mode));
    }

    private static Result backup(OracleServer server, Path file, String... more) {
        List<String> arguments = new ArrayList<>(List.of("backup", file.toString(), "--oracle"));
        arguments.add("127.0.0.1:" + server.address().getPort());
        arguments.addAll(List.of(more));
        return run(arguments.toArray(String[]::new));
    }

    private static Result restore(Path file, Path data, String... more) {
        List<String> arguments = new ArrayList<>(List.of("restore", file.toString(), "--log", "embedded"));
        arguments.addAll(List.of("--data", data.toString(), "--log-bytes-max", "" + LOG_BYTES_MAX));
        arguments.addAll(List.of(more));
        return run(arguments.toArray(String[]::new));
    }

    private static long identity(OracleServer server) throws Exception {
        try (RawClient client = new RawClient(server.address(), 99, Protocol.VERSION)) {
            return client.reply.identity();
        }
    }

    /// Replaces parts that differ from run to run.
    private String comparable(String text) {
        return text.replace(folder.toString(), "")
                .replaceAll("\\b[0-9a-f]{16}\\b", "ID")
                .replaceAll("(entries|bytes|above) \\d+", "$1 N");
    }

    @Test
    void examplesOfThePageRun() throws Exception {
        Files.createDirectories(folder.resolve("backups"));
        Path snapshots = Files.writeString(folder.resolve("backups/snapshots.sh"), "#!/bin/sh\nexit 0\n");
        assertTrue(snapshots.toFile().setExecutable(true));
        int run = 0;
        try (OracleServer server = start(folder.resolve("one"), OpenMode.CREATE);
                RawClient client = new RawClient(server, 1)) {
            for (int commit = 0; commit < 4; commit++) {
                client.commit(client.begin(), 7);
            }
            client.begin();
            List<String> lines = Files.readAllLines(PAGE);
            for (int at = 0; at < lines.size(); at++) {
                if (!lines.get(at).startsWith("$ cedrat-oracle ")) {
                    continue;
                }
                String command = lines.get(at).substring("$ cedrat-oracle ".length());
                command = command.replaceAll("(?<=[ :])(/backups|/var/lib|/mnt)", folder + "$1");
                command += command.startsWith("backup")
                        ? " --oracle 127.0.0.1:" + server.address().getPort()
                        : " --log-bytes-max " + LOG_BYTES_MAX;
                Result result = run(command.split(" "));
                assertDone(result);
                assertEquals(comparable(lines.get(at + 1) + "\n"), comparable(result.out()));
                run++;
            }
        }
        assertEquals(3, run);
        start(folder.resolve("mnt/disk/oracle"), OpenMode.EXISTING).close();
        assertThrows(DamagedEntryException.class, () -> start(folder.resolve("var/lib/restored"), OpenMode.EXISTING));
    }

    /// O5g: what the restored oracle knows of commits is a prefix of them, and has all from before the backup.
    @Test
    void backupUnderLoadHasEarlierDecisions() throws Exception {
        Path file = folder.resolve("backup");
        Map<Long, Long> before = new TreeMap<>();
        Map<Long, Long> meanwhile = new TreeMap<>();
        AtomicBoolean isDone = new AtomicBoolean();
        try (OracleServer server = start(folder.resolve("one"), OpenMode.CREATE);
                RawClient first = new RawClient(server, 1);
                RawClient second = new RawClient(server, 2)) {
            for (int row = 0; row < 5000; row++) {
                long start = first.begin();
                before.put(first.commit(start, row % 100 + 1), start);
            }
            CompletableFuture<Void> load = CompletableFuture.runAsync(() -> {
                try {
                    for (int row = 0; !isDone.get(); row++) {
                        long start = second.begin();
                        meanwhile.put(second.commit(start, row % 100 + 1), start);
                    }
                } catch (Exception problem) {
                    throw new AssertionError(problem);
                }
            });
            Result made = backup(server, file);
            isDone.set(true);
            load.join();
            assertDone(made);
        }
        assertDone(restore(file, folder.resolve("two")));
        try (OracleServer restored = start(folder.resolve("two"), OpenMode.EXISTING);
                RawClient client = new RawClient(restored, 3)) {
            long reader = client.begin();
            assertTrue(reader > Restoration.PER_SECOND, "begins at " + reader);
            for (Map.Entry<Long, Long> commit : before.entrySet()) {
                assertEquals(commit.getKey(), client.status(reader, commit.getValue()));
            }
            boolean isKnown = true;
            for (Map.Entry<Long, Long> commit : meanwhile.entrySet()) {
                boolean isThis = client.status(reader, commit.getValue()) == commit.getKey();
                assertTrue(isKnown || !isThis, "a commit is known, and an earlier one is not");
                isKnown = isThis;
            }
        }
    }

    /// O5h.
    @Test
    void transactionsFromBeforeRestoreCannotCommit() throws Exception {
        Path file = folder.resolve("backup");
        long identity;
        long open;
        long reading;
        long later;
        long newest;
        try (OracleServer server = start(folder.resolve("one"), OpenMode.CREATE);
                RawClient client = new RawClient(server, 1)) {
            identity = identity(server);
            open = client.begin();
            reading = client.begin();
            assertDone(backup(server, file));
            assertTrue(client.commit(open, 7) > open, "after the backup");
            later = client.begin();
            newest = client.begin();
        }
        long above = newest + 1000;
        assertDone(restore(file, folder.resolve("two"), "--above", "" + above));
        try (OracleServer restored = start(folder.resolve("two"), OpenMode.EXISTING);
                RawClient client = new RawClient(restored, 1)) {
            assertEquals(identity, identity(restored));
            assertEquals(above + 1, client.begin());
            assertEquals(above + 2, client.commit(above + 1, 7), "no conflict with what was lost");
            assertEquals(Protocol.ABORTED, client.commit(open, 7));
            assertEquals(Protocol.ABORTED, client.ask(Protocol.END, reading));
            assertEquals(Protocol.UNKNOWN, client.commit(later, 8));
            assertEquals(Protocol.ABORTED, client.ask(Protocol.END, newest), "its snapshot may lack versions");
            assertEquals(Protocol.UNKNOWN, client.ask(Protocol.RESOLVE, later));
            assertEquals(above + 3, client.lowWaterMark());
        }
        Result tooLow = restore(file, folder.resolve("three"), "--above", "" + reading);
        assertEquals(Main.EXIT_USAGE, tooLow.code(), tooLow.err());
        assertEquals(
                Main.EXIT_USAGE,
                restore(file, folder.resolve("three"), "--above", "" + (1L << 61))
                        .code());
        assertFalse(Files.exists(folder.resolve("three")));
    }

    /// O5g: a transaction that is cleaned up while tables are copied has its outcome in the backup.
    @Test
    void outcomesAreKeptWhileTablesAreCopied() throws Exception {
        Path file = folder.resolve("backup");
        Path begun = folder.resolve("begun");
        Path done = folder.resolve("done");
        long start;
        long commit;
        try (OracleServer server = start(folder.resolve("one"), OpenMode.CREATE);
                RawClient client = new RawClient(server, 1)) {
            start = client.begin();
            commit = client.commit(start, 7);
            String copying = "touch " + begun + "; while [ ! -e " + done + " ]; do sleep 0.01; done";
            CompletableFuture<Result> made =
                    CompletableFuture.supplyAsync(() -> backup(server, file, "--during", copying));
            while (!Files.exists(begun)) {
                assertFalse(made.isDone(), "the backup has ended");
                Thread.onSpinWait();
            }
            client.out.starts(Protocol.CLEANED, 0, client.id(), new long[] {start}, 0, 1);
            assertEquals(1, client.send().receive().value());
            Files.createFile(done);
            assertDone(made.join());
            Path none = folder.resolve("none");
            Result failed = backup(server, none, "--during", "exit 3");
            assertEquals(1, failed.code());
            assertTrue(failed.err().contains("exit code 3"), failed.err());
            assertFalse(Files.exists(none) || Files.exists(folder.resolve("none.unfinished")));
        }
        assertDone(restore(file, folder.resolve("two")));
        try (OracleServer restored = start(folder.resolve("two"), OpenMode.EXISTING);
                RawClient client = new RawClient(restored, 1)) {
            assertEquals(commit, client.status(client.begin(), start));
        }
    }

    @Test
    void stoppedLogIsRestoredAgainAndAgain() throws Exception {
        long start;
        long commit;
        try (OracleServer server = start(folder.resolve("0"), OpenMode.CREATE);
                RawClient client = new RawClient(server, 1)) {
            start = client.begin();
            commit = client.commit(start, 7);
            Result inUse = run(
                    "log",
                    "backup",
                    "" + folder.resolve("none"),
                    "--log",
                    "embedded",
                    "--data",
                    "" + folder.resolve("0"));
            assertEquals(1, inUse.code(), inUse.err());
        }
        long newest = 0;
        Set<Long> generations = new HashSet<>();
        for (int round = 0; round < 3; round++) {
            Path file = folder.resolve("backup" + round);
            Path data = folder.resolve("" + round);
            assertDone(run("log", "backup", file.toString(), "--log", "embedded", "--data", data.toString()));
            assertEquals(
                    4,
                    run("log", "backup", file.toString(), "--log", "embedded", "--data", data.toString())
                            .code());
            Path next = folder.resolve("" + (round + 1));
            assertDone(restore(file, next));
            assertEquals(Main.EXIT_EXISTS, restore(file, next).code());
            try (OracleServer restored = start(next, OpenMode.EXISTING);
                    RawClient client = new RawClient(restored.address(), 1, Protocol.VERSION)) {
                assertTrue(generations.add(client.reply.generation()), "O5j");
                long reader = client.begin();
                assertTrue(reader > newest + Restoration.PER_SECOND);
                newest = reader;
                assertEquals(commit, client.status(reader, start));
            }
        }
    }

    @Test
    void secondBackupAtOnceIsRefused() throws Exception {
        try (OracleServer server = start(folder.resolve("one"), OpenMode.CREATE)) {
            InetSocketAddress address = InetSocketAddress.createUnresolved(
                    "127.0.0.1", server.address().getPort());
            try (AdminConnection first = AdminConnection.open(List.of(address), new ClientSecurity(), 60_000)) {
                first.backup(true, 1, (whole, total, next) -> {});
                Result refused = backup(server, folder.resolve("backup"));
                assertEquals(1, refused.code());
                assertTrue(refused.err().contains("makes another backup"), refused.err());
            }
            server.settle();
            assertDone(backup(server, folder.resolve("backup")));
            assertEquals(1, backup(server, folder.resolve("backup")).code(), "the file exists");
        }
    }

    @Test
    void neglectedBackupEnds() {
        BackupStream stream = new BackupStream();
        long[] numbers = new long[Protocol.ADMIN_VALUES_MAX];
        stream.part(null, true, numbers, 0);
        stream.snapshotBegins();
        byte[] entry = new byte[1 << 20];
        for (int count = 0; count < BackupStream.WAITING_MAX / entry.length; count++) {
            stream.entry(entry, entry.length);
        }
        Connection owner = new Connection(null, null);
        stream.part(owner, false, numbers, 0);
        assertEquals(2, numbers[0], "lost");
        stream.part(owner, true, numbers, 0);
        assertEquals(0, numbers[0], "another may begin");
    }
}
