package cedrat.persist.woven.weave;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.spi.ToolProvider;
import org.eclipse.jdt.core.compiler.batch.BatchCompiler;

/// Classes that a test compiles itself.
public final class Compiled extends URLClassLoader {
    private final Path classes;

    private Compiled(Path classes) throws MalformedURLException {
        super(new URL[] {classes.toUri().toURL()}, Compiled.class.getClassLoader());
        this.classes = classes;
    }

    /// The compiler.
    public enum Compiler {
        JAVAC,
        ECJ
    }

    /// Compiles files into `folder`, and loads them from there even if the class path has them too.
    public static Compiled of(Path folder, Compiler compiler, String debug, List<Path> files) throws IOException {
        Path classes = Files.createTempDirectory(folder, "classes");
        List<String> arguments = new ArrayList<>(List.of(
                debug, "-nowarn", "-d", classes.toString(), "-classpath", System.getProperty("java.class.path")));
        if (compiler == Compiler.ECJ) {
            arguments.addAll(List.of("-source", "25", "-target", "25", "-proc:none"));
        } else {
            arguments.addAll(List.of("-proc:none"));
        }
        files.forEach(file -> arguments.add(file.toString()));
        String[] line = arguments.toArray(String[]::new);
        StringWriter said = new StringWriter();
        PrintWriter out = new PrintWriter(said);
        boolean isDone = compiler == Compiler.ECJ
                ? BatchCompiler.compile(line, out, out, null)
                : ToolProvider.findFirst("javac").orElseThrow().run(out, out, line) == 0;
        if (!isDone) {
            throw new AssertionError(compiler + ": " + said);
        }
        return new Compiled(classes);
    }

    /// Compiles the class `name`.
    public static Compiled of(Path folder, Compiler compiler, String name, String source) throws IOException {
        Path file = folder.resolve(name + ".java");
        Files.writeString(file, source);
        return of(folder, compiler, "-g", List.of(file));
    }

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
        synchronized (getClassLoadingLock(name)) {
            Class<?> loaded = findLoadedClass(name);
            if (loaded == null && Files.exists(classes.resolve(name.replace('.', '/') + ".class"))) {
                loaded = findClass(name);
            }
            return loaded != null ? loaded : super.loadClass(name, resolve);
        }
    }
}
