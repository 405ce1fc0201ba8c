package cedrat.persist.bench;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import javax.tools.Diagnostic;
import javax.tools.DiagnosticCollector;
import javax.tools.FileObject;
import javax.tools.ForwardingJavaFileManager;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileManager;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.ToolProvider;

/// A process that compiles all sources of a jar again and again, and says how many milliseconds each took.
/// What it makes is dropped: the disk is not measured.
final class Compilations {
    private Compilations() {}

    private static final class Source extends SimpleJavaFileObject {
        private final String text;

        Source(String name, String text) {
            super(URI.create("string:///" + name), Kind.SOURCE);
            this.text = text;
        }

        @Override
        public CharSequence getCharContent(boolean ignoreEncodingErrors) {
            return text;
        }
    }

    private static final class Dropped extends SimpleJavaFileObject {
        Dropped(String className) {
            super(URI.create("string:///" + className.replace('.', '/') + Kind.CLASS.extension), Kind.CLASS);
        }

        @Override
        public OutputStream openOutputStream() {
            return OutputStream.nullOutputStream();
        }
    }

    private static final class DroppingManager extends ForwardingJavaFileManager<JavaFileManager> {
        DroppingManager(JavaFileManager manager) {
            super(manager);
        }

        @Override
        public JavaFileObject getJavaFileForOutput(
                Location location, String className, JavaFileObject.Kind kind, FileObject sibling) {
            return new Dropped(className);
        }
    }

    /// The arguments: a jar of sources, and how often they are compiled.
    public static void main(String[] arguments) throws IOException {
        List<Source> sources = read(arguments[0]);
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        for (int count = Integer.parseInt(arguments[1]); count > 0; count--) {
            long start = System.nanoTime();
            compile(compiler, sources);
            System.out.println((System.nanoTime() - start) / 1e6);
        }
    }

    private static List<Source> read(String jar) throws IOException {
        List<Source> sources = new ArrayList<>();
        try (JarFile file = new JarFile(jar)) {
            for (JarEntry entry : file.stream().toList()) {
                if (entry.getName().endsWith(".java") && !entry.getName().endsWith("package-info.java")) {
                    try (InputStream in = file.getInputStream(entry)) {
                        sources.add(new Source(entry.getName(), new String(in.readAllBytes(), StandardCharsets.UTF_8)));
                    }
                }
            }
        }
        return sources;
    }

    private static void compile(JavaCompiler compiler, List<Source> sources) throws IOException {
        DiagnosticCollector<JavaFileObject> diagnostics = new DiagnosticCollector<>();
        try (JavaFileManager manager =
                new DroppingManager(compiler.getStandardFileManager(diagnostics, null, StandardCharsets.UTF_8))) {
            // They need no library, so the jars of this process are left out: javac would open each.
            List<String> options = List.of("-proc:none", "-nowarn", "-cp", "");
            if (!compiler.getTask(null, manager, diagnostics, options, null, sources)
                    .call()) {
                throw new IOException("the sources do not compile: "
                        + diagnostics.getDiagnostics().stream()
                                .filter(found -> found.getKind() == Diagnostic.Kind.ERROR)
                                .findFirst()
                                .orElseThrow());
            }
        }
    }
}
