package cedrat.oracle.server;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/// A page of the operators' guide, and the commands in it.
public record GuidePage(Path path, String text) {
    private static final Path FOLDER = Path.of("../../docs/use");
    private static final Pattern BLOCK =
            Pattern.compile("^```(sh|console|text)\n(.*?)^```$", Pattern.MULTILINE | Pattern.DOTALL);
    private static final Pattern COMMAND = Pattern.compile(
            "((?:\\w+=\"[^\"]*\" |sudo -u \\S+ )*)(?:cedrat-oracle|\\./x oracle(?= (?:init|serve) )) .+");

    /// A command of the page, on one line and without its comment.
    ///
    /// @param shell as a shell runs it
    /// @param arguments those of `cedrat-oracle`
    public record Command(String shell, List<String> arguments) {
        /// Whether it has this argument.
        public boolean has(String argument) {
            return arguments.contains(argument);
        }

        /// Whether it is this subcommand.
        public boolean is(String subcommand) {
            return arguments.getFirst().equals(subcommand);
        }
    }

    /// Reads a page of this name.
    public static GuidePage of(String name) throws IOException {
        Path path = FOLDER.resolve(name);
        return new GuidePage(path, Files.readString(path));
    }

    /// Reads all pages about the oracle.
    public static List<GuidePage> all() throws IOException {
        List<GuidePage> pages = new ArrayList<>();
        try (Stream<Path> files = Files.list(FOLDER)) {
            for (Path file : files.sorted().toList()) {
                if (file.getFileName().toString().matches("oracle.*\\.md")) {
                    pages.add(of(file.getFileName().toString()));
                }
            }
        }
        return pages;
    }

    /// Returns the blocks of this language.
    List<String> blocks(String language) {
        return BLOCK.matcher(text)
                .results()
                .filter(block -> block.group(1).equals(language))
                .map(block -> block.group(2))
                .toList();
    }

    /// Returns the commands of its blocks, in their order.
    public List<Command> commands() {
        List<Command> commands = new ArrayList<>();
        for (Matcher block = BLOCK.matcher(text); block.find(); ) {
            boolean isConsole = block.group(1).equals("console");
            for (String line :
                    block.group(2).replaceAll(" *\\\\\n *", " ").lines().toList()) {
                if (isConsole && !line.startsWith("$ ")) {
                    continue;
                }
                String shell = line.replaceFirst("^\\$ ", "")
                        .replaceFirst(" +# .*", "")
                        .strip();
                Matcher command = COMMAND.matcher(shell);
                if (command.matches()) {
                    String all = shell.substring(command.end(1))
                            .replaceFirst("^(cedrat-oracle|\\./x oracle) ", "")
                            .replaceFirst(" +> .*", "");
                    commands.add(new Command(shell, List.of(all.split(" +"))));
                }
            }
        }
        return commands;
    }
}
