package cedrat.oracle.server;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.LogMark;
import cedrat.oracle.log.LogMark.Kind;
import cedrat.oracle.log.OpenMode;
import cedrat.oracle.log.OracleReplay;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;

/// Moves the log of a stopped oracle.
///
/// ```text
///                  source                      target
/// 1                entries                     (nothing)
/// 2                entries                     BEGUN, entries
/// 3                entries, MOVED              BEGUN, entries
/// 4                entries, MOVED              BEGUN, entries, COMPLETE
/// ```
///
/// A server accepts the source before step 3, and the target after step 4: at most one of them at any time (O5i). A
/// repeated migration goes on where the one before has ended. It does not copy again what an earlier one has copied,
/// but compares it. Behind step 3 it only completes a target that has all entries: a target that is gone may have been
/// served since.
final class Migration {
    private final LogAccess from;
    private final LogAccess to;

    Migration(LogAccess from, LogAccess to) {
        this.from = from;
        this.to = to;
    }

    /// Moves the log; returns a line that says so.
    ///
    /// @throws cedrat.oracle.log.LogExistsException if another log is in the new place
    String run() throws IOException, DamagedEntryException {
        if (from.where().equals(to.where())) {
            throw new IllegalArgumentException("--from and --to are the same place");
        }
        Entries source = new Entries();
        String identity;
        try (ScratchOracle scratch = new ScratchOracle()) {
            OracleReplay replay = new OracleReplay(scratch.oracle());
            open(from, (bytes, at, length) -> {
                        source.entry(bytes, at, length);
                        replay.entry(bytes, at, length);
                    })
                    .close();
            if (source.movedTo == null) {
                replay.end();
            }
            identity = HexFormat.of().toHexDigits(scratch.oracle().identity());
        }
        if (source.movedTo == null) {
            copy();
        } else if (!source.movedTo.equals(to.where())) {
            throw new IOException("the log " + from.where() + " has moved already: it is " + source.movedTo);
        } else {
            complete(source);
        }
        return "moved the oracle " + identity + " to the log " + to.where();
    }

    private static LogFiller open(LogAccess place, Log.Replay replay) throws IOException, DamagedEntryException {
        LogFiller log = new LogFiller(place.make(OpenMode.EXISTING, "moves"));
        log.open(replay);
        return log;
    }

    /// Steps 2 to 4.
    private void copy() throws IOException, DamagedEntryException {
        Entries[] copied = new Entries[1];
        try (LogFiller target = LogFiller.begin(to, "moves", () -> copied[0] = new Entries());
                LogFiller source = new LogFiller(from.make(OpenMode.EXISTING, "moves"))) {
            if (!copied[0].isBegun) {
                target.appendDurably(new LogMark(Kind.BEGUN).entry());
            }
            Copying copying = new Copying(copied[0], target);
            try {
                source.open(copying);
            } catch (UncheckedIOException failed) {
                throw failed.getCause();
            }
            if (copying.source.movedTo != null || copying.source.count < copied[0].count) {
                throw differs();
            }
            target.await();
            source.appendDurably(new LogMark(Kind.MOVED, to.where()).entry());
            target.appendDurably(new LogMark(Kind.COMPLETE).entry());
        }
    }

    /// Step 4 alone.
    private void complete(Entries source) throws IOException, DamagedEntryException {
        Entries seen = new Entries();
        try {
            to.read(seen);
        } catch (IOException absent) {
            throw new IOException(
                    "the log " + from.where() + " has moved, and the log " + to.where() + " cannot be read ("
                            + absent.getMessage()
                            + "). It is not copied again, as it may have been served. If it is lost,"
                            + " write a backup by `cedrat-oracle log backup`, and restore that",
                    absent);
        }
        if (seen.isComplete || !seen.isBegun && seen.count > 0) {
            return; // it may have been served since
        }
        Entries copied = new Entries();
        try (LogFiller target = open(to, copied)) {
            if (copied.isComplete || !copied.isBegun) {
                return;
            }
            if (copied.count != source.count || !copied.isSame(source)) {
                throw differs();
            }
            target.appendDurably(new LogMark(Kind.COMPLETE).entry());
        }
    }

    private IOException differs() {
        return new IOException("the copy of the log " + to.where() + " is not of the log " + from.where()
                + " as it is now: remove this copy, and repeat the command");
    }

    /// Compares the entries of the source with those that are copied, and copies the others.
    private final class Copying implements Log.Replay {
        private final Entries copied;
        private final LogFiller target;
        private final Entries source = new Entries();

        Copying(Entries copied, LogFiller target) {
            this.copied = copied;
            this.target = target;
        }

        @Override
        public void entry(byte[] bytes, int from, int length) throws DamagedEntryException {
            source.entry(bytes, from, length);
            if (LogMark.isMark(bytes, from, length)) {
                return;
            }
            try {
                if (source.count > copied.count) {
                    target.append(bytes, from, length);
                } else if (source.count == copied.count && !source.isSame(copied)) {
                    throw differs();
                }
            } catch (IOException problem) {
                throw new UncheckedIOException(problem.getMessage(), problem);
            }
        }
    }

    /// Number and digest of the entries of a log, without its marks.
    private static final class Entries implements LogFiller.Begun {
        private final MessageDigest digest = sha256();
        private boolean hasEntry;
        private boolean isBegun;
        private boolean isComplete;
        private String movedTo;
        private long count;

        private static MessageDigest sha256() {
            try {
                return MessageDigest.getInstance("SHA-256");
            } catch (NoSuchAlgorithmException missing) {
                throw new AssertionError("each Java has SHA-256", missing);
            }
        }

        @Override
        public void entry(byte[] bytes, int from, int length) throws DamagedEntryException {
            if (LogMark.isMark(bytes, from, length)) {
                LogMark mark = LogMark.read(bytes, from, length);
                switch (mark.kind()) {
                    case BEGUN -> isBegun |= !hasEntry;
                    case COMPLETE -> isComplete = true;
                    case MOVED -> movedTo = mark.text();
                }
            } else {
                count++;
                digest.update(ByteBuffer.allocate(Integer.BYTES).putInt(length).flip());
                digest.update(bytes, from, length);
            }
            hasEntry = true;
        }

        @Override
        public boolean mayContinue() {
            return !hasEntry || isBegun && !isComplete;
        }

        boolean isSame(Entries other) {
            try {
                MessageDigest mine = (MessageDigest) digest.clone();
                MessageDigest others = (MessageDigest) other.digest.clone();
                return MessageDigest.isEqual(mine.digest(), others.digest());
            } catch (CloneNotSupportedException impossible) {
                throw new AssertionError("the digest of each Java can be cloned", impossible);
            }
        }
    }
}
