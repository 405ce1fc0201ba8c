package cedrat.oracle.log;

import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.zip.CRC32C;

/// Reads what [BackupWriter] has written. For one thread at a time.
public final class BackupReader {
    private static final int BUFFER_BYTES = 1 << 16;

    private final Path file;
    private final CRC32C checksum = new CRC32C();
    private long offset;

    private BackupReader(Path file) {
        this.file = file;
    }

    /// Reads a file as a whole; reports its entries, and returns its end.
    ///
    /// @throws IOException if it cannot be read, or a byte of it is not what was written; entries before the
    ///     damage were reported
    /// @throws DamagedEntryException as `to` does
    public static Backup read(Path file, Log.Replay to) throws IOException, DamagedEntryException {
        try (InputStream in = new BufferedInputStream(Files.newInputStream(file), BUFFER_BYTES)) {
            return new BackupReader(file).read(in, to);
        }
    }

    private Backup read(InputStream in, Log.Replay to) throws IOException, DamagedEntryException {
        ByteBuffer header = next(in, Backup.HEADER_BYTES, 0);
        checksum.update(header.array(), 0, Backup.CHECKED_HEADER_BYTES);
        if (!Arrays.equals(Backup.MAGIC, Arrays.copyOf(header.array(), Backup.MAGIC.length))) {
            throw damaged("no backup of an oracle begins like this", 0);
        }
        if (header.getInt(Backup.CHECKED_HEADER_BYTES) != (int) checksum.getValue()) {
            throw damaged("its checksum does not match", 0);
        }
        short version = header.getShort(Backup.MAGIC.length);
        if (version != Backup.VERSION) {
            throw damaged("it has version " + version + ", and this program reads version " + Backup.VERSION, 0);
        }
        for (long entries = 0; ; entries++) {
            long at = offset;
            ByteBuffer block = block(in);
            int length = block.limit() - Backup.BLOCK_HEADER_BYTES;
            if (block.get(0) == Backup.ENTRY) {
                to.entry(block.array(), Backup.BLOCK_HEADER_BYTES, length);
                continue;
            }
            if (block.get(0) != Backup.END || length != Backup.END_BYTES) {
                throw damaged("a block of kind " + block.get(0) + " with " + length + " bytes", at);
            }
            block.position(Backup.BLOCK_HEADER_BYTES);
            Backup end =
                    new Backup(block.getLong(), block.getLong(), block.getLong(), block.getLong(), block.getLong());
            if (end.entries() != entries) {
                throw damaged("it has " + entries + " entries, and its end says " + end.entries(), at);
            }
            if (in.read() >= 0) {
                throw damaged("bytes follow its end", offset);
            }
            return end;
        }
    }

    /// Returns the next block without its checksum, which is checked.
    private ByteBuffer block(InputStream in) throws IOException {
        long at = offset;
        byte[] header = next(in, Backup.BLOCK_HEADER_BYTES, at).array();
        int length = ByteBuffer.wrap(header).order(ByteOrder.LITTLE_ENDIAN).getInt(1);
        if (length < 0 || length > Log.ENTRY_BYTES_MAX) {
            throw damaged("a block of " + length + " bytes", at);
        }
        byte[] rest = next(in, length + Integer.BYTES, at).array();
        byte[] block = Arrays.copyOf(header, header.length + rest.length);
        System.arraycopy(rest, 0, block, header.length, rest.length);
        int end = header.length + length;
        ByteBuffer checked = ByteBuffer.wrap(block).order(ByteOrder.LITTLE_ENDIAN);
        if (checked.getInt(end) != BackupWriter.checksum(checksum, at, block, end)) {
            throw damaged("its checksum does not match", at);
        }
        return checked.limit(end);
    }

    private ByteBuffer next(InputStream in, int length, long block) throws IOException {
        byte[] bytes = in.readNBytes(length);
        offset += bytes.length;
        if (bytes.length < length) {
            throw damaged("the file ends at byte " + offset + ", within a block", block);
        }
        return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    private IOException damaged(String what, long at) {
        return new IOException("the backup " + file + " is damaged at byte " + at + " (" + what
                + "): use another copy of it, or an earlier backup");
    }
}
