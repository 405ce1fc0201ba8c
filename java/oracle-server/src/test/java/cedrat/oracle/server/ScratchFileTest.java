package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ScratchFileTest {
    @TempDir
    private Path folder;

    private record Put(long place, byte[] bytes) {}

    private static void assertThere(ScratchFile file, Put put) {
        byte[] found = new byte[put.bytes.length + 10];
        file.get(put.place, found, put.bytes.length);
        assertArrayEquals(put.bytes, Arrays.copyOf(found, put.bytes.length));
    }

    /// O2.
    /// A page that is put stays until it is freed, beside all others; and the file is no longer than the pages
    /// that were in it at a time need.
    @Test
    void storedBytesAreReadBack() throws IOException {
        SplittableRandom random = new SplittableRandom(1);
        try (ScratchFile file = new ScratchFile(folder)) {
            List<Put> all = new ArrayList<>();
            for (int step = 0; step < 20_000; step++) {
                if (all.size() < 50 && random.nextBoolean()) {
                    byte[] bytes = new byte[random.nextInt(4) == 0 ? random.nextInt(90_000) : random.nextInt(3000)];
                    random.nextBytes(bytes);
                    byte[] longer = Arrays.copyOf(bytes, bytes.length + random.nextInt(10));
                    all.add(new Put(file.put(longer, bytes.length), bytes));
                } else if (!all.isEmpty()) {
                    Put some = all.get(random.nextInt(all.size()));
                    assertThere(file, some);
                    if (random.nextBoolean()) {
                        file.free(some.place, some.bytes.length);
                        all.remove(some);
                    }
                }
            }
            all.forEach(put -> assertThere(file, put));
            assertTrue(file.length() < 50L * (1 << 17), file.length() + " bytes: freed blocks are used again");
        }
    }

    /// O2: a place of one that is not there, or was overwritten, is an error, and no other's bytes.
    @Test
    void missingBytesAreAnError() throws IOException {
        try (ScratchFile file = new ScratchFile(folder)) {
            byte[] bytes = new byte[700];
            long first = file.put(bytes, 600);
            long second = file.put(bytes, 600);
            assertThrows(UncheckedIOException.class, () -> file.get(first, bytes, 601));
            assertThrows(UncheckedIOException.class, () -> file.get(first + 512, bytes, 100));
            assertThrows(UncheckedIOException.class, () -> file.get(second + 4096, bytes, 600));
            file.free(first, 600);
            byte[] other = new byte[600];
            Arrays.fill(other, (byte) 1);
            assertEquals(first, file.put(other, 599));
            assertThrows(UncheckedIOException.class, () -> file.get(first, bytes, 600));
        }
    }

    /// A block of the file, as [ScratchFile] draws it.
    private static byte[] block(byte[] bytes, int checksum) {
        return ByteBuffer.allocate(2 * Integer.BYTES + bytes.length)
                .order(ByteOrder.LITTLE_ENDIAN)
                .putInt(bytes.length)
                .putInt(checksum)
                .put(bytes)
                .array();
    }

    /// O2.
    /// Damage is found: bytes that are not those of the checksum, and a whole block that lies elsewhere than
    /// where it was put.
    @Test
    void damagedOrMisplacedBlockIsAnError() throws IOException {
        byte[] bytes = new byte[200];
        new SplittableRandom(1).nextBytes(bytes);
        CRC32C sum = new CRC32C();
        sum.update(bytes);
        int checksum = (int) sum.getValue();
        int least = 1 << 9;
        int header = 2 * Integer.BYTES;
        // Three more blocks in the midst of one that is put: a block begins where a multiple of its length does.
        ByteBuffer blocks = ByteBuffer.allocate(4 * least - header);
        blocks.put(least - header, block(bytes, checksum ^ least));
        blocks.put(2 * least - header, block(bytes, checksum ^ 2 * least ^ 1));
        blocks.put(3 * least - header, block(bytes, checksum));
        try (ScratchFile file = new ScratchFile(folder)) {
            assertEquals(0, file.put(blocks.array(), blocks.capacity()));
            assertThere(file, new Put(least, bytes));
            byte[] found = new byte[bytes.length];
            assertThrows(UncheckedIOException.class, () -> file.get(2 * least, found, found.length));
            assertThrows(UncheckedIOException.class, () -> file.get(3 * least, found, found.length));
        }
    }

    /// O2: the file has no directory entry; so a killed server leaves no file behind.
    @Test
    void theFileHasNoName() throws IOException {
        Path made = folder.resolve("made/here");
        try (ScratchFile file = new ScratchFile(made)) {
            file.put(new byte[5000], 5000);
            try (Stream<Path> found = Files.list(made)) {
                assertEquals(0, found.count());
            }
        }
        Path file = Files.createFile(folder.resolve("file"));
        assertThrows(IOException.class, () -> new ScratchFile(file));
    }
}
