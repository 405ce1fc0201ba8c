package cedrat.persist.javac;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// The ways to compile a program that has the statement: in an empty directory, with the commands that
/// docs/use/java-objects-reference.md names.
class ToolsTest {
    static final String BANK = """
            class Bank {
                static int balance = 10;

                static boolean pay(int amount) {
                    boolean isPaid = false;
                    transaction {
                        balance -= amount;
                        isPaid = true;
                        if (balance >= 0) { commit; } else { rollback; }
                    }
                    return isPaid;
                }

                public static void main(String[] arguments) {
                    System.out.println(pay(7) + " " + pay(7) + " " + balance);
                }
            }
            """;

    private static final String POM = """
            <project>
              <modelVersion>4.0.0</modelVersion>
              <groupId>example</groupId>
              <artifactId>bank</artifactId>
              <version>1</version>
              <properties>
                <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
                <maven.compiler.release>25</maven.compiler.release>
              </properties>
              <dependencies>
                <dependency>
                  <groupId>io.github.cedrat</groupId>
                  <artifactId>persist</artifactId>
                  <version>0.1.0</version>
                </dependency>
              </dependencies>
              <build>
                <plugins>
                  <plugin>
                    <groupId>org.apache.maven.plugins</groupId>
                    <artifactId>maven-compiler-plugin</artifactId>
                    <version>3.14.1</version>
                    <configuration>
                      <annotationProcessorPaths>
                        <path>
                          <groupId>io.github.cedrat</groupId>
                          <artifactId>persist-javac</artifactId>
                          <version>0.1.0</version>
                        </path>
                      </annotationProcessorPaths>
                      <compilerArgs>
                        <arg>-Xplugin:Cedrat</arg>
                      </compilerArgs>
                    </configuration>
                  </plugin>
                </plugins>
              </build>
            </project>
            """;

    private record Ended(int status, String said) {}

    @TempDir
    Path folder;

    private Path sources;
    private Path classes;

    @BeforeEach
    void writeTheProgram() throws IOException {
        sources = Files.createDirectories(folder.resolve("src/main/java"));
        classes = folder.resolve("target/classes");
        Files.writeString(sources.resolve("Bank.java"), BANK);
    }

    private Ended run(List<String> line) throws IOException, InterruptedException {
        Path said = folder.resolve("said");
        ProcessBuilder builder = new ProcessBuilder(line)
                .directory(folder.toFile())
                .redirectErrorStream(true)
                .redirectOutput(said.toFile());
        builder.environment().put("JAVA_HOME", System.getProperty("java.home"));
        int status = builder.start().waitFor();
        return new Ended(status, Files.readString(said));
    }

    private static String tool(String name) {
        return Path.of(System.getProperty("java.home"), "bin", name).toString();
    }

    private Ended javac(String path, Stream<String> options) throws IOException, InterruptedException {
        return javac(path, "Bank.java", options);
    }

    private Ended javac(String path, String source, Stream<String> options) throws IOException, InterruptedException {
        List<String> line = new ArrayList<>(List.of(tool("javac")));
        options.forEach(line::add);
        line.addAll(List.of("-processorpath", path, "-Xplugin:Cedrat", "-classpath", Compiled.AGENT));
        line.addAll(List.of("-d", classes.toString(), sources.resolve(source).toString()));
        return run(line);
    }

    private void assertRuns() throws IOException, InterruptedException {
        Ended ended = run(List.of(tool("java"), "-javaagent:" + Compiled.AGENT, "-cp", classes.toString(), "Bank"));
        // What the virtual machine says of its agent comes first.
        assertTrue(ended.said.endsWith("true false 3\n"), ended.said);
    }

    @Test
    void javacNeedsNoOptionsButThePlugin() throws Exception {
        assertEquals(new Ended(0, ""), javac(Compiled.PLUGIN, Stream.of()));
        assertRuns();
    }

    /// Classes that are in no jar cannot be a module, so the plugin cannot open the compiler by itself.
    @Test
    void jvmOptionsEnableThePluginToo() throws Exception {
        String plugin = Path.of("target", "classes").toAbsolutePath().toString();
        Ended closed = javac(plugin, Stream.of());
        assertNotEquals(0, closed.status);
        List<String> page = Files.readAllLines(Path.of("..", "..", "docs", "use", "java-objects-reference.md"));
        assertEquals(
                page.stream().filter(line -> line.startsWith("--add-exports")).toList(),
                options(closed).toList());
        assertEquals(new Ended(0, ""), javac(plugin, options(closed).map(option -> "-J" + option)));
        assertRuns();
    }

