package cedrat.oracle.server;

import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// `cedrat-oracle migrate`.
@Command(
        name = "migrate",
        mixinStandardHelpOptions = true,
        description = {
            "Moves the log of a stopped oracle to another place, of the same kind or another. Nothing is lost, the identity stays, and the old log is refused by all servers from then on.",
            "A command that was interrupted is repeated as it was. Until it has ended, no two logs can be served."
        },
        exitCodeListHeading = "Exit codes:%n",
        exitCodeList = {
            "0:the log has moved, by this command or an earlier one",
            "1:it cannot be moved; repeat the command when the problem is solved",
            "2:the command is invalid",
            "4:there is a log already in the new place; it was not changed"
        })
final class MigrateCommand implements Callable<Integer> {
    private static final String PLACE = "embedded:DIR|bookkeeper:HOST:PORT[,...][/PATH]";

    @Spec
    private CommandSpec spec;

    @Option(names = "--from", paramLabel = PLACE, required = true, description = "Where the log is.")
    private String from;

    @Option(
            names = "--to",
            paramLabel = PLACE,
            required = true,
            description = "Where it is to be; no log may be there.")
    private String to;

    @Mixin
    private LogSettings settings;

    MigrateCommand() {}

    @Override
    public Integer call() {
        return LogTask.run(spec.commandLine(), "cannot move the log", () -> {
            LogPlace source = LogPlace.of(from, settings).absolute();
            LogPlace target = LogPlace.of(to, settings).absolute();
            return new Migration(source, target).run();
        });
    }
}
