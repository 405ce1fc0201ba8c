package cedrat.oracle.log.embedded;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.library.Libcedrat;
import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.EntryWriter;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.OracleReplay;
import cedrat.oracle.log.contract.LogContract;
import cedrat.oracle.log.contract.RecordingListener;
import cedrat.oracle.state.StatusOracle;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(300)
class EmbeddedLogTest extends LogContract {
    private static final int SEGMENT = 1 << 20;
    private static final int BLOCK = 4096;

    @TempDir
    Path folder;

    static EmbeddedLog.Options options(Path directory) {
        return new EmbeddedLog.Options(directory, 128L << 20, SEGMENT);
    }

    private static EmbeddedLog.Options small(Path directory) {
        return new EmbeddedLog.Options(directory, 4 << 20, 64 << 10);
    }

    @Override
    protected Log fresh() throws IOException {
        return new EmbeddedLog(options(Files.createTempDirectory(folder, "fresh")));
    }

    /// Appends the numbered entries from here to there, and returns when all are acknowledged.
    private static void append(EmbeddedLog log, RecordingListener listener, long from, long to)
            throws InterruptedException {
        long last = 0;
        for (long number = from; number < to; number++) {
            byte[] entry = Numbered.entry(number);
            last = log.append(entry, 0, entry.length);
            Arrays.fill(entry, (byte) 1); // it may be overwritten
        }
        listener.awaitAcknowledged(last);
    }

    /// Which numbered entries are there: the first, and the one behind the last.
    private static Numbered replayed(EmbeddedLog.Options options) throws Exception {
        Numbered replayed = new Numbered();
        RecordingListener listener = new RecordingListener();
        try (EmbeddedLog log = new EmbeddedLog(options)) {
            log.open(replayed, listener);
        }
        assertEquals(List.of(), listener.acknowledged());
        return replayed;
    }

    /// L2.
    @Test
    void acknowledgedEntriesAreReplayedByLaterOpenings() throws Exception {
        for (int opening = 0; opening < 4; opening++) {
            Numbered replayed = new Numbered();
            RecordingListener listener = new RecordingListener();
            try (EmbeddedLog log = new EmbeddedLog(options(folder))) {
                log.open(replayed, listener);
                assertEquals(opening * 120, replayed.next);
                append(log, listener, replayed.next, replayed.next + 120);
            }
            assertEquals((opening + 1) * 120, listener.newest(), "numbers go on behind what was replayed");
        }
        assertEquals(480, replayed(options(folder)).next);
    }

    @Test
    void longAndEmptyEntriesAreReplayed() throws Exception {
        byte[] large = new byte[Log.ENTRY_BYTES_MAX];
        Arrays.fill(large, 1000, large.length - 1000, (byte) 7);
        try (EmbeddedLog log = new EmbeddedLog(options(folder))) {
            log.open((bytes, from, length) -> {}, new RecordingListener());
            log.append(large, 0, 0);
            log.append(large, 0, large.length);
            log.append(large, 999, 2);
        }
        List<byte[]> found = new ArrayList<>();
        try (EmbeddedLog log = new EmbeddedLog(options(folder))) {
            log.open(
                    (bytes, from, length) -> found.add(Arrays.copyOfRange(bytes, from, from + length)),
                    new RecordingListener());
        }
        assertEquals(3, found.size());
        assertEquals(0, found.get(0).length);
        assertTrue(Arrays.equals(large, found.get(1)));
        assertTrue(Arrays.equals(new byte[] {0, 7}, found.get(2)));
    }

    /// L4.
    @Test
    void secondOwnerIsRefused() throws Exception {
        RecordingListener listener = new RecordingListener();
        try (EmbeddedLog log = new EmbeddedLog(options(folder))) {
            log.open(new Numbered(), listener);
            for (int attempt = 0; attempt < 2; attempt++) {
                EmbeddedLog second = new EmbeddedLog(options(folder));
                IOException refused =
                        assertThrows(IOException.class, () -> second.open(new Numbered(), new RecordingListener()));
                assertTrue(refused.getMessage().contains("CEDRAT_IN_USE"), refused.getMessage());
                assertThrows(IllegalStateException.class, () -> second.append(new byte[1], 0, 1));
                second.close();
            }
            append(log, listener, 0, 10);
        }
        assertEquals(10, replayed(options(folder)).next);
    }

