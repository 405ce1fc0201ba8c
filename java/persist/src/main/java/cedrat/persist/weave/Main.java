package cedrat.persist.weave;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/// The command that weaves the class files of a build in place, for build tools without a plugin. It runs with the
/// class path of the program.
public final class Main {
    private static final String USAGE = "usage: java -cp persist.jar:PATH " + Main.class.getName()
            + " [--arguments=ARGUMENTS] [--originals=FOLDER] FOLDER…";

    private Main() {}

    /// Weaves the classes of folders. Ends with status 1 if a class cannot be woven or written, and with 2 if an
    /// argument is invalid.
    ///
    /// @param arguments `--arguments=`, the agent's, with which the program will run; `--originals=`, a folder that
    ///                  keeps the files as they were compiled; and folders of class files
    public static void main(String[] arguments) {
        String agentArguments = null;
        Path originals = null;
        List<Path> folders = new ArrayList<>();
        for (String argument : arguments) {
            if (argument.startsWith("--arguments=")) {
                agentArguments = value(argument);
            } else if (argument.startsWith("--originals=")) {
                originals = Path.of(value(argument));
            } else if (argument.startsWith("-")) {
                fail(2, "invalid argument `" + argument + "`\n" + USAGE);
            } else {
                folders.add(Path.of(argument));
            }
        }
        if (folders.isEmpty()) {
            fail(2, USAGE);
        }
        weave(agentArguments, originals, folders);
    }

    private static String value(String argument) {
        return argument.substring(argument.indexOf('=') + 1);
    }

    private static void weave(String arguments, Path originals, List<Path> folders) {
        List<Path> classPath = Stream.of(System.getProperty("java.class.path").split(Pattern.quote(File.pathSeparator)))
                .filter(path -> !path.isEmpty())
                .map(Path::of)
                .toList();
        BuildWeaver.Outcome outcome;
        try {
            outcome = new BuildWeaver(arguments, originals, folders, classPath).weave();
        } catch (IllegalArgumentException e) {
            fail(2, e.getMessage());
            return;
        } catch (IOException | UncheckedIOException e) {
            fail(1, "cannot weave the classes in " + folders + ": " + e);
            return;
        }
        if (!outcome.failures().isEmpty()) {
            fail(1, String.join("\n", outcome.failures()));
        }
        System.out.println(outcome.summary());
    }

    private static void fail(int status, String message) {
        System.err.println(message);
        System.exit(status);
    }
}
