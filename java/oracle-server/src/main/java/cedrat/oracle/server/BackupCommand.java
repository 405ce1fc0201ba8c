package cedrat.oracle.server;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/// `cedrat-oracle backup`.
@Command(
        name = "backup",
        description =
                "Writes a backup of the oracle that serves, while it serves. It has all that the oracle had decided when the command began. With --during, it also has the outcome of each transaction whose rows a copy of the tables contains that the command makes.")
final class BackupCommand extends AdminCommands.Asking {
    /// Parts that are requested together, and released by one append.
    private static final int PARTS = 16;
    /// Bytes have to be fetched, and the session has to be heard of, while another command runs.
    private static final int FETCH_MS = 100;

    @Parameters(paramLabel = "FILE", description = "The file that is to be written.")
    private Path file;

    @Option(
            names = "--during",
            paramLabel = "COMMAND",
            description =
                    "Run this command of the shell, which copies the tables, when the state of the oracle is in the backup, and receive what the oracle decides until it ends. No backup is kept if it fails.")
    private String during;

    BackupCommand() {}

    @Override
    void run(AdminConnection server, PrintWriter out) throws IOException {
        try (BackupFile backup = new BackupFile(file)) {
            Stream stream = new Stream(backup);
            server.backup(true, 1, stream);
            while (stream.whole == 0) {
                server.backup(false, PARTS, stream);
            }
            if (during != null) {
                copyTables(server, stream);
            }
            // What was appended up to the next reply is acknowledged, and wanted.
            server.backup(false, 1, stream);
            for (long end = stream.total; stream.received < end; ) {
                server.backup(false, PARTS, stream);
            }
            out.println(backup.finish(stream.wholeEntries));
        } catch (DamagedEntryException | UncheckedIOException problem) {
            throw new IOException("cannot write the backup: " + problem.getMessage(), problem);
        }
    }

    private void copyTables(AdminConnection server, Stream stream) throws IOException {
        Process copying = new ProcessBuilder("/bin/sh", "-c", during)
                .redirectOutput(ProcessBuilder.Redirect.INHERIT)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        try {
            copying.getOutputStream().close();
            while (!copying.waitFor(FETCH_MS, TimeUnit.MILLISECONDS)) {
                server.backup(false, PARTS, stream);
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IOException("the thread was interrupted while `" + during + "` ran", interrupted);
        } finally {
            copying.destroy();
        }
        if (copying.exitValue() != 0) {
            throw new IOException("no backup is kept, because `" + during + "` has failed with exit code "
                    + copying.exitValue() + ": correct it, and repeat the backup");
        }
    }

    /// Puts entries together from the bytes that a server sends.
    private static final class Stream implements AdminConnection.BackupParts {
        private final BackupFile backup;
        private byte[] begun = {};
        private long received;
        private long total;
        private long whole;
        private long wholeEntries;

        Stream(BackupFile backup) {
            this.backup = backup;
        }

        @Override
        public void part(long whole, long total, byte[] next) throws IOException {
            this.whole = whole;
            this.total = total;
            received += next.length;
            ByteBuffer bytes = ByteBuffer.allocate(begun.length + next.length)
                    .order(ByteOrder.LITTLE_ENDIAN)
                    .put(begun)
                    .put(next)
                    .flip();
            while (bytes.remaining() >= Integer.BYTES) {
                int length = bytes.getInt(bytes.position());
                if (length < 0 || length > Log.ENTRY_BYTES_MAX) {
                    throw new IOException("cannot write the backup: the server has sent an entry of " + length
                            + " bytes: update the server, or this command");
                }
                if (bytes.remaining() < Integer.BYTES + length) {
                    break;
                }
                entry(bytes, length);
            }
            begun = Arrays.copyOfRange(bytes.array(), bytes.position(), bytes.limit());
        }

        private void entry(ByteBuffer bytes, int length) throws IOException {
            try {
                backup.entry(bytes.array(), bytes.position() + Integer.BYTES, length);
            } catch (DamagedEntryException damaged) {
                throw new IOException(
                        "cannot write the backup: the server has sent an invalid entry: " + damaged.getMessage(),
                        damaged);
            }
            bytes.position(bytes.position() + Integer.BYTES + length);
            if (whole > 0 && wholeEntries == 0 && received - bytes.remaining() == whole) {
                wholeEntries = backup.entries();
            }
        }
    }
}
