package cedrat.persist.woven.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.StoreOptions.Isolation;
import cedrat.persist.Transaction;
import com.sun.tools.attach.VirtualMachine;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.OutputStream;
import java.io.Writer;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.ProtectionDomain;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.jar.Attributes;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;
import java.util.spi.ToolProvider;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// The ways to start a program with the agent, and one without it.
class LaunchTest {
    private static final String RESTORED = "count 0, local 0, list []";

    private record Ended(int status, String said) {}

    private static final Path AGENT = Path.of(System.getProperty("cedrat.agent"));
    private static final Path CLASSES = Path.of("target", "test-classes").toAbsolutePath();

    @TempDir
    Path folder;

    private Ended java(String... arguments) throws IOException, InterruptedException {
        List<String> line = new ArrayList<>();
        line.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        line.addAll(List.of(arguments));
        Path said = folder.resolve("said");
        Process process = new ProcessBuilder(line)
                .redirectErrorStream(true)
                .redirectOutput(said.toFile())
                .start();
        int status = process.waitFor();
        return new Ended(status, Files.readString(said));
    }

    @Test
    void withTheAgentOnTheCommandLine() throws Exception {
        Ended ended = java("-javaagent:" + AGENT, "-cp", CLASSES.toString(), Launched.class.getName());
        assertTrue(ended.said.contains(RESTORED), ended.said);
        assertEquals(0, ended.status);
    }

    /// An agent that uses collections for each class that is loaded.
    public static final class Other {
        private Other() {}

        public static void premain(String argument, Instrumentation instrumentation) {
            List<String> names = new ArrayList<>();
            instrumentation.addTransformer(new ClassFileTransformer() {
                @Override
                public byte[] transform(
                        ClassLoader loader, String name, Class<?> redefined, ProtectionDomain domain, byte[] bytes) {
                    synchronized (names) {
                        names.add(name);
                        names.forEach(Other::look);
                    }
                    return null;
                }
            });
        }

        private static void look(String name) {
            if (name != null && name.isEmpty()) {
                throw new AssertionError("a class without a name");
            }
        }
    }

    /// Changes collections without a transaction while another thread has one.
    static final class Beside {
        private Beside() {}

        public static void main(String[] arguments) throws InterruptedException {
            CountDownLatch begun = new CountDownLatch(1);
            CountDownLatch end = new CountDownLatch(1);
            Thread other = Thread.ofPlatform().daemon().start(() -> {
                try (var transaction = Transaction.begin()) {
                    begun.countDown();
                    await(end);
                    transaction.commit();
                }
            });
            begun.await();
            List<String> list = new ArrayList<>(List.of("changed"));
            list.add("without a transaction");
            end.countDown();
            other.join();
            System.out.println(list);
        }

        private static void await(CountDownLatch latch) {
            try {
                latch.await();
            } catch (InterruptedException e) {
                throw new AssertionError("unexpected interrupt", e);
            }
        }
    }

    /// The first barrier of a thread without a transaction may be one of another agent.
    @Test
    void anotherAgentUsesCollections() throws Exception {
        Manifest manifest = new Manifest();
        manifest.getMainAttributes().put(Attributes.Name.MANIFEST_VERSION, "1.0");
        manifest.getMainAttributes().putValue("Premain-Class", Other.class.getName());
        Path jar = folder.resolve("other.jar");
        try (OutputStream out = Files.newOutputStream(jar)) {
            new JarOutputStream(out, manifest).close();
        }
        Ended ended =
                java("-javaagent:" + AGENT, "-javaagent:" + jar, "-cp", CLASSES.toString(), Beside.class.getName());
        assertTrue(ended.said.contains("[changed, without a transaction]"), ended.said);
        assertEquals(0, ended.status);
    }

    /// Such a provider would be loaded without barriers.
    @Test
    void agentLoadsNoProviderOfFileSystems() throws Exception {
        Path services = Files.createDirectories(folder.resolve("META-INF/services"));
        Files.writeString(services.resolve("java.nio.file.spi.FileSystemProvider"), "example.Missing");
        Ended ended = java(
                "-javaagent:" + AGENT, "-cp", CLASSES + java.io.File.pathSeparator + folder, Launched.class.getName());
        assertTrue(ended.said.contains(RESTORED), ended.said);
        assertEquals(0, ended.status);
    }

