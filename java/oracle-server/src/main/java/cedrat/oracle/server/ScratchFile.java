package cedrat.oracle.server;

import cedrat.oracle.state.PageStore;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.zip.CRC32C;

/// A file without a name, for outcomes that memory has no room for (O2): the system deletes it when its
/// server ends, however that ends.
///
/// ```text
/// file  block *                                  of a power of two of bytes each, 512 at least
/// block length 4 | checksum 4 | what was put     little endian
/// ```
///
/// Nothing is forced to the disk, as nothing of it is wanted after a crash. What is read is what was put
/// there, or an error: the checksum covers the block's place, too. Blocks that are free are used again; the
/// file does not become shorter. For one thread at a time.
final class ScratchFile implements PageStore, AutoCloseable {
    private static final int HEADER_BYTES = 2 * Integer.BYTES;
    private static final int BLOCK_LOG2_MIN = 9;
    private static final int BLOCK_LOG2_MAX = 24;

    private final Path directory;
    private final FileChannel file;
    private final CRC32C checksum = new CRC32C();
    /// By the logarithm of their size.
    private final ArrayList<ArrayList<Long>> free = new ArrayList<>();
    private ByteBuffer block = ByteBuffer.allocateDirect(1 << BLOCK_LOG2_MIN).order(ByteOrder.LITTLE_ENDIAN);
    private long end;

    /// A file in this directory, which is made if it is not there.
    ScratchFile(Path directory) throws IOException {
        this.directory = directory;
        Files.createDirectories(directory);
        Path path = directory.resolve(
                "cedrat-oracle-scratch-" + ProcessHandle.current().pid() + "-" + System.nanoTime());
        file = FileChannel.open(
                path,
                StandardOpenOption.CREATE_NEW,
                StandardOpenOption.READ,
                StandardOpenOption.WRITE,
                // Here that takes its name at once, so that it goes with its server even if that is killed.
                StandardOpenOption.DELETE_ON_CLOSE);
        for (int log2 = 0; log2 <= BLOCK_LOG2_MAX; log2++) {
            free.add(new ArrayList<>());
        }
    }

    @Override
    public long put(byte[] bytes, int length) {
        int log2 = blockLog2(length);
        ArrayList<Long> some = free.get(log2);
        long place = some.isEmpty() ? end : some.removeLast();
        if (place == end) {
            end += 1L << log2;
        }
        prepare(length);
        block.putInt(length)
                .putInt(checksum(place, bytes, length))
                .put(bytes, 0, length)
                .flip();
        try {
            for (long at = place; block.hasRemaining(); ) {
                at += file.write(block, at);
            }
        } catch (IOException problem) {
            throw new UncheckedIOException(
                    "cannot spill outcomes to the directory " + directory + ": " + problem.getMessage()
                            + "; free space there, or choose another directory (--scratch) or more memory"
                            + " (--outcome-bytes-max), and start the server again",
                    problem);
        }
        return place;
    }

    @Override
    public void get(long place, byte[] bytes, int length) {
        prepare(length);
        try {
            for (long at = place; block.hasRemaining(); ) {
                int count = file.read(block, at);
                if (count < 0) {
                    throw new IOException("the file ends at byte " + at);
                }
                at += count;
            }
            block.flip();
            int found = block.getInt();
            int sum = block.getInt();
            block.get(bytes, 0, length);
            if (found != length || sum != checksum(place, bytes, length)) {
                throw new IOException("its checksum at byte " + place + " does not match");
            }
        } catch (IOException problem) {
            throw new UncheckedIOException(
                    "cannot read spilled outcomes from the scratch file in " + directory + ": " + problem.getMessage()
                            + "; check its disk, and start the server again: it recovers them from the log",
                    problem);
        }
    }

    @Override
    public void free(long place, int length) {
        free.get(blockLog2(length)).add(place);
    }

    private void prepare(int length) {
        if (block.capacity() < HEADER_BYTES + length) {
            block = ByteBuffer.allocateDirect(1 << blockLog2(length)).order(ByteOrder.LITTLE_ENDIAN);
        }
        block.clear().limit(HEADER_BYTES + length);
    }

    private int checksum(long place, byte[] bytes, int length) {
        checksum.reset();
        checksum.update(bytes, 0, length);
        return (int) (checksum.getValue() ^ place ^ place >>> Integer.SIZE);
    }

    private static int blockLog2(int length) {
        return Math.max(BLOCK_LOG2_MIN, Integer.SIZE - Integer.numberOfLeadingZeros(HEADER_BYTES + length - 1));
    }

    /// Returns the length of the file.
    long length() {
        return end;
    }

    @Override
    public void close() throws IOException {
        file.close();
    }
}
