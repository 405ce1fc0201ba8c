package cedrat.persist.woven.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.module.ModuleDescriptor;
import java.lang.module.ModuleFinder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.spi.ToolProvider;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// The library as a module that exports one package to programs.
class ModulesTest {
    private static final String AGENT = System.getProperty("cedrat.agent");

    @TempDir
    Path folder;

    /// Compiles a module that requires the library's, with one class, and returns the compiler's messages.
    private String compile(int status, String body) throws IOException {
        Path source = Files.createDirectories(folder.resolve("source"));
        Files.writeString(source.resolve("module-info.java"), "module example { requires cedrat.persist; }");
        Files.writeString(source.resolve("Main.java"), """
                package example;
                import cedrat.persist.Transaction;
                public class Main {
                    private static int count;
                    private Object field = "before";
                    public static void main(String[] arguments) throws Exception {
                %s
                    }
                }
                """.formatted(body));
        StringWriter messages = new StringWriter();
        PrintWriter out = new PrintWriter(messages);
        int ended = ToolProvider.findFirst("javac")
                .orElseThrow()
                .run(
                        out,
                        out,
                        "-p",
                        AGENT,
                        "-d",
                        folder.resolve("modules/example").toString(),
                        source.resolve("module-info.java").toString(),
                        source.resolve("Main.java").toString());
        assertEquals(status != 0, ended != 0, messages.toString());
        return messages.toString();
    }

    @Test
    void onlyApiIsExportedToPrograms() {
        ModuleDescriptor module = ModuleFinder.of(Path.of(AGENT))
                .find("cedrat.persist")
                .orElseThrow()
                .descriptor();
        assertEquals(
                Set.of("cedrat.persist"),
                module.exports().stream()
                        .filter(exports -> !exports.isQualified())
                        .map(ModuleDescriptor.Exports::source)
                        .collect(Collectors.toSet()));
        assertEquals(Set.of(), module.opens());
    }

    @Test
    void internalClassIsRefusedByCompiler() throws IOException {
        String messages = compile(1, "System.out.println(cedrat.persist.store.StoreRuntime.class);");
        assertTrue(messages.contains("package cedrat.persist.store is not visible"), messages);
    }

    @Test
    void agentRestoresProgramOfNamedModule() throws Exception {
        compile(0, """
                var list = new java.util.ArrayList<String>();
                int local = 0;
                Main main = new Main();
                try (var transaction = Transaction.begin()) {
                    count++;
                    local++;
                    main.field = "lost";
                    list.add("lost");
                    transaction.rollback();
                }
                System.out.println("count " + count + ", local " + local + ", list " + list + ", field " + main.field);
                System.out.println("API in " + Transaction.class.getModule());
                System.out.println("agent in " + Class.forName("cedrat.persist.weave.Agent").getModule());
                try {
                    Class.forName("cedrat.persist.store.StoreRuntime").getConstructors()[0].newInstance((Object) null);
                } catch (IllegalAccessException hidden) {
                    System.out.println("internals are hidden");
                }
                """);
        Path said = folder.resolve("said");
        Process process = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-javaagent:" + AGENT,
                        "-p",
                        AGENT + java.io.File.pathSeparator + folder.resolve("modules"),
                        "-m",
                        "example/example.Main")
                .redirectErrorStream(true)
                .redirectOutput(said.toFile())
                .start();
        int status = process.waitFor();
        String text = Files.readString(said);
        assertEquals(0, status, text);
        assertTrue(text.contains("count 0, local 0, list [], field before"), text);
        assertTrue(text.contains("API in module cedrat.persist"), text);
        assertTrue(text.contains("agent in module cedrat.persist"), text);
        assertTrue(text.contains("internals are hidden"), text);
    }
}