    /// A process is killed in the midst of its appends, again and again.
    @Test
    void acknowledgedEntriesSurviveKilledProcess() throws Exception {
        long before = 0;
        for (int run = 0; run < 4; run++) {
            Process process = start(folder.toString());
            long kept = -1;
            try (BufferedReader lines = process.inputReader()) {
                long enough = before + 20 + 60 * run;
                for (String line; (line = lines.readLine()) != null; ) {
                    assertTrue(line.startsWith("kept "), line);
                    kept = Long.parseLong(line.substring(5));
                    if (kept >= enough && enough >= 0) {
                        EmbeddedLog second = new EmbeddedLog(options(folder));
                        assertThrows(
                                IOException.class, () -> second.open(new Numbered(), new RecordingListener()), "L4");
                        process.toHandle()
                                .destroyForcibly(); // unlike the process's own, it lets what was printed be read
                        enough = Long.MAX_VALUE;
                    }
                }
            }
            assertEquals(128 + 9, process.waitFor(), "it was killed");
            Numbered replayed = replayed(options(folder));
            assertEquals(0, replayed.first);
            assertTrue(
                    replayed.next > kept, "L2: entry " + kept + " was acknowledged, " + replayed.next + " are there");
            before = replayed.next;
        }
    }

    /// L3.
    @Test
    void afterAFailedWriteNothingIsAcknowledged() throws Exception {
        Process process = start(folder.toString(), "40");
        List<String> lines;
        try (BufferedReader reader = process.inputReader()) {
            lines = reader.lines().toList();
        }
        assertEquals(0, process.waitFor(), lines::toString);
        assertEquals("closed", lines.getLast());
        String failed = lines.get(lines.size() - 2);
        assertTrue(
                failed.startsWith("failed ") && failed.contains("CEDRAT_STOPPED") && failed.contains("reopen"), failed);
        List<String> before = lines.subList(0, lines.size() - 2);
        assertTrue(before.stream().allMatch(line -> line.startsWith("kept ")), before::toString);
        long kept = Long.parseLong(before.getLast().substring(5));
        assertTrue(kept < 40, "entry " + kept + " was kept by a disk that fails");
        assertTrue(replayed(options(folder)).next > kept);
    }