    private Ended withManifest(boolean canRetransform) throws IOException, InterruptedException {
        Manifest manifest = new Manifest();
        Attributes attributes = manifest.getMainAttributes();
        attributes.put(Attributes.Name.MANIFEST_VERSION, "1.0");
        attributes.put(Attributes.Name.MAIN_CLASS, Launched.class.getName());
        attributes.put(Attributes.Name.CLASS_PATH, CLASSES.toUri() + " " + AGENT.toUri());
        attributes.putValue("Launcher-Agent-Class", "cedrat.persist.weave.Agent");
        if (canRetransform) {
            attributes.putValue("Can-Retransform-Classes", "true");
        }
        Path jar = folder.resolve("program.jar");
        try (OutputStream out = Files.newOutputStream(jar)) {
            new JarOutputStream(out, manifest).close();
        }
        return java("-jar", jar.toString());
    }

    @Test
    void withTheAgentInTheManifest() throws Exception {
        Ended ended = withManifest(true);
        assertTrue(ended.said.contains(RESTORED), ended.said);
        assertEquals(0, ended.status);
    }

    /// J12
    @Test
    void manifestErrorNamesTheMissingLine() throws Exception {
        Ended ended = withManifest(false);
        assertTrue(ended.said.contains("add Can-Retransform-Classes: true"), ended.said);
        assertFalse(ended.said.contains("ASSERTION FAILED"), ended.said);
        assertNotEquals(0, ended.status);
    }

    /// J12
    @Test
    void withoutTheAgentNothingBegins() throws Exception {
        Ended ended = java("-cp", CLASSES + java.io.File.pathSeparator + AGENT, Launched.class.getName());
        assertTrue(ended.said.contains("the agent is not loaded"), ended.said);
        assertNotEquals(0, ended.status);
    }

    /// Opens a store of each level of isolation.
    static final class Levels {
        private Levels() {}

        public static void main(String[] arguments) {
            for (Isolation isolation : Isolation.values()) {
                StoreOptions options = new StoreOptions().isolation(isolation);
                try (Store store = Store.open(new MemoryGraph().open(), options)) {
                    System.out.println(isolation + " opens, new: " + store.isNew());
                } catch (IllegalStateException e) {
                    System.out.println(isolation + " is refused: " + e.getMessage());
                }
            }
        }
    }

    /// J3.2b
    @Test
    void unlockedReadsRefuseSerialisableStores() throws Exception {
        Ended ended =
                java("-javaagent:" + AGENT + "=reads=unlocked", "-cp", CLASSES.toString(), Levels.class.getName());
        assertTrue(ended.said.contains("SERIALISABLE is refused: cannot open a store with Isolation.SERIALISABLE"));
        assertTrue(ended.said.contains("reads=unlocked"), ended.said);
        assertTrue(ended.said.contains("READ_UNCOMMITTED opens"), ended.said);
        assertEquals(0, ended.status);
    }

    /// J12
    @Test
    void inAnExcludedClassNothingBegins() throws Exception {
        Ended ended = java(
                "-javaagent:" + AGENT + "=exclude=cedrat.persist.woven.weave.Launched",
                "-cp",
                CLASSES.toString(),
                Launched.class.getName());
        assertTrue(ended.said.contains("the calling class has no write barriers"), ended.said);
        assertNotEquals(0, ended.status);
    }

    /// Reads a reference that is null.
    static final class Chain {
        Chain next;

        private Chain() {}

        public static void main(String[] arguments) {
            System.out.println("next: " + new Chain().next);
        }
    }

    /// As the quick one of the virtual machine's compilers says itself, which reads by these methods too.
    @Test
    void compiledReadsExcludeTheirSlowPath() throws Exception {
        Ended ended = java(
                "-javaagent:" + AGENT,
                "-Xcomp",
                "-XX:TieredStopAtLevel=1",
                "-XX:+UnlockDiagnosticVMOptions",
                "-XX:+PrintInlining",
                "-XX:CompileCommand=compileonly,cedrat.persist.woven.weave.LaunchTest$Chain::*",
                "-cp",
                CLASSES.toString(),
                Chain.class.getName());
        assertTrue(ended.said.contains("next: null"), ended.said);
        List<String> decisions = ended.said
                .lines()
                .filter(line -> line.contains("Barrier::readNull"))
                .toList();
        assertFalse(decisions.isEmpty(), ended.said);
        assertTrue(decisions.stream().noneMatch(line -> line.endsWith(" inline")), ended.said);
    }

