package cedrat.oracle.server;

import cedrat.oracle.log.Backup;
import cedrat.oracle.log.BackupReader;
import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Identities;
import cedrat.oracle.log.OracleReplay;
import cedrat.oracle.log.Restoration;
import cedrat.oracle.log.SnapshotReader;
import cedrat.oracle.state.StatusOracle;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Instant;
import java.util.HexFormat;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/// `cedrat-oracle restore`.
@Command(
        name = "restore",
        mixinStandardHelpOptions = true,
        description = {
            "Creates the log of an oracle from a backup. The identity of the oracle stays, its generation is another, and its timestamps begin above all that it has given out since the backup.",
            "Stop all clients and all servers of the oracle first. Transactions that were open at the end of the backup, or began later, have aborted: where they had committed, their rows that are not clean yet are lost."
        },
        exitCodeListHeading = "Exit codes:%n",
        exitCodeList = {
            "0:the log was created",
            "1:the backup is damaged, or the log cannot be created; no server accepts the log",
            "2:the command is invalid",
            "4:there is a log already; it was not changed"
        })
final class RestoreCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Parameters(paramLabel = "FILE", description = "The backup.")
    private Path file;

    @Mixin
    private LogOptions log;

    @Option(
            names = "--above",
            paramLabel = "N",
            description =
                    "Timestamps begin above this one, which has to be above all that were given out after the backup (default: 2^24 for each second since the backup, and for one hour more, above its newest one).")
    private Long above;

    RestoreCommand() {}

    @Override
    public Integer call() {
        return LogTask.run(spec.commandLine(), "cannot restore the oracle", () -> {
            LogPlace place = log.place();
            if (place.kind() == LogPlace.Kind.NONE) {
                log.makeNew();
            }
            return restore(place);
        });
    }

    private String restore(LogPlace place) throws IOException, DamagedEntryException {
        try (ScratchOracle before = new ScratchOracle();
                ScratchOracle continued = new ScratchOracle()) {
            Backup backup = replay(before);
            long newest = backup.newest();
            long first = above != null
                    ? above
                    : Restoration.above(backup, Instant.now().getEpochSecond());
            if (!Restoration.isPossible(newest, first)) {
                throw new IllegalArgumentException("cannot begin above timestamp " + first + ": choose one from "
                        + (newest + 1) + " to " + Restoration.ABOVE_MAX + " with --above");
            }
            long open = before.oracle().open();
            Restoration.continueAbove(before.oracle(), first, Identities.draw(), continued.oracle());
            fill(place, continued.oracle());
            return "restored the oracle "
                    + HexFormat.of().toHexDigits(continued.oracle().identity()) + " with the log " + place.where()
                    + ": timestamps begin above " + first + ", open transactions that have aborted: " + open;
        }
    }

    /// Writes the log of a restored oracle, as a whole, or so that no server accepts it.
    static void fill(LogAccess place, StatusOracle restored) throws IOException, DamagedEntryException {
        try (LogFiller filler = LogFiller.begin(place, "restores", UnfinishedRestore::new)) {
            Restoration.write(restored, filler::append);
            filler.await();
        }
    }

    /// Replays the backup, all of which is checked first; returns its end.
    private Backup replay(ScratchOracle before) throws IOException, DamagedEntryException {
        Backup backup = BackupReader.read(file, (bytes, from, length) -> {});
        OracleReplay replay = new OracleReplay(before.oracle());
        long[] entries = {0};
        try {
            BackupReader.read(file, (bytes, from, length) -> {
                if (entries[0]++ == backup.whole()) {
                    replay.keepForgotten();
                }
                replay.entry(bytes, from, length);
            });
            if (!replay.isWhole()) {
                replay.end();
            }
        } catch (DamagedEntryException invalid) {
            throw invalid.in("the backup " + file);
        }
        if (before.oracle().identity() != backup.identity() || before.oracle().newest() != backup.newest()) {
            throw new IOException("the backup " + file + " ends at timestamp " + backup.newest() + " of the oracle "
                    + HexFormat.of().toHexDigits(backup.identity())
                    + ", and its entries do not: use another copy of it");
        }
        return backup;
    }

    /// Entries of a log: whether they are those of a restore that was interrupted. Such a log has nothing but the first
    /// parts of one snapshot, which no server writes without a batch between them.
    static final class UnfinishedRestore implements LogFiller.Begun {
        private boolean hasOthers;
        private final SnapshotReader part = new SnapshotReader();

        UnfinishedRestore() {}

        @Override
        public void entry(byte[] bytes, int from, int length) throws DamagedEntryException {
            if (!SnapshotReader.isPart(bytes, from, length)) {
                hasOthers = true;
                return;
            }
            part.open(bytes, from, length);
            hasOthers |= part.isLast();
        }

        @Override
        public boolean mayContinue() {
            return !hasOthers;
        }
    }
}
