package cedrat.services;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/// A Java program, and how it is to run.
///
/// @param name what it is called when something is said of it
/// @param folder its own, made where it is missing; its output goes to the file `log` there
/// @param javaHome the JDK that it runs with
/// @param jvm arguments of its virtual machine
/// @param classPath what it runs with
/// @param main its class
/// @param arguments its own
public record Command(
        String name,
        Path folder,
        Path javaHome,
        List<String> jvm,
        String classPath,
        String main,
        List<String> arguments) {
    /// The folder with the build files of services, in whose `NAME/target/classpath` the build writes what
    /// they run with.
    public static final String SERVICES_PROPERTY = "cedrat.services";

    /// A program that runs with the JDK that this one has.
    public static Command of(
            String name, Path folder, List<String> jvm, String classPath, String main, List<String> arguments) {
        return new Command(name, folder, Path.of(System.getProperty("java.home")), jvm, classPath, main, arguments);
    }

    /// The same, with other arguments of its own.
    Command withArguments(List<String> others) {
        return new Command(name, folder, javaHome, jvm, classPath, main, others);
    }

    /// Returns the class path of the services of this name.
    ///
    /// @throws IOException if the build has not written it
    public static String classPath(String name) throws IOException {
        String folder = System.getProperty(SERVICES_PROPERTY);
        if (folder == null) {
            throw new IOException(
                    "the system property " + SERVICES_PROPERTY + " is not set: set it to the folder java/services");
        }
        Path file = Path.of(folder, name, "target", "classpath");
        if (!Files.exists(file)) {
            throw new IOException(file + " is missing: build it with `mvn -f java/pom.xml -pl services -am compile`");
        }
        return Files.readString(file).strip();
    }

    /// Starts it.
    public Service start() throws IOException {
        return start(Map.of());
    }

    /// Starts it, with these variables beside those of this program's environment.
    public Service start(Map<String, String> environment) throws IOException {
        Files.createDirectories(folder);
        List<String> words = new ArrayList<>();
        words.add(javaHome.resolve("bin/java").toString());
        words.addAll(jvm);
        words.addAll(List.of("-cp", classPath, main));
        words.addAll(arguments);
        Path log = folder.resolve("log");
        ProcessBuilder builder = new ProcessBuilder(words);
        builder.environment().putAll(environment);
        Process process = builder.directory(folder.toFile())
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(log.toFile()))
                .redirectInput(ProcessBuilder.Redirect.from(Path.of("/dev/null").toFile()))
                .start();
        return new Service(name, process, log);
    }

    /// Starts it, and waits until it has ended.
    ///
    /// @throws IOException if it says that it has failed
    public void run() throws IOException {
        try (Service service = start()) {
            int code = service.awaitEnd();
            if (code != 0) {
                throw service.problem("has failed with exit code " + code);
            }
        }
    }
}
