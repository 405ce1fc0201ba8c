package cedrat.oracle.bench;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/// Measures the disk below a log: one synced write of 4 KiB after the other, into a file that has
/// all its blocks.
final class Disk {
    static final int BLOCK_BYTES = 4096;
    static final int BLOCKS = 1024;
    private static final int WRITES = 4 * BLOCKS;

    private Disk() {}

    /// A file whose blocks are written again and again.
    static final class Blocks implements AutoCloseable {
        private final Path file;
        private final FileChannel channel;
        private final ByteBuffer block = ByteBuffer.allocateDirect(BLOCK_BYTES);
        private int next;

        /// A fresh file in this directory.
        Blocks(Path directory) throws IOException {
            file = Files.createTempFile(directory, "blocks-", "");
            file.toFile().deleteOnExit(); // of a server that is stopped
            try (FileChannel filling = FileChannel.open(file, StandardOpenOption.WRITE)) {
                filling.write(ByteBuffer.allocate(BLOCKS * BLOCK_BYTES));
                filling.force(true);
            }
            channel = FileChannel.open(file, StandardOpenOption.WRITE, StandardOpenOption.DSYNC);
        }

        /// Returns when the next block is on the disk.
        void write() throws IOException {
            block.clear();
            channel.write(block, (long) (next++ % BLOCKS) * BLOCK_BYTES);
        }

        @Override
        public void close() throws IOException {
            channel.close();
            Files.delete(file);
        }
    }

    /// Returns the durations of the writes.
    static Histogram write(Path directory) throws IOException {
        Histogram writes = new Histogram();
        try (Blocks blocks = new Blocks(directory)) {
            for (int write = 0; write < WRITES; write++) {
                long before = System.nanoTime();
                blocks.write();
                writes.add(System.nanoTime() - before);
            }
        }
        return writes;
    }
}
