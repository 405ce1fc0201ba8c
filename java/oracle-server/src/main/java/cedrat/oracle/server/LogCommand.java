package cedrat.oracle.server;

import cedrat.oracle.log.DamagedEntryException;
import java.io.BufferedOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/// `cedrat-oracle log`.
@Command(
        name = "log",
        mixinStandardHelpOptions = true,
        description = "What a log keeps.",
        subcommands = {LogCommand.Dump.class, LogCommand.Backup.class})
final class LogCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    LogCommand() {}

    @Override
    public Integer call() {
        throw new ParameterException(
                spec.commandLine(),
                "the command `log` needs a subcommand: `log dump` shows the log, `log backup` writes a backup of it");
    }

    /// `cedrat-oracle log dump`.
    @Command(
            name = "dump",
            mixinStandardHelpOptions = true,
            description =
                    "Shows each entry of a log, and what was decided in it. With --log embedded, no server may have it open. A log in BookKeeper is shown up to what is known to be acknowledged, while its servers go on.",
            exitCodeListHeading = "Exit codes:%n",
            exitCodeList = {
                "0:all of it was shown",
                "1:it does not open, or is damaged; what was shown is what comes before",
                "2:the command is invalid"
            })
    static final class Dump implements Callable<Integer> {
        @Mixin
        private LogOptions log;

        @Option(names = "--json", description = "One object of JSON a line, one line an entry.")
        private boolean isJson;

        Dump() {}

        @Override
        public Integer call() {
            FileOutputStream standard = new FileOutputStream(FileDescriptor.out);
            PrintStream out = new PrintStream(new BufferedOutputStream(standard), false, StandardCharsets.UTF_8);
            try {
                LogDump dump = new LogDump(out, isJson);
                log.read(dump);
                dump.end();
                return 0;
            } catch (IOException | DamagedEntryException problem) {
                out.flush();
                System.err.println("cedrat-oracle: " + problem.getMessage());
                return Main.EXIT_CANNOT_START;
            } finally {
                out.flush();
            }
        }
    }

    /// `cedrat-oracle log backup`.
    @Command(
            name = "backup",
            mixinStandardHelpOptions = true,
            description =
                    "Writes a backup of the log of an oracle that is stopped. While a server runs, `cedrat-oracle backup` asks it for one.",
            exitCodeListHeading = "Exit codes:%n",
            exitCodeList = {
                "0:the backup was written",
                "1:the log does not open, or is damaged, or the file cannot be written; there is no backup",
                "2:the command is invalid",
                "4:the file exists already; it was not changed"
            })
    static final class Backup implements Callable<Integer> {
        @Parameters(paramLabel = "FILE", description = "The file that is to be written.")
        private Path file;

        @Mixin
        private LogOptions log;

        @Spec
        private CommandSpec spec;

        Backup() {}

        @Override
        public Integer call() {
            return LogTask.run(spec.commandLine(), "cannot write the backup", () -> {
                try (BackupFile backup = new BackupFile(file);
                        LogFiller stopped = new LogFiller(log.makeStored("writes a backup"))) {
                    stopped.open(backup);
                    return backup.finish(backup.entries());
                }
            });
        }
    }
}
