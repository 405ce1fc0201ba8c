package cedrat.oracle.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class DiskTest {
    @TempDir
    private Path folder;

    /// A write is one of a block that the file has, so that the disk has to keep nothing beside it.
    @Test
    void rewrittenBlocksKeepFileLength() throws IOException {
        Path file;
        try (Disk.Blocks blocks = new Disk.Blocks(folder)) {
            try (Stream<Path> all = Files.list(folder)) {
                file = all.findFirst().orElseThrow();
            }
            long length = (long) Disk.BLOCKS * Disk.BLOCK_BYTES;
            assertEquals(length, Files.size(file));
            for (int write = 0; write < Disk.BLOCKS + 2; write++) {
                blocks.write();
            }
            assertEquals(length, Files.size(file));
        }
        assertFalse(Files.exists(file));
    }
}