    /// The options that the plugin asks for.
    private static Stream<String> options(Ended closed) {
        assertTrue(closed.said.contains("Pass these options to the virtual machine"), closed.said);
        // Maven prints them more than once, behind a word of its own.
        return Pattern.compile("--add-exports=\\S+")
                .matcher(closed.said)
                .results()
                .map(MatchResult::group)
                .distinct();
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void mavenNeedsNoOptionsButThePlugin(boolean inItsOwnProcess) throws Exception {
        Ended ended = maven(Path.of(Compiled.PLUGIN), "-Dmaven.compiler.fork=" + inItsOwnProcess);
        assertEquals(0, ended.status, ended.said);
        assertRuns();
    }

    @Test
    void mavenJvmOptionsEnableThePluginToo() throws Exception {
        Path plugin = pluginThatCannotOpen();
        Ended closed = maven(plugin);
        assertNotEquals(0, closed.status);
        Path options = Files.createDirectory(folder.resolve(".mvn")).resolve("jvm.config");
        Files.write(options, options(closed).toList());
        Ended ended = maven(plugin);
        assertEquals(0, ended.status, ended.said);
        assertRuns();
    }

    /// The plugin, without the other one that lets it in.
    private Path pluginThatCannotOpen() throws IOException {
        Path copy = folder.resolve("plugin.jar");
        Files.copy(Path.of(Compiled.PLUGIN), copy);
        try (FileSystem jar = FileSystems.newFileSystem(copy)) {
            Files.writeString(
                    jar.getPath("META-INF/services/com.sun.source.util.Plugin"), CedratPlugin.class.getName());
        }
        return copy;
    }

    private Ended maven(Path plugin, String... options) throws IOException, InterruptedException {
        Path repository = repository();
        install(repository, "persist", Path.of(Compiled.AGENT));
        install(repository, "persist-javac", plugin);
        Files.writeString(folder.resolve("pom.xml"), POM);
        List<String> line = new ArrayList<>(List.of(
                System.getProperty("cedrat.maven"),
                "--offline",
                "--batch-mode",
                "--quiet",
                "-Dstyle.color=never",
                "-Dmaven.repo.local=" + repository));
        line.addAll(List.of(options));
        line.add("compile");
        return run(line);
    }

    /// A class that the program uses, and javac looks for.
    @Test
    void sourceFoundByJavacHasTheStatement() throws Exception {
        Files.writeString(sources.resolve("Start.java"), "class Start { Bank bank; }");
        assertEquals(
                new Ended(0, ""),
                javac(Compiled.PLUGIN, "Start.java", Stream.of("-sourcepath", sources.toString(), "-implicit:class")));
        assertRuns();
    }

    @Test
    void generatedSourceHasTheStatement() throws Exception {
        Files.writeString(sources.resolve("Start.java"), "class Start { Bank bank; }");
        String path = Compiled.PLUGIN
                + File.pathSeparator
                + Path.of("target", "test-classes").toAbsolutePath();
        assertEquals(
                new Ended(0, ""), javac(path, "Start.java", Stream.of("-processor", BankProcessor.class.getName())));
        assertRuns();
    }

    private static final Path GROUP = Path.of("io", "github", "cedrat");

    /// Returns a local repository that has what the user's has, but for Cedrat, which is this one.
    private static Path repository() throws IOException {
        Path repository = Path.of("target", "local-repository").toAbsolutePath();
        Path original = Path.of(System.getProperty("cedrat.repository"));
        for (Path above = GROUP; above != null; above = above.getParent()) {
            linkSiblings(original.resolve(above), repository.resolve(above));
        }
        return repository;
    }

    /// Creates the folder `copy`, and beside it links to what lies beside `original`.
    private static void linkSiblings(Path original, Path copy) throws IOException {
        Files.createDirectories(copy);
        if (Files.notExists(original.getParent())) {
            return;
        }
        try (Stream<Path> siblings = Files.list(original.getParent())) {
            for (Path sibling : siblings.toList()) {
                Path link = copy.resolveSibling(sibling.getFileName());
                if (Files.notExists(link)) {
                    Files.createSymbolicLink(link, sibling);
                }
            }
        }
    }

    private static void install(Path repository, String artifact, Path jar) throws IOException {
        Path installed = Files.createDirectories(repository.resolve(GROUP).resolve(artifact + "/0.1.0"));
        Files.copy(jar, installed.resolve(artifact + "-0.1.0.jar"), StandardCopyOption.REPLACE_EXISTING);
        Files.writeString(installed.resolve(artifact + "-0.1.0.pom"), """
                <project>
                  <modelVersion>4.0.0</modelVersion>
                  <groupId>io.github.cedrat</groupId>
                  <artifactId>%s</artifactId>
                  <version>0.1.0</version>
                </project>
                """.formatted(artifact));
    }
}
