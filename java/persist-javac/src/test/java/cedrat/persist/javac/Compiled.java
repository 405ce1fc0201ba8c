package cedrat.persist.javac;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.io.StringWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URI;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;
import javax.tools.Diagnostic;
import javax.tools.DiagnosticCollector;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.ToolProvider;

/// A class that a test compiles with the plugin.
final class Compiled {
    static final String PLUGIN = System.getProperty("cedrat.plugin");
    static final String AGENT = System.getProperty("cedrat.agent");

    private Compiled() {}

    /// Returns javac's messages for a source, each as `line: message`, compiled with the plugin into `folder`.
    static List<String> messages(Path folder, String name, String source, String... options) {
        List<String> all = new ArrayList<>(List.of("-processorpath", PLUGIN, "-Xplugin:Cedrat"));
        all.addAll(List.of(options));
        return messages(folder, List.of(file(name, source)), all);
    }

    /// The same of javac alone.
    static List<String> messagesWithoutPlugin(Path folder, String name, String source) {
        return messages(folder, List.of(file(name, source)), List.of());
    }

    static JavaFileObject file(String name, String source) {
        return new SimpleJavaFileObject(URI.create("string:///" + name + ".java"), JavaFileObject.Kind.SOURCE) {
            @Override
            public CharSequence getCharContent(boolean ignoreEncodingErrors) {
                return source;
            }
        };
    }

    /// Returns javac's messages for files that it compiles into `folder`, with these options, of which the last counts.
    static List<String> messages(Path folder, Iterable<? extends JavaFileObject> files, List<String> options) {
        DiagnosticCollector<JavaFileObject> collector = new DiagnosticCollector<>();
        List<String> all = new ArrayList<>(List.of("-proc:none", "-d", folder.toString(), "-classpath", AGENT));
        all.addAll(options);
        StringWriter said = new StringWriter();
        boolean isDone = ToolProvider.getSystemJavaCompiler()
                .getTask(said, null, collector, all, null, files)
                .call();
        List<String> messages =
                collector.getDiagnostics().stream().map(Compiled::text).toList();
        assertEquals("", said.toString(), "what javac says but in messages");
        assertEquals(isDone, messages.isEmpty(), messages.toString());
        return messages;
    }

    private static String text(Diagnostic<?> diagnostic) {
        return diagnostic.getLineNumber() + ": "
                + diagnostic.getMessage(Locale.ROOT).lines().findFirst().orElse("");
    }

    /// Asserts that two folders have the same classes, and returns how many.
    static int sameClasses(Path expected, Path actual) throws IOException {
        List<Path> names = classes(expected);
        assertEquals(names, classes(actual));
        for (Path name : names) {
            assertEquals(-1, Files.mismatch(expected.resolve(name), actual.resolve(name)), name.toString());
        }
        return names.size();
    }

    private static List<Path> classes(Path folder) throws IOException {
        try (Stream<Path> files = Files.walk(folder)) {
            return files.filter(Files::isRegularFile)
                    .map(folder::relativize)
                    .sorted()
                    .toList();
        }
    }

    /// Compiles a source without complaints, and loads its class.
    static Class<?> load(Path folder, String name, String source, String... options)
            throws IOException, ReflectiveOperationException {
        Path classes = Files.createTempDirectory(folder, "classes");
        assertEquals(List.of(), messages(classes, name, source, options), source);
        URL[] urls = {classes.toUri().toURL()};
        return new URLClassLoader(urls, Compiled.class.getClassLoader()).loadClass(name);
    }

    /// Calls a method without parameters of a new object.
    static Object run(Class<?> type, String method) throws Exception {
        Method found = type.getDeclaredMethod(method);
        found.setAccessible(true);
        var constructor = type.getDeclaredConstructor();
        constructor.setAccessible(true);
        try {
            return found.invoke(constructor.newInstance());
        } catch (InvocationTargetException e) {
            throw e.getCause() instanceof Exception exception ? exception : e;
        }
    }
}
