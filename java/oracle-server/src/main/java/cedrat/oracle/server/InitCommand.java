package cedrat.oracle.server;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Identities;
import cedrat.oracle.log.LogExistsException;
import java.io.IOException;
import java.util.HexFormat;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/// `cedrat-oracle init`.
@Command(
        name = "init",
        mixinStandardHelpOptions = true,
        description =
                "Creates the log of a new oracle, and draws the oracle's identity. Tables and clients of another oracle are refused by it.",
        exitCodeListHeading = "Exit codes:%n",
        exitCodeList = {
            "0:the log was created",
            "1:it cannot be created",
            "2:the command is invalid",
            "4:there is a log already; it was not changed"
        })
final class InitCommand implements Callable<Integer> {
    @Mixin
    private LogOptions log;

    InitCommand() {}

    @Override
    public Integer call() {
        long identity = Identities.draw();
        try (LogFiller created = new LogFiller(log.makeNew())) {
            created.open((bytes, from, length) -> {
                // a log with entries is refused
            });
            created.appendDurably(Identities.firstEntry(identity));
        } catch (LogExistsException exists) {
            say(exists.getMessage());
            return Main.EXIT_EXISTS;
        } catch (IOException | DamagedEntryException problem) {
            say("cannot initialise the oracle: " + problem.getMessage());
            return Main.EXIT_CANNOT_START;
        }
        System.out.println("initialised the oracle " + HexFormat.of().toHexDigits(identity) + " with the log "
                + log.place().where());
        System.out.flush();
        return 0;
    }

    private static void say(String text) {
        System.err.println("cedrat-oracle: " + text);
    }
}