    private static Process start(String... arguments) throws IOException {
        String classPath = System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--enable-native-access=ALL-UNNAMED",
                "-D" + Libcedrat.PROPERTY + "=" + System.getProperty(Libcedrat.PROPERTY),
                "-cp",
                classPath,
                AppendingProcess.class.getName()));
        command.addAll(List.of(arguments));
        return new ProcessBuilder(command)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
    }

    @Test
    void truncationKeepsLogBounded() throws Exception {
        EmbeddedLog.Options options = small(folder);
        RecordingListener listener = new RecordingListener();
        long wanted = 0;
        byte[] bytes = new byte[2000];
        try (EmbeddedLog log = new EmbeddedLog(options)) {
            log.open((entry, from, length) -> {}, listener);
            for (int number = 1; number <= 10_000; number++) { // five times the limit
                log.append(bytes, 0, bytes.length);
                if (number % 100 == 0) {
                    listener.awaitAcknowledged(number);
                    wanted = number - 50;
                    log.forgetBefore(wanted);
                }
            }
            assertThrows(IllegalArgumentException.class, () -> log.forgetBefore(10_001));
        }
        assertTrue(size(folder.resolve("log")) <= options.limitBytes(), size(folder.resolve("log")) + " bytes");
        int[] found = {0};
        try (EmbeddedLog log = new EmbeddedLog(options)) {
            log.open((entry, from, length) -> found[0]++, new RecordingListener());
        }
        assertTrue(found[0] >= 10_000 - wanted + 1, found[0] + " entries are left");
        assertTrue(found[0] < 1000, found[0] + " entries are left");
    }

    /// L5: what earlier openings left is given up too.
    @Test
    void forgottenRecordsAreNotReplayed() throws Exception {
        RecordingListener listener = new RecordingListener();
        try (EmbeddedLog log = new EmbeddedLog(options(folder))) {
            log.open(new Numbered(), listener);
            append(log, listener, 0, 200);
        }
        RecordingListener again = new RecordingListener();
        try (EmbeddedLog log = new EmbeddedLog(options(folder))) {
            Numbered replayed = new Numbered();
            log.open(replayed, again);
            assertEquals(200, replayed.next);
            append(log, again, 200, 210);
            log.forgetBefore(201);
            log.forgetBefore(17); // asks for nothing more
        }
        Numbered replayed = replayed(options(folder));
        assertEquals(200, replayed.first);
        assertEquals(210, replayed.next);
        try (EmbeddedLog log = new EmbeddedLog(options(folder))) {
            log.open(new Numbered(), new RecordingListener());
            log.forgetBefore(10);
        }
        replayed = replayed(options(folder));
        assertTrue(200 <= replayed.first && replayed.first <= 209, "L5: entry " + replayed.first + " is the first");
        assertEquals(210, replayed.next);
    }

    @Test
    void fullLogErrorNamesRemedy() throws Exception {
        EmbeddedLog.Options options = new EmbeddedLog.Options(folder, 512 << 10, 64 << 10);
        RecordingListener listener = new RecordingListener();
        EmbeddedLog full = new EmbeddedLog(options);
        full.open(new Numbered(), listener);
        byte[] entry = new byte[7000];
        for (int appended = 0; appended < 1000; appended++) {
            full.append(entry, 0, entry.length);
        }
        Exception cause = listener.awaitFailed();
        assertTrue(cause.getMessage().contains("CEDRAT_LOG_FULL"), cause.getMessage());
        assertTrue(cause.getMessage().contains("raise the limit"), cause.getMessage());
        long kept = listener.newest();
        assertEquals(1001, full.append(entry, 0, entry.length), "entries are taken");
        full.close();
        assertEquals(kept, listener.newest(), "L3");
        assertFalse(listener.wasCalledAfterEnd());
        int[] found = {0};
        try (EmbeddedLog log = new EmbeddedLog(options)) {
            log.open((bytes, from, length) -> found[0]++, new RecordingListener());
        }
        assertTrue(found[0] >= listener.newest(), "L2");
        assertTrue(found[0] < 1000);
    }

    /// Written by who appends.
    @Test
    void shortEntryFailsOnFullLog() throws Exception {
        EmbeddedLog.Options options = new EmbeddedLog.Options(folder, 512 << 10, 64 << 10);
        RecordingListener listener = new RecordingListener();
        EmbeddedLog full = new EmbeddedLog(options);
        full.open(new Numbered(), listener);
        byte[] entry = new byte[100];
        long newest = 0;
        while (!listener.hasFailed()) { // each takes a block
            newest = full.append(entry, 0, entry.length);
            assertTrue(newest < 1000);
            listener.awaitAcknowledgedOrFailed(newest);
        }
        assertTrue(listener.awaitFailed().getMessage().contains("CEDRAT_LOG_FULL"));
        assertEquals(newest - 1, listener.newest());
        assertEquals(newest + 1, full.append(entry, 0, entry.length), "entries are taken");
        full.forgetBefore(1);
        full.close();
        assertEquals(newest - 1, listener.newest(), "L3");
        assertFalse(listener.wasCalledAfterEnd());
    }

    /// The newest write may be torn by a crash: all that lies before it is there.
    @Test
    void aTornTailIsDropped() throws Exception {
        Path before = Files.createDirectory(folder.resolve("before"));
        Path after = Files.createDirectory(folder.resolve("after"));
        Path original = folder.resolve("original");
        RecordingListener listener = new RecordingListener();
        try (EmbeddedLog log = new EmbeddedLog(options(original))) {
            log.open(new Numbered(), listener);
            append(log, listener, 0, 4);
            copy(original, before); // as it is when the power fails
            append(log, listener, 4, 6);
            copy(original, after);
        }
        Path segment = onlySegmentWithRecords(before);
        long end = blocks(segment).getLast() + BLOCK;
        long next = blocks(onlySegmentWithRecords(after)).stream()
                .filter(at -> at >= end)
                .findFirst()
                .orElseThrow();
        try (RandomAccessFile from = new RandomAccessFile(
                        after.resolve(before.relativize(segment)).toFile(), "r");
                RandomAccessFile to = new RandomAccessFile(segment.toFile(), "rw")) {
            byte[] torn = new byte[100]; // the header of a block, and a part of its first record
            from.seek(next);
            from.readFully(torn);
            to.seek(next);
            to.write(torn);
        }
        Numbered replayed = replayed(options(before));
        assertEquals(0, replayed.first);
        assertEquals(4, replayed.next);
        assertEquals(6, replayed(options(original)).next);
    }

    @Test
    void damageErrorNamesFileAndOffset() throws Exception {
        RecordingListener listener = new RecordingListener();
        try (EmbeddedLog log = new EmbeddedLog(options(folder))) {
            log.open(new Numbered(), listener);
            append(log, listener, 0, 2);
            append(log, listener, 2, 4);
        }
        Path segment = onlySegmentWithRecords(folder);
        long first = blocks(segment).getFirst();
        for (int within : new int[] {9, 70}) { // in the block's header, and in the record behind it
            long at = first + within;
            damage(segment, at);
            EmbeddedLog log = new EmbeddedLog(options(folder));
            IOException refused =
                    assertThrows(IOException.class, () -> log.open(new Numbered(), new RecordingListener()));
            assertTrue(refused.getMessage().contains("CEDRAT_DAMAGED"), refused.getMessage());
            assertTrue(
                    refused.getMessage().contains(segment + ", byte " + (first + within / 64 * 64) + ":"),
                    refused.getMessage());
            log.close();
            damage(segment, at); // back again
        }
        assertEquals(4, replayed(options(folder)).next);
    }

    /// The log is whole, but what lies in it is not what the oracle has written.
    @Test
    void entriesRefusedByOracleFailOpening() throws Exception {
        EntryWriter writer = new EntryWriter();
        try (EmbeddedLog log = new EmbeddedLog(options(folder))) {
            log.open((bytes, from, length) -> {}, new RecordingListener());
            for (long newest : new long[] {5, 9}) { // from 0 to 5, and from 4 to 9
                writer.begin(newest == 5 ? 0 : 4);
                writer.close(newest);
                log.append(writer.bytes(), 0, writer.length());
            }
        }
        for (int attempt = 0; attempt < 2; attempt++) { // no process has it open afterwards
            EmbeddedLog log = new EmbeddedLog(options(folder));
            StatusOracle oracle = new StatusOracle(10, new EntryWriter());
            DamagedEntryException refused = assertThrows(
                    DamagedEntryException.class, () -> log.open(new OracleReplay(oracle), new RecordingListener()));
            String place = "the log in " + folder + ": entry 2 of the log: ";
            assertTrue(refused.getMessage().startsWith(place), refused.getMessage());
            log.close();
        }
    }

    private static long size(Path directory) throws IOException {
        try (Stream<Path> files = Files.list(directory)) {
            return files.mapToLong(file -> file.toFile().length()).sum();
        }
    }

    private static void copy(Path from, Path to) throws IOException {
        try (Stream<Path> files = Files.walk(from)) {
            for (Path file : files.filter(Files::isRegularFile).toList()) {
                Path copy = to.resolve(from.relativize(file).toString());
                Files.createDirectories(copy.getParent());
                Files.copy(file, copy);
            }
        }
    }

    /// Where blocks begin in a segment.
    private static List<Long> blocks(Path segment) throws IOException {
        byte[] bytes = Files.readAllBytes(segment);
        byte[] magic = "CBLK".getBytes(StandardCharsets.US_ASCII);
        List<Long> blocks = new ArrayList<>();
        for (int at = BLOCK; at < bytes.length; at += BLOCK) {
            if (Arrays.equals(bytes, at, at + magic.length, magic, 0, magic.length)) {
                blocks.add((long) at);
            }
        }
        return blocks;
    }

    private static Path onlySegmentWithRecords(Path directory) throws IOException {
        List<Path> found = new ArrayList<>();
        try (Stream<Path> files = Files.list(directory.resolve("log"))) {
            for (Path file : files.toList()) {
                if (!blocks(file).isEmpty()) {
                    found.add(file);
                }
            }
        }
        assertEquals(1, found.size());
        return found.getFirst();
    }

    /// Turns a bit round.
    private static void damage(Path file, long at) throws IOException {
        try (RandomAccessFile bytes = new RandomAccessFile(file.toFile(), "rw")) {
            bytes.seek(at);
            int before = bytes.read();
            bytes.seek(at);
            bytes.write(before ^ 4);
        }
    }
}
