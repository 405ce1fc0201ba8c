package cedrat.persist.javac;

import com.sun.source.util.JavacTask;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Path;
import java.util.List;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.ToolProvider;

/// The way into packages of `jdk.compiler`, which are closed without an explicit export.
///
/// javac exports them to a plugin that is a module, if it is asked to (`-XDaccessInternalAPI`). A plugin on
/// the processor path is none. So this starts another compilation, of nothing, in which the same jar is a
/// module, and which passes on what it was given ([OpeningPlugin]). Neither options for the virtual machine
/// nor an agent are needed for it, so it does in Maven's own process too. Where it does not work, options of
/// the virtual machine let the plugin in as well.
final class CompilerAccess {
    private static final List<String> PACKAGES =
            List.of("api", "code", "comp", "main", "model", "parser", "processing", "tree", "util");

    private CompilerAccess() {}

    /// @throws IllegalStateException if the packages stay closed
    static void open() {
        if (isOpen()) {
            return;
        }
        StringWriter said = new StringWriter();
        try {
            compileNothing(said);
        } catch (IOException | URISyntaxException | RuntimeException e) {
            throw closed(said, e);
        }
        if (!isOpen()) {
            throw closed(said, null);
        }
    }

    private static boolean isOpen() {
        Module compiler = JavacTask.class.getModule();
        return PACKAGES.stream()
                .allMatch(name -> compiler.isExported("com.sun.tools.javac." + name, CompilerAccess.class.getModule()));
    }

    private static void compileNothing(StringWriter said) throws IOException, URISyntaxException {
        Path jar = Path.of(CompilerAccess.class
                .getProtectionDomain()
                .getCodeSource()
                .getLocation()
                .toURI());
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        List<String> options = List.of(
                "--processor-module-path",
                jar.toString(),
                "-XDaccessInternalAPI",
                "-Xplugin:" + OpeningPlugin.NAME,
                "-proc:none");
        JavaFileObject nothing =
                new SimpleJavaFileObject(URI.create("string:///Nothing.java"), JavaFileObject.Kind.SOURCE) {
                    @Override
                    public CharSequence getCharContent(boolean ignoreEncodingErrors) {
                        return "";
                    }
                };
        JavacTask task =
                (JavacTask) compiler.getTask(new PrintWriter(said), null, null, options, null, List.of(nothing));
        task.parse();
    }

    private static IllegalStateException closed(StringWriter said, Throwable cause) {
        StringBuilder message = new StringBuilder("the compiler plugin Cedrat cannot access javac. Pass these options "
                + "to the virtual machine: to javac with -J before each, to Maven in .mvn/jvm.config:");
        String to = CompilerAccess.class.getModule().isNamed()
                ? CompilerAccess.class.getModule().getName()
                : "ALL-UNNAMED";
        for (String name : PACKAGES) {
            message.append("\n  --add-exports=jdk.compiler/com.sun.tools.javac.")
                    .append(name)
                    .append('=')
                    .append(to);
        }
        return new IllegalStateException(message.append('\n').append(said).toString(), cause);
    }
}
