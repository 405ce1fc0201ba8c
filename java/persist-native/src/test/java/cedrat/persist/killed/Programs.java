package cedrat.persist.killed;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.File;
import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.spi.ToolProvider;

/// Processes with one of several versions of a class.
final class Programs {
    /// Fields are where they were not, of another order, more and fewer. None that a version does not share
    /// has a value.
    private static final List<String> VERSIONS = List.of(
            "int number; Object next; byte gone;",
            "long[] more; double before; Object next; short between; int number; String name;",
            "Object other; boolean flag; int number; Object next;");

    /// Of each version the folder that has it.
    private final List<Path> versions = new ArrayList<>();

    /// Compiles the versions.
    Programs(Path folder) throws IOException {
        for (String fields : VERSIONS) {
            Path classes = Files.createDirectories(folder.resolve("version" + versions.size()));
            Path source = classes.resolve("Paper.java");
            Files.writeString(source, """
                    package cedrat.persist.killed;
                    final class Paper implements Note {
                        FIELDS
                        public int number() { return number; }
                        public Object next() { return next; }
                        public void write(int number, Object next) { this.number = number; this.next = next; }
                    }
                    """.replace("FIELDS", fields));
            int result = ToolProvider.findFirst("javac")
                    .orElseThrow()
                    .run(System.out, System.err, "-d", classes.toString(), "-cp", path(), source.toString());
            assertEquals(0, result);
            versions.add(classes);
        }
    }

    private static String path() {
        return System.getProperty("java.class.path");
    }

    /// Returns the number of versions.
    int versions() {
        return versions.size();
    }

    /// Starts a process of a version of the program.
    ///
    /// @param options   of the virtual machine, beside those that each has
    /// @param arguments of the program
    Process start(Class<?> program, int version, List<String> options, List<String> arguments, Path errors)
            throws IOException {
        List<String> command = new ArrayList<>();
        command.add(ProcessHandle.current().info().command().orElse("java"));
        command.addAll(List.of("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"));
        command.addAll(List.of("-javaagent:" + System.getProperty("cedrat.agent")));
        command.addAll(List.of("--enable-native-access=ALL-UNNAMED"));
        command.add("-Dcedrat.library=" + System.getProperty("cedrat.library"));
        command.addAll(options);
        command.addAll(List.of("-cp", versions.get(version) + File.pathSeparator + path(), program.getName()));
        command.addAll(arguments);
        return new ProcessBuilder(command)
                .redirectError(Redirect.to(errors.toFile()))
                .start();
    }
}
