package cedrat.persist.woven.weave;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.weave.Agent;
import cedrat.persist.weave.BuildWeaver;
import com.sun.tools.attach.AgentInitializationException;
import com.sun.tools.attach.VirtualMachine;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.lang.classfile.ClassFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.Attributes;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;
import java.util.spi.ToolProvider;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Programs with classes that a build has woven.
class BuildWeaverTest {
    private static final String AGENT = System.getProperty("cedrat.agent");
    private static final String CLASSES =
            Path.of("target", "test-classes").toAbsolutePath().toString();
    private static final String PACKAGE = "cedrat/persist/woven/weave/";
    private static final String REOPENED = "Anna -5 [paid 5] [Ben], Ben 5 [got 5] [], changes 1";

    private record Ended(int status, String said) {}

    @TempDir
    Path folder;

    private Ended java(List<String> options, Class<?> program) throws Exception {
        List<String> line = new ArrayList<>();
        line.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        line.add("-XX:TieredStopAtLevel=1");
        line.addAll(options);
        line.add("-cp");
        line.add(String.join(File.pathSeparator, folder.toString(), CLASSES, AGENT, bootClasses()));
        line.add(program.getName());
        Process process = new ProcessBuilder(line).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        return new Ended(process.waitFor(), said);
    }

    /// Every program has them on its class path, as a dependency.
    private static String bootClasses() {
        return Path.of("..", "persist-boot", "target", "classes")
                .toAbsolutePath()
                .toString();
    }

    private Ended withAgent(String arguments, Class<?> program) throws Exception {
        return java(List.of("-javaagent:" + AGENT + "=" + arguments), program);
    }

    /// J18
    @Test
    void builtClassesStoreAndReopen() throws Exception {
        BuiltClasses.add(null, folder, PACKAGE + "Reopened");
        Ended ended = withAgent("", Reopened.class);
        assertTrue(ended.said.contains(REOPENED), ended.said);
        assertEquals(0, ended.status);
    }

    /// J18: other arguments than those that concern the class.
    @Test
    void argumentsForOtherClassesAreFree() throws Exception {
        BuiltClasses.add(null, folder, PACKAGE + "Reopened");
        Ended ended = withAgent("exclude=org.example,infrastructure=org.example", Reopened.class);
        assertTrue(ended.said.contains(REOPENED), ended.said);
    }

    private void assertRefused(String arguments, String reason) throws Exception {
        Ended ended = withAgent(arguments, Reopened.class);
        assertTrue(ended.said.contains("cannot use the class " + Reopened.class.getName()), ended.said);
        assertTrue(ended.said.contains(reason), ended.said);
        assertTrue(ended.said.contains("Run a clean build"), ended.said);
        assertNotEquals(0, ended.status);
    }

    /// J18a
    @Test
    void otherArgumentsAreRefused() throws Exception {
        BuiltClasses.add(null, folder, PACKAGE + "Reopened");
        assertRefused("reads=unlocked", "`reads=locked` in the build, `reads=unlocked` by the agent");
        String excluded = "`persistable` in the build, `not persistable` by the agent";
        assertRefused("exclude=" + Reopened.class.getName(), excluded);
        assertRefused("include=org.example", "`persistable` in the build, `not persistable, left out` by the agent");
        String infrastructure = "`persistable` in the build, `persistable, infrastructure` by the agent";
        assertRefused("infrastructure=" + Reopened.class.getName(), infrastructure);
    }

    /// J18a
    @Test
    void misspeltMemoFieldIsRefused() throws Exception {
        BuiltClasses.add(null, folder, PACKAGE + "Reopened");
        Ended ended = withAgent("memo=" + Reopened.class.getName() + "#missing", Reopened.class);
        assertTrue(ended.said.contains("it has no field missing"), ended.said);
        assertNotEquals(0, ended.status);
    }