    /// Starts a program, loads the agent when it says that it is ready, and lets it go on.
    private String attached(String... loaded) throws Exception {
        List<String> line = new ArrayList<>();
        line.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        line.addAll(List.of("-XX:+EnableDynamicAgentLoading", "-cp", CLASSES + java.io.File.pathSeparator + AGENT));
        line.add(Attached.class.getName());
        line.addAll(List.of(loaded));
        Process process = new ProcessBuilder(line).redirectErrorStream(true).start();
        try (BufferedReader said = process.inputReader();
                Writer toProcess = process.outputWriter()) {
            assertEquals("ready", said.readLine());
            VirtualMachine machine = VirtualMachine.attach(Long.toString(process.pid()));
            try {
                machine.loadAgent(AGENT.toString());
            } finally {
                machine.detach();
            }
            toProcess.write('\n');
            toProcess.flush();
            String rest = String.join("\n", said.readAllLines());
            assertEquals(0, process.waitFor(), rest);
            return rest;
        } finally {
            process.destroyForcibly();
        }
    }

    @Test
    void withTheAgentInARunningProgram() throws Exception {
        String said = attached(Launched.class.getName());
        assertTrue(said.contains(RESTORED), said);
    }

    /// J1
    @Test
    void classesBeforeAgentPreventStoreOpening() throws Exception {
        String said = attached();
        assertTrue(said.contains("These were loaded before the agent: " + Attached.class.getName()), said);
        assertTrue(said.contains("Start Java with -javaagent"), said);
        assertFalse(said.contains("a store is open"), said);
    }

    /// J1.
    @Test
    void wovenClassesSerialiseAsBefore() throws Exception {
        String[] line = {"-cp", CLASSES + java.io.File.pathSeparator + AGENT, Serialised.class.getName()};
        Ended plain = java(line);
        Ended woven = java(
                Stream.concat(Stream.of("-javaagent:" + AGENT), Stream.of(line)).toArray(String[]::new));
        assertEquals(0, plain.status, plain.said);
        assertTrue(plain.said.contains("woven false"), plain.said);
        assertEquals(plain.said.replace("woven false", "woven true"), withoutWarnings(woven.said));
    }

    @Test
    void classesOfNamedModulesAreWoven() throws Exception {
        Path module = Files.createDirectories(folder.resolve("example"));
        Path classes = folder.resolve("modules").resolve("example");
        Files.writeString(module.resolve("module-info.java"), "module example {}");
        Files.writeString(module.resolve("Main.java"), """
                package example;
                public class Main {
                    Main next;
                    Object other = "found";
                    public static void main(String[] arguments) {
                        Main main = new Main();
                        main.next = new Main();
                        System.out.println(main.next.other + " " + main.next.next);
                        System.out.println(main.getClass().getInterfaces()[0].getName());
                    }
                }
                """);
        int status = ToolProvider.findFirst("javac")
                .orElseThrow()
                .run(
                        System.out,
                        System.out,
                        "-d",
                        classes.toString(),
                        module.resolve("module-info.java").toString(),
                        module.resolve("Main.java").toString());
        assertEquals(0, status);
        Ended ended = java("-javaagent:" + AGENT, "-p", classes.getParent().toString(), "-m", "example/example.Main");
        assertTrue(ended.said.contains("found null"), ended.said);
        assertTrue(ended.said.contains("cedrat.persist.boot.Persistable"), ended.said);
        assertEquals(0, ended.status);
    }

    private static String withoutWarnings(String said) {
        return said.lines().filter(line -> !line.contains("warning:")).collect(Collectors.joining("\n", "", "\n"));
    }

    /// J12
    @Test
    void methodOlderThanAgentBeginsNothing() throws Exception {
        String said = attached();
        assertTrue(said.contains(RESTORED), said);
        assertTrue(said.contains("count 0: cannot begin a transaction: the calling class has no write barriers"), said);
    }

    /// J12
    @Test
    void nothingBeginsAfterAnUnweavableClass() throws Exception {
        String said = attached(Attached.Referring.class.getName());
        assertTrue(said.contains(Attached.Referring.class.getName() + " cannot be woven"), said);
        assertFalse(said.contains(RESTORED), said);
    }
}
