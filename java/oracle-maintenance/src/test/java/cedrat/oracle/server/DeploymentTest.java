package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/// The recipe of the image and the units of systemd: their options are those of the command, and their paths are those
/// of `./x oracle install`.
class DeploymentTest {
    private static final Path RECIPE = Path.of("../oracle-server/container/Containerfile");
    private static final Path SERVER_UNIT = Path.of("../oracle-server/systemd/cedrat-oracle.service");
    private static final Path MAINTENANCE_UNIT = Path.of("systemd/cedrat-oracle-maintenance.service");
    private static final String PROGRAM = "/usr/local/bin/cedrat-oracle";
    private static final Pattern WORD = Pattern.compile("\"((?:[^\"\\\\]|\\\\.)*)\"");

    /// Returns the instructions of the recipe, each on one line.
    private static List<String> instructions() throws IOException {
        String text = Files.readString(RECIPE).replaceAll("(?m)^#.*\n", "").replaceAll(" *\\\\\n *", " ");
        return text.lines().filter(line -> !line.isBlank()).toList();
    }

    private static List<String> instructions(String name) throws IOException {
        return instructions().stream()
                .filter(line -> line.startsWith(name + " "))
                .map(line -> line.substring(name.length() + 1))
                .toList();
    }

    private static List<String> words(String instruction) {
        return WORD.matcher(instruction)
                .results()
                .map((MatchResult word) -> word.group(1))
                .toList();
    }

    private static void assertValid(List<String> arguments) {
        Main.of(Fault.NONE).parseArgs(arguments.toArray(String[]::new));
    }

    @Test
    void imageServesWithValidOptions() throws IOException {
        assertEquals(List.of(PROGRAM), words(instructions("ENTRYPOINT").getFirst()));
        List<String> serve = words(instructions("CMD").getFirst());
        assertValid(serve);
        String data = serve.get(serve.indexOf("--data") + 1);
        assertEquals(List.of(data), instructions("VOLUME"));
        String metrics = serve.get(serve.indexOf("--metrics") + 1);
        assertEquals(
                List.of(ServerOptions.PORT
                        + metrics.substring(metrics.indexOf(':')).replace(':', ' ')),
                instructions("EXPOSE"));
        String health = instructions("HEALTHCHECK").getFirst();
        assertTrue(health.contains("/dev/tcp/" + metrics.replace(':', '/')), health);
        assertTrue(health.contains("GET /health "), health);
    }

    /// The user of the image owns its data, and is not root.
    @Test
    void imageRunsWithoutPrivileges() throws IOException {
        String user = instructions("USER").getFirst();
        assertTrue(instructions("RUN").getFirst().contains(" --uid " + user + " "), user);
        assertTrue(Integer.parseInt(user) > 0);
        List<String> names =
                instructions().stream().map(line -> line.split(" ")[0]).toList();
        assertTrue(names.indexOf("USER") < names.indexOf("VOLUME"), "the volume belongs to the user");
    }

    @Test
    void imageHasWhatIsInstalled() throws IOException {
        String x = Files.readString(Path.of("../../x"));
        String install =
                x.substring(x.indexOf("\nbuild_oracle() {"), x.indexOf("\n}\n", x.indexOf("\nbuild_oracle() {")));
        for (String copy : instructions("COPY")) {
            String[] paths = copy.split(" ");
            assertEquals("/usr/local/" + paths[0], paths[1]);
            String folder = paths[0].substring(0, paths[0].indexOf('/'));
            assertTrue(install.contains("$1/" + folder + "/"), copy);
        }
        assertTrue(install.contains("cedrat-oracle \"$1/bin/\""), "the program");
        assertTrue(install.contains("lib=$1/lib/cedrat-oracle"), "its jars");
    }

    private static Map<String, String> unit(Path file) throws IOException {
        Map<String, String> settings = new TreeMap<>();
        for (String line : Files.readAllLines(file)) {
            Matcher setting = Pattern.compile("(\\w+)=(.*)").matcher(line);
            if (setting.matches()) {
                settings.put(setting.group(1), setting.group(2));
            }
        }
        return settings;
    }

    /// A unit runs the installed program with valid options, which a file may replace that its page names.
    private static List<String> assertRuns(Path file, String page) throws IOException {
        Map<String, String> unit = unit(file);
        Matcher variable = Pattern.compile("\"(\\w+)=(.*)\"").matcher(unit.get("Environment"));
        assertTrue(variable.matches());
        List<String> command = new ArrayList<>();
        for (String word : unit.get("ExecStart").split(" ")) {
            command.addAll(
                    word.equals("$" + variable.group(1))
                            ? Arrays.asList(variable.group(2).split(" "))
                            : List.of(word));
        }
        assertEquals(PROGRAM, command.removeFirst());
        assertValid(command);
        String text = GuidePage.of(page).text();
        assertTrue(text.contains(variable.group(1)), page);
        assertTrue(text.contains(unit.get("EnvironmentFile").substring(1)), page);
        assertTrue(text.contains(file.getFileName().toString().replace(".service", "")), page);
        return command;
    }

    @Test
    void unitOfServerRuns() throws IOException {
        List<String> command = assertRuns(SERVER_UNIT, "oracle.md");
        Map<String, String> unit = unit(SERVER_UNIT);
        assertEquals("/var/lib/" + unit.get("StateDirectory"), command.get(command.indexOf("--data") + 1));
        assertTrue(Integer.parseInt(unit.get("LimitNOFILE")) >= ServerOptions.CONNECTIONS_MAX + FileLimit.RESERVED);
    }

    @Test
    void unitOfMaintenanceRuns() throws IOException {
        assertRuns(MAINTENANCE_UNIT, "oracle-maintenance.md");
    }
}
