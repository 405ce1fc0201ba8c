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

/// Temporary file with what the write buffer of a transaction had no room for. Bytes are only appended, and none is
/// changed; so what was read of a position once is read there until the end.
///
/// If the operating system lets it, the file loses its name at once: then nothing of it outlives its process. It is no
/// channel, which an interrupt of the thread would close.
///
/// **Threads:** any may call.
///
/// **Failure:** [TableException] of effect `NONE`: the file has what it had before.
final class SpillFile implements AutoCloseable {
    private static final int STREAM_BYTES = 1 << 16;

    /// Writes bytes.
    @FunctionalInterface
    interface Encoder {
        void writeTo(DataOutputStream out) throws IOException;
    }

    /// Reads them back.
    @FunctionalInterface
    interface Decoder<T> {
        T readFrom(DataInputStream in) throws IOException;
    }

    /// Empty for that of the JVM.
    private final Optional<Path> directory;
    // What follows is guarded by this object's monitor.
    /// `null` before the first append, and after the close.
    private RandomAccessFile file;
    /// Streams over the file: one each for its lifetime, as the descriptor keeps a list of them.
    private FileOutputStream out;

    private FileInputStream in;
    /// Its path while it has one.
    private Path named;
    private long end;
    private boolean isClosed;

    /// A file that is created when something is appended.
    SpillFile(Optional<Path> directory) {
        this.directory = directory;
    }

    /// Writes bytes with their number.
    static void write(DataOutputStream out, Bytes bytes) throws IOException {
        out.writeInt(bytes.length());
        out.write(bytes.raw());
    }

    /// Reads them back.
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

    /// Appends bytes, and returns the position of the first.
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

    /// Reads so many bytes from a position on.
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

    /// Returns the length.
    synchronized long length() {
        return end;
    }

    private void open() throws IOException {
        if (isClosed) {
            throw new IOException("it is closed");
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
            named.toFile().deleteOnExit(); // a system that removes no open file
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

    /// Removes it. Nothing can be read from it any more.
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
            // The bytes are of no use, and the file is removed with the process at the latest.
        }
        file = null;
    }
}
