package cedrat.oracle.server;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/// `cedrat-oracle token`.
@Command(
        name = "token",
        mixinStandardHelpOptions = true,
        description = "The tokens by which clients authenticate themselves.",
        subcommands = {TokenCommand.Add.class, TokenCommand.Listing.class, TokenCommand.Remove.class})
final class TokenCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    TokenCommand() {}

    @Override
    public Integer call() {
        throw new ParameterException(
                spec.commandLine(),
                "the command `token` needs a subcommand: `token add` makes a token, `token list` shows the tokens, `token"
                        + " remove` removes some");
    }

    /// Common part.
    @Command(
            mixinStandardHelpOptions = true,
            exitCodeListHeading = "Exit codes:%n",
            exitCodeList = {
                "0:it was done",
                "1:the file cannot be read or changed, or has no such token; it is as before",
                "2:the command is invalid"
            })
    abstract static class OfFile implements Callable<Integer> {
        @Spec
        CommandSpec spec;

        @Option(
                names = "--tokens",
                paramLabel = "FILE",
                required = true,
                description = "The file of tokens, as `serve` is given it.")
        Path file;

        @Override
        public final Integer call() {
            PrintWriter out = spec.commandLine().getOut();
            PrintWriter err = spec.commandLine().getErr();
            try {
                run(out);
                return 0;
            } catch (IOException problem) {
                err.println("cedrat-oracle: " + problem.getMessage());
                return Main.EXIT_CANNOT_START;
            } finally {
                out.flush();
                err.flush();
            }
        }

        abstract void run(PrintWriter out) throws IOException;
    }

    /// `cedrat-oracle token add`.
    @Command(
            name = "add",
            description =
                    "Makes a token for a client and prints it, once: the file has a hash of it only. Servers that run accept it within a second. A client may have several tokens, so that one replaces another.")
    static final class Add extends OfFile {
        @Parameters(paramLabel = "NAME", description = "The name of the client. For --roles it is token:NAME.")
        private String name;

        Add() {}

        @Override
        void run(PrintWriter out) throws IOException {
            out.println(Tokens.add(file, name));
        }
    }

    /// `cedrat-oracle token list`.
    @Command(name = "list", description = "Shows the names of clients with tokens, and when each token was made.")
    static final class Listing extends OfFile {
        Listing() {}

        @Override
        void run(PrintWriter out) throws IOException {
            for (Tokens.Token token : Tokens.list(file)) {
                out.println("token " + token.name() + " made " + token.made());
            }
        }
    }

    /// `cedrat-oracle token remove`.
    @Command(
            name = "remove",
            description =
                    "Removes the tokens of a client. Servers that run refuse them within a second, and close the connections that they have authenticated.")
    static final class Remove extends OfFile {
        @Parameters(paramLabel = "NAME", description = "The name of the client.")
        private String name;

        @Option(names = "--older", description = "Keep the newest token.")
        private boolean isOlderOnly;

        Remove() {}

        @Override
        void run(PrintWriter out) throws IOException {
            int removed = Tokens.remove(file, name, isOlderOnly);
            if (removed == 0) {
                throw new IOException("cannot remove tokens of " + name + ": " + file + " has "
                        + (isOlderOnly ? "no older one" : "none") + ": see `cedrat-oracle token list`");
            }
            out.println("token " + name + " removed " + removed);
        }
    }
}
