package cedrat.oracle.server;

import cedrat.oracle.log.Log;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.log.embedded.EmbeddedLog;
import java.nio.file.Files;
import java.nio.file.Path;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/// Options that say where decisions are kept, the same for all commands.
final class LogOptions {
    /// What logs there are.
    enum Kind {
        /// Keeps nothing.
        NONE,
        /// Keeps them in a directory of this machine.
        EMBEDDED
    }

    @Spec(Spec.Target.MIXEE)
    private CommandSpec spec;

    @Option(
            names = "--log",
            paramLabel = "KIND",
            required = true,
            description =
                    "Where decisions are kept: ${COMPLETION-CANDIDATES}. With embedded, in the directory that --data names. With none, nothing survives the end of the server, and timestamps begin at 1 again.")
    private Kind kind;

    @Option(
            names = "--data",
            paramLabel = "DIR",
            description =
                    "With --log embedded: the directory of the log, on a local disk; made if it is not there. One server at a time can have it.")
    private Path data;

    @Option(
            names = "--log-bytes-max",
            paramLabel = "N",
            defaultValue = "1073741824",
            description =
                    "Cut the log to about so many bytes, which bounds the time of a start, too; the disk needs room for four times as many (default: ${DEFAULT-VALUE}).")
    private long bytesMax;

    LogOptions() {}

    long bytesMax() {
        return bytesMax;
    }

    /// A log that is to be opened.
    Log make() {
        return switch (kind) {
            case NONE -> new VolatileLog();
            case EMBEDDED -> new EmbeddedLog(EmbeddedLog.Options.keeping(data(), bytesMax));
        };
    }

    /// A log that is there already; none is made.
    Log existing() {
        if (kind == Kind.NONE) {
            throw new ParameterException(spec.commandLine(), "--log none keeps nothing that could be shown");
        }
        if (!Files.isDirectory(data())) {
            throw new ParameterException(spec.commandLine(), "there is no directory " + data);
        }
        return make();
    }

    private Path data() {
        if (data == null) {
            throw new ParameterException(
                    spec.commandLine(), "--log embedded needs --data DIR, the directory of the log");
        }
        return data;
    }
}
