package cedrat.oracle.server;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Map;
import java.util.TreeMap;

/// Runs commands of the operators' guide as a shell does, in a folder that stands for `/` and for the directory of the
/// shell. The last server that was started is the one that the others ask.
final class GuideServer implements AutoCloseable {
    /// Names in the guide, and what they are here.
    private final Map<String, String> names = new TreeMap<>(Map.of("\\./x oracle ", "cedrat-oracle "));

    private final Path folder;
    private Process process;
    private int port = ServerOptions.PORT;

    GuideServer(Path folder) throws IOException {
        this.folder = folder;
        names.put("10\\.0\\.0\\.\\d+|oracle\\.example\\.org", Kdc.HOST);
        names.put("(?<= )/(?=(?:etc|var|backups)/)", folder + "/");
        Path programs = Files.createDirectory(folder.resolve("bin"));
        script(programs.resolve("sudo"), "shift 2; exec \"$@\"");
        script(
                programs.resolve("cedrat-oracle"),
                "exec " + Path.of(System.getProperty("java.home"), "bin", "java")
                        + " -Xmx128m -XX:TieredStopAtLevel=1 --enable-native-access=ALL-UNNAMED ${CEDRAT_ORACLE_JVM-}"
                        + " -Dcedrat.library=" + System.getProperty("cedrat.library")
                        + krb5()
                        + " -cp "
                        + System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"))
                        + " " + Main.class.getName() + " \"$@\"");
        Files.createDirectories(folder.resolve("etc/cedrat-oracle"));
        Files.createDirectories(folder.resolve("var/lib"));
        Files.createDirectories(folder.resolve("var/tmp"));
        Files.createDirectories(folder.resolve("backups"));
    }

    private static String krb5() {
        String configuration = System.getProperty(Kdc.CONFIGURATION);
        return configuration == null ? "" : " -D" + Kdc.CONFIGURATION + "=" + configuration;
    }

    private static void script(Path file, String text) throws IOException {
        Files.writeString(file, "#!/bin/sh\n" + text + "\n");
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rwx------"));
    }

    /// Returns the port of the server.
    int port() {
        return port;
    }

    /// Runs a command to its end, or, if it serves, until it listens.
    ///
    /// @return what it has printed
    String run(GuidePage.Command command) throws Exception {
        if (command.is("init") || command.is("serve") || command.is("log")) {
            stop();
        }
        String shell = command.shell();
        for (Map.Entry<String, String> name : names.entrySet()) {
            shell = shell.replaceAll(name.getKey(), name.getValue());
        }
        if (command.is("init")) {
            shell = "rm -rf " + folder + "/var/lib/cedrat-oracle; " + shell;
        }
        shell = command.is("serve")
                ? shell.replaceFirst(" --port \\d+", "") + " --port 0"
                : shell.replaceAll(":" + ServerOptions.PORT, ":" + port);
        // Without a shell in between, so that a signal reaches the server.
        ProcessBuilder builder = new ProcessBuilder(
                        "bash", "-c", shell.replaceFirst("^(\\w+=\\S+ )?(?=cedrat-oracle)", "$1exec "))
                .directory(folder.toFile())
                .redirectError(ProcessBuilder.Redirect.INHERIT);
        builder.environment().merge("PATH", folder + "/bin", (path, own) -> own + ":" + path);
        Process started = builder.start();
        if (command.is("serve")) {
            process = started;
            BufferedReader said = started.inputReader(StandardCharsets.UTF_8);
            String line = said.readLine();
            if (line == null || !line.startsWith("listening on ")) {
                throw new AssertionError(shell + ": " + line);
            }
            port = Integer.parseInt(line.substring(line.lastIndexOf(':') + 1));
            return line;
        }
        String out = new String(started.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        int code = started.waitFor();
        if (code != 0) {
            throw new AssertionError(shell + ": exit code " + code + ", " + out);
        }
        return out;
    }

    private void stop() {
        if (process != null) {
            process.destroy();
            process.onExit().join();
            process = null;
        }
    }

    @Override
    public void close() {
        stop();
    }
}
