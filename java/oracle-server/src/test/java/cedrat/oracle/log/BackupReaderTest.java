package cedrat.oracle.log;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// O5g: no damage of a backup is overlooked.
class BackupReaderTest {
    private static final Path PAGE = Path.of("../../docs/formats/oracle-backup.md");

    @TempDir
    Path folder;

    private Path write() throws IOException {
        Path file = folder.resolve("backup");
        try (BackupWriter writer = new BackupWriter(file)) {
            byte[] first = Identities.firstEntry(0x1122334455667788L);
            writer.entry(first, 0, first.length);
            writer.finish(0x1122334455667788L, 0, 1, 0x6a000000);
        }
        return file;
    }

    private static List<byte[]> read(Path file) throws IOException, DamagedEntryException {
        List<byte[]> entries = new ArrayList<>();
        Backup end = BackupReader.read(
                file, (bytes, from, length) -> entries.add(Arrays.copyOfRange(bytes, from, from + length)));
        assertEquals(new Backup(0x1122334455667788L, 0, 1, 1, 0x6a000000), end);
        return entries;
    }

    private void assertRefused(byte[] bytes, String what) throws IOException {
        Path damaged = Files.write(folder.resolve("damaged"), bytes);
        String why = assertThrows(IOException.class, () -> read(damaged), what).getMessage();
        assertTrue(why.contains("the backup " + damaged + " is damaged at byte "), why);
    }

    @Test
    void eachChangedByteIsRefused() throws Exception {
        Path file = write();
        assertArrayEquals(Identities.firstEntry(0x1122334455667788L), read(file).getFirst());
        byte[] bytes = Files.readAllBytes(file);
        for (int at = 0; at < bytes.length; at++) {
            for (int flip : new int[] {1, 0x80, 0xff}) {
                byte[] changed = bytes.clone();
                changed[at] ^= (byte) flip;
                assertRefused(changed, "byte " + at);
            }
            assertRefused(Arrays.copyOf(bytes, at), "cut at " + at);
        }
        assertRefused(Arrays.copyOf(bytes, bytes.length + 1), "longer");
    }

    @Test
    void unfinishedBackupHasNoName() throws Exception {
        Path file = folder.resolve("backup");
        try (BackupWriter writer = new BackupWriter(file)) {
            writer.entry(new byte[10], 0, 10);
            assertFalse(Files.exists(file));
        }
        try (var left = Files.list(folder)) {
            assertEquals(List.of(), left.toList());
        }
        write();
        assertThrows(FileAlreadyExistsException.class, this::write);
    }

    /// The bytes that the page of the format shows.
    @Test
    void exampleOfThePageIsWritten() throws Exception {
        StringBuilder digits = new StringBuilder();
        boolean isExample = false;
        for (String line : Files.readAllLines(PAGE)) {
            if (line.startsWith("```")) {
                isExample = line.equals("```hex");
            } else if (isExample) {
                digits.append(line.split(" {2,}")[0].replace(" ", ""));
            }
        }
        assertEquals(digits.toString(), HexFormat.of().formatHex(Files.readAllBytes(write())));
    }
}
