package cedrat.oracle.bench;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/// What the disk below a log takes at least: one synced write of 4 KiB after the other, into a file that has
/// all its blocks.
final class Disk {
    private static final int BLOCK_BYTES = 4096;
    private static final int BLOCKS = 1024;
    private static final int WRITES = 4 * BLOCKS;

    private Disk() {}

    /// How long writes took.
    static Histogram write(Path directory) throws IOException {
        Path file = directory.resolve("writes");
        Histogram writes = new Histogram();
        try (FileChannel channel = FileChannel.open(
                file, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE, StandardOpenOption.DSYNC)) {
            ByteBuffer block = ByteBuffer.allocateDirect(BLOCK_BYTES);
            for (int write = 0; write < BLOCKS + WRITES; write++) {
                block.clear();
                long before = System.nanoTime();
                channel.write(block, (long) (write % BLOCKS) * BLOCK_BYTES);
                if (write >= BLOCKS) {
                    writes.add(System.nanoTime() - before);
                }
            }
        } finally {
            Files.deleteIfExists(file);
        }
        return writes;
    }
}