    /// J18: the agent lets the module read the barriers.
    @Test
    void builtClassesOfModulesLoad() throws Exception {
        Path source = Files.createDirectories(folder.resolve("source"));
        Path classes = folder.resolve("modules").resolve("example");
        Files.writeString(source.resolve("module-info.java"), "module example {}");
        Files.writeString(source.resolve("Main.java"), """
                package example;
                public class Main {
                    Main next;
                    public static void main(String[] arguments) {
                        Main main = new Main();
                        main.next = new Main();
                        System.out.println("next " + main.next.next + main.getClass().getInterfaces().length);
                    }
                }
                """);
        String[] line = {
            "-d",
            classes.toString(),
            source.resolve("module-info.java").toString(),
            source.resolve("Main.java").toString()
        };
        assertEquals(0, ToolProvider.findFirst("javac").orElseThrow().run(System.out, System.out, line));
        assertEquals(new BuildWeaver.Outcome(1, 0, 0, List.of()), BuiltClasses.weave(null, classes));
        Process process = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-javaagent:" + AGENT,
                        "-p",
                        classes.getParent().toString(),
                        "-m",
                        "example/example.Main")
                .redirectErrorStream(true)
                .start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertTrue(said.contains("next null1"), said);
        assertEquals(0, process.waitFor(), said);
    }

    /// J18b
    @Test
    void secondRunChangesNothing() throws Exception {
        BuiltClasses.add(null, folder, PACKAGE + "Reopened");
        Path file = folder.resolve(PACKAGE + "Reopened.class");
        byte[] woven = Files.readAllBytes(file);
        BuildWeaver.Outcome again = BuiltClasses.weave(null, folder);
        assertEquals(new BuildWeaver.Outcome(0, 1, 0, List.of()), again);
        assertArrayEquals(woven, Files.readAllBytes(file));
        BuildWeaver.Outcome otherwise = BuiltClasses.weave("reads=unlocked", folder);
        assertTrue(otherwise.failures().getFirst().contains("Run a clean build"), otherwise.toString());
    }

    /// J18h
    @Test
    void originalsAllowOtherArguments() throws Exception {
        Path originals = folder.resolve("originals");
        Path classes = folder.resolve("classes");
        BuiltClasses.copy(classes, PACKAGE + "Reopened");
        Path file = classes.resolve(PACKAGE + "Reopened.class");
        byte[] compiled = Files.readAllBytes(file);
        BuildWeaver.Outcome one = new BuildWeaver.Outcome(1, 0, 0, List.of());
        assertEquals(one, BuiltClasses.weave(null, originals, classes));
        byte[] woven = Files.readAllBytes(file);
        assertEquals(one, BuiltClasses.weave("reads=unlocked", originals, classes));
        assertFalse(Arrays.equals(woven, Files.readAllBytes(file)));
        assertEquals(one, BuiltClasses.weave(null, originals, classes));
        assertArrayEquals(woven, Files.readAllBytes(file));
        String excluded = "exclude=" + Reopened.class.getName();
        BuildWeaver.Outcome left = new BuildWeaver.Outcome(0, 0, 1, List.of());
        assertEquals(left, BuiltClasses.weave(excluded, originals, classes));
        assertArrayEquals(compiled, Files.readAllBytes(file));
        assertArrayEquals(compiled, Files.readAllBytes(originals.resolve(PACKAGE + "Reopened.class")));
    }

    /// J18h: the folder of originals is that of another build.
    @Test
    void originalsOfOtherFilesAreIgnored() throws Exception {
        Path originals = folder.resolve("originals");
        Path classes = folder.resolve("classes");
        BuiltClasses.copy(classes, PACKAGE + "Reopened");
        assertEquals(List.of(), BuiltClasses.weave(null, originals, classes).failures());
        Path kept = originals.resolve(PACKAGE + "Reopened.class");
        Files.copy(Path.of(CLASSES, PACKAGE + "Launched.class"), kept, StandardCopyOption.REPLACE_EXISTING);
        BuildWeaver.Outcome outcome = BuiltClasses.weave("reads=unlocked", originals, classes);
        assertTrue(outcome.failures().getFirst().contains("Run a clean build"), outcome.toString());
    }

    /// J18g
    @Test
    void filesOfKilledWeaverAreRemoved() throws Exception {
        BuiltClasses.copy(folder, PACKAGE + "Reopened");
        Process killed = new ProcessBuilder("true").start();
        killed.waitFor();
        Path left = folder.resolve(PACKAGE + "Reopened.class." + killed.pid() + ".woven");
        Path running = folder.resolve(PACKAGE + "Reopened.class."
                + ProcessHandle.current().parent().orElseThrow().pid() + ".woven");
        Files.write(left, new byte[10]);
        Files.write(running, new byte[10]);
        assertEquals(List.of(), BuiltClasses.weave(null, folder).failures());
        assertFalse(Files.exists(left));
        assertTrue(Files.exists(running));
    }

    /// J18g
    @Test
    void simultaneousWeaversLeaveWholeFiles() throws Exception {
        String name = PACKAGE + "Reopened";
        Path alone = Files.createDirectories(folder.resolve("alone"));
        BuiltClasses.add(null, alone, "cedrat/persist/woven/store/");
        Path shared = Files.createDirectories(folder.resolve("a folder"));
        BuiltClasses.copy(shared, "cedrat/persist/woven/store/");
        List<Process> weavers = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            weavers.add(main(shared.toString()));
        }
        for (Process weaver : weavers) {
            String said = new String(weaver.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertEquals(0, weaver.waitFor(), said);
        }
        assertEquals(files(alone).keySet(), files(shared).keySet());
        files(alone).forEach((file, content) -> {
            assertEquals(content, files(shared).get(file), file);
        });
    }

    private static Map<String, String> files(Path folder) {
        Map<String, String> files = new TreeMap<>();
        try (Stream<Path> paths = Files.walk(folder)) {
            for (Path path : paths.filter(Files::isRegularFile).toList()) {
                files.put(folder.relativize(path).toString(), HexFormat.of().formatHex(Files.readAllBytes(path)));
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return files;
    }

    /// Starts the command.
    private Process main(String... arguments) throws IOException {
        List<String> line = new ArrayList<>();
        line.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        line.addAll(List.of("-XX:TieredStopAtLevel=1", "-cp", AGENT + File.pathSeparator + CLASSES));
        line.add("cedrat.persist.weave.Main");
        line.addAll(List.of(arguments));
        return new ProcessBuilder(line).redirectErrorStream(true).start();
    }

    private void assertCommandFails(int status, String reason, String... arguments) throws Exception {
        Process command = main(arguments);
        String said = new String(command.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertTrue(said.contains(reason), said);
        assertFalse(said.contains("\tat "), said);
        assertEquals(status, command.waitFor(), said);
    }

    @Test
    void commandNamesInvalidArguments() throws Exception {
        assertCommandFails(2, "usage: ");
        assertCommandFails(2, "invalid argument `--class-path=lib`", "--class-path=lib", folder.toString());
        assertCommandFails(2, "invalid argument `reads=never` of the agent", "--arguments=reads=never", ".");
        assertCommandFails(2, AGENT + ": it is no folder", AGENT);
        assertCommandFails(
                2, "missing: it is no folder", folder.resolve("missing").toString());
        Path file = Files.writeString(folder.resolve("file"), "");
        BuiltClasses.copy(folder, PACKAGE + "Reopened");
        assertCommandFails(1, "cannot weave the classes in [", "--originals=" + file, folder.toString());
    }

    @Test
    void linkToFolderIsFollowed() throws Exception {
        Path classes = Files.createDirectories(folder.resolve("classes"));
        BuiltClasses.copy(classes, PACKAGE + "Reopened");
        Path link = Files.createSymbolicLink(folder.resolve("link"), classes);
        assertEquals(new BuildWeaver.Outcome(1, 0, 0, List.of()), BuiltClasses.weave(null, link));
    }

    /// J18f: a shrinking tool has removed the attribute.
    @Test
    void wovenClassWithoutAttributeIsRefused() throws Exception {
        BuiltClasses.add(null, folder, PACKAGE + "Reopened");
        Path file = folder.resolve(PACKAGE + "Reopened.class");
        ClassFile dropping = ClassFile.of(ClassFile.AttributesProcessingOption.DROP_UNKNOWN_ATTRIBUTES);
        byte[] without = dropping.transformClass(dropping.parse(file), (builder, element) -> builder.with(element));
        Files.write(file, without);
        String reason = "it has barriers, but another tool has removed its attribute cedrat.Woven";
        Ended ended = withAgent("", Reopened.class);
        assertTrue(ended.said.contains(reason), ended.said);
        assertNotEquals(0, ended.status);
        BuildWeaver.Outcome outcome = BuiltClasses.weave(null, folder);
        assertTrue(outcome.failures().getFirst().contains(reason), outcome.toString());
    }

    @Test
    void classesOfCedratAreLeft() throws Exception {
        BuiltClasses.copy(folder, "cedrat/persist/record/PersistentTest.class");
        assertEquals(new BuildWeaver.Outcome(0, 0, 1, List.of()), BuiltClasses.weave(null, folder));
    }

    private void compile(String... lines) throws Exception {
        Path source = folder.resolve("Example.java");
        Files.writeString(source, lines[lines.length - 1]);
        List<String> arguments = new ArrayList<>(List.of(lines).subList(0, lines.length - 1));
        arguments.addAll(List.of("-cp", AGENT, "-d", folder.toString(), source.toString()));
        assertEquals(
                0,
                ToolProvider.findFirst("javac")
                        .orElseThrow()
                        .run(System.out, System.out, arguments.toArray(String[]::new)));
    }

    /// J6b, J18b
    @Test
    void unclosedTransactionFailsBuild() throws Exception {
        compile("""
                class Example {
                    int count;
                    static void leave() {
                        cedrat.persist.Transaction.begin();
                    }
                    static class Other {
                        int count;
                        void change() {
                            count++;
                        }
                    }
                }
                """);
        byte[] other = Files.readAllBytes(folder.resolve("Example$Other.class"));
        BuildWeaver.Outcome outcome = BuiltClasses.weave(null, folder);
        assertEquals(1, outcome.failures().size(), outcome.toString());
        assertTrue(outcome.failures().getFirst().startsWith("cannot weave the class Example: "), outcome.toString());
        assertArrayEquals(other, Files.readAllBytes(folder.resolve("Example$Other.class")));
    }

    /// J18c
    @Test
    void oldClassFilesAreLeft() throws Exception {
        compile("--release", "8", "-Xlint:-options", "class Example { Example next; }");
        assertEquals(new BuildWeaver.Outcome(0, 0, 1, List.of()), BuiltClasses.weave(null, folder));
    }

    /// J18c: one module of two was not woven.
    @Test
    void agentWeavesWhatBuildHasNot() throws Exception {
        BuiltClasses.add(null, folder, PACKAGE + "Launched");
        Ended ended = withAgent("", Reopened.class);
        assertTrue(ended.said.contains(REOPENED), ended.said);
    }

    /// J12
    @Test
    void builtClassesBeginNothingWithoutAgent() throws Exception {
        BuiltClasses.add(null, folder, PACKAGE + "Launched");
        Ended ended = java(List.of(), Launched.class);
        assertTrue(ended.said.contains("the agent is not loaded"), ended.said);
        assertNotEquals(0, ended.status);
    }

    /// Assigns to fields without a transaction.
    static final class Plain {
        private static int count;
        private int own;
        private Plain next;

        private Plain() {}

        public static void main(String[] arguments) {
            Plain plain = new Plain();
            plain.next = new Plain();
            plain.next.own = 3;
            count++;
            System.out.println("plain " + plain.next.own + count + plain.next.next);
        }
    }

    /// J18d
    @Test
    void builtClassesRunWithoutAgent() throws Exception {
        BuiltClasses.add(null, folder, PACKAGE + "BuildWeaverTest$Plain");
        Ended ended = java(List.of(), Plain.class);
        assertTrue(ended.said.contains("plain 31null"), ended.said);
        assertFalse(ended.said.contains("Error"), ended.said);
        assertEquals(0, ended.status);
    }

    /// J18d: its barriers are not those of the agent.
    @Test
    void agentAfterBuiltClassesIsRefused() throws Exception {
        BuiltClasses.add(null, folder, PACKAGE + "BuildWeaverTest$Waiting");
        Ended ended =
                java(List.of("-Djdk.attach.allowAttachSelf=true", "-XX:+EnableDynamicAgentLoading"), Waiting.class);
        assertTrue(ended.said.contains("cannot load the agent: classes that a build has woven"), ended.said);
        assertTrue(ended.said.contains("refused 1"), ended.said);
        assertEquals(0, ended.status);
    }

    /// Loads the agent when it has run already.
    static final class Waiting {
        private static int count;

        private Waiting() {}

        public static void main(String[] arguments) throws Exception {
            count++;
            VirtualMachine machine =
                    VirtualMachine.attach(Long.toString(ProcessHandle.current().pid()));
            try {
                machine.loadAgent(AGENT_OF_PROGRAM);
                System.out.println("loaded");
            } catch (AgentInitializationException e) {
                System.out.println("refused " + count);
            } finally {
                machine.detach();
            }
        }

        private static final String AGENT_OF_PROGRAM = Stream.of(
                        System.getProperty("java.class.path").split(File.pathSeparator))
                .filter(path -> path.endsWith(".jar"))
                .findFirst()
                .orElseThrow();
    }

    /// J18d: another agent has loaded a class, and run none of its code.
    @Test
    void agentAfterLoadedClassIsRefused() throws Exception {
        BuiltClasses.add(null, folder, PACKAGE + "BuildWeaverTest$Plain");
        Manifest manifest = new Manifest();
        manifest.getMainAttributes().put(Attributes.Name.MANIFEST_VERSION, "1.0");
        manifest.getMainAttributes().putValue("Premain-Class", Loading.class.getName());
        Path jar = folder.resolve("loading.jar");
        try (OutputStream out = Files.newOutputStream(jar)) {
            new JarOutputStream(out, manifest).close();
        }
        Ended ended = java(List.of("-javaagent:" + jar, "-javaagent:" + AGENT), Plain.class);
        assertTrue(ended.said.contains("cannot load the agent: classes that a build has woven"), ended.said);
        assertNotEquals(0, ended.status);
    }

    /// An agent that loads a class of the program.
    static final class Loading {
        private Loading() {}

        /// Called before the program.
        public static void premain(String arguments) throws ClassNotFoundException {
            Class.forName(PACKAGE.replace('/', '.') + "BuildWeaverTest$Plain", false, Loading.class.getClassLoader());
        }
    }

    /// J18e
    @Test
    void agentTakesArgumentsOfFile() throws Exception {
        BuiltClasses.add("reads=unlocked", folder, PACKAGE + "LaunchTest");
        Path file = folder.resolve(Agent.ARGUMENTS);
        Files.createDirectories(file.getParent());
        Files.writeString(file, "reads=unlocked\n");
        Ended ended = java(List.of("-javaagent:" + AGENT), LaunchTest.Levels.class);
        assertTrue(ended.said.contains("READ_UNCOMMITTED opens"), ended.said);
        assertTrue(ended.said.contains("SERIALISABLE is refused"), ended.said);
    }
}
