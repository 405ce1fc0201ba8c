package cedrat.oracle.log;

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.zip.CRC32C;

/// Writes a [Backup]. The file has its name only when it is complete and durable. For one thread at a time.
public final class BackupWriter implements AutoCloseable {
    private static final int BUFFER_BYTES = 1 << 16;

    private final Path file;
    private final Path unfinished;
    private final FileChannel channel;
    private final OutputStream out;
    private final CRC32C checksum = new CRC32C();
    private long offset;
    private long entries;

    /// Begins a file, which must not exist. The bytes go to a file beside it, with `.unfinished` behind the name, which
    /// replaces one that another attempt has left.
    public BackupWriter(Path file) throws IOException {
        this.file = file;
        if (Files.exists(file)) {
            throw new FileAlreadyExistsException(
                    file + " exists already: name another file for the backup, or remove it");
        }
        unfinished = file.resolveSibling(file.getFileName() + ".unfinished");
        channel = FileChannel.open(
                unfinished, StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE);
        out = new BufferedOutputStream(Channels.newOutputStream(channel), BUFFER_BYTES);
        ByteBuffer header = buffer(Backup.HEADER_BYTES)
                .put(Backup.MAGIC)
                .putShort(Backup.VERSION)
                .putShort((short) 0);
        checksum.update(header.array(), 0, Backup.CHECKED_HEADER_BYTES);
        write(header.putInt((int) checksum.getValue()).array());
    }

    private static ByteBuffer buffer(int length) {
        return ByteBuffer.allocate(length).order(ByteOrder.LITTLE_ENDIAN);
    }

    private void write(byte[] bytes) throws IOException {
        out.write(bytes);
        offset += bytes.length;
    }

    private void block(byte kind, byte[] bytes, int from, int length) throws IOException {
        ByteBuffer block = buffer(Backup.BLOCK_HEADER_BYTES + length + Integer.BYTES)
                .put(kind)
                .putInt(length)
                .put(bytes, from, length);
        block.putInt(checksum(checksum, offset, block.array(), block.position()));
        write(block.array());
    }

    static int checksum(CRC32C checksum, long offset, byte[] block, int length) {
        checksum.reset();
        checksum.update(buffer(Long.BYTES).putLong(offset).flip());
        checksum.update(block, 0, length);
        return (int) checksum.getValue();
    }

    /// Writes the next entry: `length` bytes from `from` on.
    public void entry(byte[] bytes, int from, int length) throws IOException {
        block(Backup.ENTRY, bytes, from, length);
        entries++;
    }

    /// Returns the number of entries so far.
    public long entries() {
        return entries;
    }

    /// Ends the file, makes it durable, and gives it its name.
    public void finish(long identity, long newest, long whole, long made) throws IOException {
        ByteBuffer end = buffer(Backup.END_BYTES)
                .putLong(identity)
                .putLong(newest)
                .putLong(entries)
                .putLong(whole)
                .putLong(made);
        block(Backup.END, end.array(), 0, Backup.END_BYTES);
        out.flush();
        channel.force(true);
        channel.close();
        Files.move(unfinished, file, StandardCopyOption.ATOMIC_MOVE);
        try (FileChannel directory = FileChannel.open(file.toAbsolutePath().getParent(), StandardOpenOption.READ)) {
            directory.force(true);
        }
    }

    /// Removes a file that is not finished.
    @Override
    public void close() throws IOException {
        channel.close();
        Files.deleteIfExists(unfinished);
    }
}
