package cedrat.persist.woven.store;

import cedrat.persist.woven.weave.Compiled;
import cedrat.persist.woven.weave.Compiled.Compiler;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.nio.file.Path;

/// Versions of a program, the class `Program`, each with a class loader of its own.
final class Versions {
    private Versions() {}

    /// Compiles the members of a version.
    static Class<?> compile(Path folder, String members) throws IOException {
        try {
            return Compiled.of(
                            folder,
                            Compiler.JAVAC,
                            "Program",
                            "import java.util.*; import java.time.*; class Program { " + members + " }")
                    .loadClass("Program");
        } catch (ClassNotFoundException e) {
            throw new AssertionError(e);
        }
    }

    /// Calls a static method of a version without parameters, or with one of type `Object`.
    ///
    /// @param argument null: there is none
    static Object call(Class<?> program, String method, Object argument) {
        try {
            var found = program.getDeclaredMethod(
                    method, argument == null ? new Class<?>[0] : new Class<?>[] {Object.class});
            found.setAccessible(true);
            return argument == null ? found.invoke(null) : found.invoke(null, argument);
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof RuntimeException cause) {
                throw cause;
            }
            throw new AssertionError(e.getCause());
        } catch (ReflectiveOperationException e) {
            throw new AssertionError(e);
        }
    }
}
