package cedrat.oracle.tables;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;

/// Temporary file of a transaction, for writes that exceed its buffer. Bytes are only appended and never changed, so
/// a position returns the same bytes until the end.
///
/// If the operating system permits it, the file is unlinked at once, so nothing of it outlives the process. It is no
/// channel, because an interrupt of the thread would close a channel.
///
/// **Threads:** any may call.
///
/// **Failure:** [TableException] of effect `NONE`: the content of the file is unchanged.
final class SpillFile implements AutoCloseable {
    private static final int STREAM_BYTES = 1 << 16;

    /// Writes the bytes of an entry.
    @FunctionalInterface
    interface Encoder {
        void writeTo(DataOutputStream out) throws IOException;
    }

    /// Reads an entry back.
    @FunctionalInterface
    interface Decoder<T> {
        T readFrom(DataInputStream in) throws IOException;
    }

    /// Empty for the default directory of the JVM.
    private final Optional<Path> directory;
    // The following fields are guarded by this object's monitor.
    /// `null` before the first append, and after the close.
    private RandomAccessFile file;
    /// Streams over the file. One of each is kept, because the file descriptor keeps a list of all streams.
    private FileOutputStream out;

    private FileInputStream in;
    /// Path of the file while it has one.
    private Path named;
    private long end;
    private boolean isClosed;

    /// Creates the file at the first append.
    SpillFile(Optional<Path> directory) {
        this.directory = directory;
    }

    /// Writes a byte string, preceded by its length.
    static void write(DataOutputStream out, Bytes bytes) throws IOException {
        out.writeInt(bytes.length());
        out.write(bytes.raw());
    }

    /// Reads a byte string that [#write] has written.
    static Bytes readBytes(DataInputStream in) throws IOException {
        byte[] bytes = new byte[in.readInt()];
        in.readFully(bytes);
        return Bytes.own(bytes);
    }

    /// Skips them.
    static void skipBytes(DataInputStream in) throws IOException {
        int length = in.readInt();
        if (in.skipBytes(length) < length) {
            throw new EOFException();
        }
    }

    /// Appends an entry, and returns its position.
    synchronized long append(Encoder encoder) {
        try {
            open();
            file.seek(end);
            DataOutputStream encoded = new DataOutputStream(new BufferedOutputStream(out, STREAM_BYTES));
            encoder.writeTo(encoded);
            encoded.flush();
            long begin = end;
            end = file.getFilePointer();
            return begin;
        } catch (IOException failed) {
            throw failure("write", failed);
        }
    }

    /// Reads the entry of this length at a position.
    synchronized <T> T read(long at, long length, Decoder<T> decoder) {
        try {
            open();
            file.seek(at);
            int buffer = (int) Math.min(Math.max(1, length), STREAM_BYTES);
            return decoder.readFrom(new DataInputStream(new BufferedInputStream(in, buffer)));
        } catch (IOException failed) {
            throw failure("read", failed);
        }
    }

    /// Returns the length of the file.
    synchronized long length() {
        return end;
    }

    private void open() throws IOException {
        if (isClosed) {
            throw new IOException("the file is closed");
        }
        if (file != null) {
            return;
        }
        if (named == null) { // otherwise it could not be opened the last time
            named = directory.isPresent()
                    ? Files.createTempFile(directory.get(), "cedrat-writes-", ".tmp")
                    : Files.createTempFile("cedrat-writes-", ".tmp");
        }
        file = new RandomAccessFile(named.toFile(), "rw");
        out = new FileOutputStream(file.getFD());
        in = new FileInputStream(file.getFD());
        try {
            Files.delete(named);
            named = null;
        } catch (IOException inUse) {
            named.toFile().deleteOnExit(); // the system deletes no open file
        }
    }

    private TableException failure(String what, IOException why) {
        String where = directory.map(Path::toString).orElseGet(() -> System.getProperty("java.io.tmpdir"));
        return new TableException(
                TableException.Effect.NONE,
                "cannot " + what + " the temporary file of a transaction in " + where + " (" + why
                        + "): free space there, or choose another directory or a larger buffer with "
                        + "TransactionManager.Options",
                why);
    }

    /// Removes the file. Later reads fail.
    @Override
    public synchronized void close() {
        isClosed = true;
        try {
            if (file != null) {
                file.close();
            }
            if (named != null) {
                Files.deleteIfExists(named);
            }
        } catch (IOException left) {
            // The bytes are no longer needed, and the file is removed at the end of the process at the latest.
        }
        file = null;
    }
}
