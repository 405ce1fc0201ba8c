package cedrat.persist.woven.weave;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.weave.BuildWeaver;
import java.io.IOException;
import java.lang.instrument.ClassDefinition;
import java.lang.instrument.Instrumentation;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.spi.ToolProvider;

/// A program that redefines a class of persistent objects, for other processes: an agent of its own, too.
final class HotSwapped {
    private static Instrumentation instrumentation;

    private HotSwapped() {}

    /// Called before the program.
    public static void premain(String arguments, Instrumentation own) {
        instrumentation = own;
    }

    /// @param arguments a folder, and versions of the body of a method
    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        Path classes = compiled(folder, arguments[1]);
        if (Boolean.getBoolean("built")) {
            System.out.println(new BuildWeaver(null, null, List.of(classes), List.of()).weave());
        }
        try (URLClassLoader loader =
                new URLClassLoader(new URL[] {classes.toUri().toURL()})) {
            Class<?> type = loader.loadClass("Order");
            Method show = type.getMethod("show");
            StoreOptions options = new StoreOptions().classLoader(loader);
            MemoryGraph graph = new MemoryGraph();
            for (int version = 1; version < arguments.length; version++) {
                if (version > 1) {
                    byte[] edited = Files.readAllBytes(
                            compiled(folder, arguments[version]).resolve("Order.class"));
                    instrumentation.redefineClasses(new ClassDefinition(type, edited));
                }
                try (Store store = Store.open(graph.open(), options)) {
                    if (version == 1) {
                        store.setRoot("order", type.getConstructor().newInstance());
                    }
                }
                // References of a loaded object are null until they are read.
                try (Store store = Store.open(graph.open(), options)) {
                    System.out.println("version " + version + ": " + show.invoke(store.root("order", Object.class)));
                }
            }
        }
    }

    private static Path compiled(Path folder, String body) throws IOException {
        Path file = folder.resolve("Order.java");
        Files.writeString(file, """
                public class Order extends Thing {
                    Object customer = "Ann" + new StringBuilder("a"); Object item = "pen" + new StringBuilder("s");
                    StringBuilder note = new StringBuilder("urgent"); int count = 3;
                    public String show() { return "" + %s; }
                }
                class Thing { Object maker = new StringBuilder("Bic"); }
                """.formatted(body));
        Path classes = Files.createTempDirectory(folder, "classes");
        String[] line = {"-proc:none", "-d", classes.toString(), file.toString()};
        if (ToolProvider.findFirst("javac").orElseThrow().run(System.out, System.out, line) != 0) {
            throw new AssertionError("javac refuses " + body);
        }
        return classes;
    }
}
