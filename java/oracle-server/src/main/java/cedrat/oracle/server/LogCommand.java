package cedrat.oracle.server;

import cedrat.oracle.log.DamagedEntryException;
import java.io.BufferedOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/// `cedrat-oracle log`.
@Command(
        name = "log",
        mixinStandardHelpOptions = true,
        description = "What a log keeps.",
        subcommands = LogCommand.Dump.class)
final class LogCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    LogCommand() {}

    @Override
    public Integer call() {
        throw new ParameterException(
                spec.commandLine(), "the command `log` needs a subcommand: `log dump` shows the log");
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
}
