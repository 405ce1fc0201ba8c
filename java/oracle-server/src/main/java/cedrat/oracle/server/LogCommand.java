package cedrat.oracle.server;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
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
        throw new ParameterException(spec.commandLine(), "what of the log? `dump` shows it");
    }

    /// `cedrat-oracle log dump`.
    @Command(
            name = "dump",
            mixinStandardHelpOptions = true,
            description = "Shows each entry of a log, and what was decided in it. No server may have it open.",
            exitCodeListHeading = "Exit codes:%n",
            exitCodeList = {
                "0:all of it was shown",
                "1:it does not open, or is damaged; what was shown is what comes before",
                "2:the command makes no sense"
            })
    static final class Dump implements Callable<Integer> {
        @Mixin
        private LogOptions log;

        @Option(names = "--json", description = "One object of JSON a line, one line an entry.")
        private boolean isJson;

        Dump() {}

        @Override
        public Integer call() {
            Log shown = log.existing();
            FileOutputStream standard = new FileOutputStream(FileDescriptor.out);
            PrintStream out = new PrintStream(new BufferedOutputStream(standard), false, StandardCharsets.UTF_8);
            try {
                show(shown, out);
                return 0;
            } catch (IOException | DamagedEntryException problem) {
                out.flush();
                System.err.println("cedrat-oracle: " + problem.getMessage());
                return Main.EXIT_CANNOT_START;
            } finally {
                out.flush();
            }
        }

        private void show(Log shown, PrintStream out) throws IOException, DamagedEntryException {
            LogDump dump = new LogDump(out, isJson);
            try {
                shown.open(dump, new Deaf());
                dump.end();
            } finally {
                shown.close();
            }
        }
    }

    /// Nothing is appended, so nothing is acknowledged.
    private static final class Deaf implements Log.Listener {
        @Override
        public void acknowledged(long number) {}

        @Override
        public void failed(Exception cause) {}
    }
}
