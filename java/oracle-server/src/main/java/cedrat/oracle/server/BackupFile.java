package cedrat.oracle.server;

import cedrat.oracle.log.BackupWriter;
import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.OracleReplay;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.HexFormat;

/// Backup that is being written. Each entry is replayed, as by a restore, so that no backup is kept that cannot be
/// restored. For one thread at a time.
final class BackupFile implements Log.Replay, AutoCloseable {
    private final Path file;
    private final ScratchOracle scratch;
    private final OracleReplay replay;
    private final BackupWriter writer;
    private final long made = Instant.now().getEpochSecond();

    /// Begins a file, which must not exist.
    BackupFile(Path file) throws IOException {
        this.file = file;
        writer = new BackupWriter(file);
        scratch = new ScratchOracle();
        replay = new OracleReplay(scratch.oracle());
    }

    /// Receives the next entry; throws [UncheckedIOException] if it cannot be written.
    @Override
    public void entry(byte[] bytes, int from, int length) throws DamagedEntryException {
        replay.entry(bytes, from, length);
        try {
            writer.entry(bytes, from, length);
        } catch (IOException problem) {
            throw new UncheckedIOException(problem.getMessage(), problem);
        }
    }

    /// Returns the number of entries so far.
    long entries() {
        return writer.entries();
    }

    /// Ends the file, whose outcomes are kept behind entry number `whole`; returns a line that describes it.
    String finish(long whole) throws IOException, DamagedEntryException {
        if (!replay.isWhole()) {
            replay.end();
            throw new DamagedEntryException("the log has no entry: initialise an oracle with `cedrat-oracle init`");
        }
        long identity = scratch.oracle().identity();
        long newest = scratch.oracle().newest();
        writer.finish(identity, newest, whole, made);
        return "backup " + file + " identity " + HexFormat.of().toHexDigits(identity) + " newest-timestamp " + newest
                + " entries " + writer.entries() + " bytes " + Files.size(file);
    }

    /// Removes the file if it is not finished.
    @Override
    public void close() throws IOException {
        try (writer) {
            scratch.close();
        }
    }
}
