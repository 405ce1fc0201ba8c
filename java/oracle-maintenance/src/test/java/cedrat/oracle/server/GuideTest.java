package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.IOException;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import picocli.CommandLine;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.ParseResult;

/// The operators' guide beside the installed command, with all its subcommands.
class GuideTest {
    private static final Pattern OPTION = Pattern.compile("(?<![\\w-])--[a-z][a-z0-9-]+");
    /// Options of `./x oracle up`, and of other programs.
    private static final Set<String> OF_OTHERS = Set.of(
            "--system",
            "--now",
            "--man",
            "--build",
            "--name",
            "--publish",
            "--volume",
            "--rm",
            "--tag",
            "--file",
            "--format");

    private static CommandLine command() {
        return Main.of(Fault.NONE);
    }

    /// Returns an option with its description, which those that several commands share have in common.
    private static String text(OptionSpec option) {
        return option.longestName() + ": " + String.join(" ", option.description());
    }

    private static void collect(CommandSpec spec, Set<String> into) {
        spec.options().stream()
                .filter(option -> !option.usageHelp() && !option.versionHelp())
                .forEach(option -> into.add(text(option)));
        spec.subcommands().forEach((sub, line) -> {
            into.add(line.getCommandSpec().qualifiedName());
            collect(line.getCommandSpec(), into);
        });
    }

    @Test
    void examplesOfTheGuideAreValid() throws IOException {
        int count = 0;
        for (GuidePage page : GuidePage.all()) {
            for (GuidePage.Command example : page.commands()) {
                try {
                    command().parseArgs(example.arguments().toArray(String[]::new));
                } catch (ParameterException invalid) {
                    fail(page.path() + ": " + example.shell() + ": " + invalid.getMessage());
                }
                count++;
            }
        }
        assertTrue(count > 30, count + " examples");
    }

    @Test
    void everyOptionHasAnExample() throws IOException {
        Set<String> missing = new TreeSet<>();
        collect(command().getCommandSpec(), missing);
        for (GuidePage page : GuidePage.all()) {
            for (GuidePage.Command example : page.commands()) {
                for (ParseResult parsed =
                                command().parseArgs(example.arguments().toArray(String[]::new));
                        parsed != null;
                        parsed = parsed.subcommand()) {
                    missing.remove(parsed.commandSpec().qualifiedName());
                    parsed.matchedOptions().forEach(option -> missing.remove(text(option)));
                }
            }
        }
        assertEquals(Set.of(), missing);
    }

    @Test
    void optionsOfTheGuideExist() throws IOException {
        Set<String> known = new TreeSet<>();
        collect(command().getCommandSpec(), known);
        Set<String> unknown = new TreeSet<>();
        for (GuidePage page : GuidePage.all()) {
            OPTION.matcher(page.text()).results().map(MatchResult::group).forEach(unknown::add);
        }
        unknown.removeIf(option -> known.stream().anyMatch(each -> each.startsWith(option + ":")));
        unknown.removeAll(OF_OTHERS);
        unknown.remove("--help");
        assertEquals(Set.of(), unknown);
    }
}
