package cedrat.persist.woven.weave;

import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.woven.record.NestedTest;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/// J1, J6: whichever compiler has made the code, with tables for debuggers or without.
class CompilersTest {
    private static final List<Class<?>> TESTS =
            List.of(LocalsTest.class, LeavingTest.class, NestedTest.class, ReadsTest.class);

    @TempDir
    Path folder;

    /// J1, J6.
    @ParameterizedTest
    @CsvSource({"JAVAC,-g", "JAVAC,-g:none", "ECJ,-g", "ECJ,-g:none"})
    void theTestsPassWithEachCompiler(Compiled.Compiler compiler, String debug) throws Throwable {
        List<Path> files = TESTS.stream()
                .map(test -> Path.of("src/test/java", test.getName().replace('.', '/') + ".java"))
                .toList();
        int run = 0;
        try (Compiled compiled = Compiled.of(folder, compiler, debug, files)) {
            for (Class<?> test : TESTS) {
                Class<?> again = compiled.loadClass(test.getName());
                assertNotSame(test, again);
                run += runTests(again);
            }
        }
        assertTrue(run > 30, "" + run);
    }

    private static int runTests(Class<?> type) throws Throwable {
        Constructor<?> constructor = type.getDeclaredConstructor();
        constructor.setAccessible(true);
        int run = 0;
        for (Method method : type.getDeclaredMethods()) {
            if (method.isAnnotationPresent(Test.class)) {
                method.setAccessible(true);
                Object test = constructor.newInstance();
                try {
                    method.invoke(test);
                } catch (InvocationTargetException e) {
                    throw e.getCause();
                } finally {
                    if (test instanceof AutoCloseable resource) {
                        resource.close();
                    }
                }
                run++;
            }
        }
        return run;
    }

    private static String method(String body) {
        return """
                import cedrat.persist.Transaction;
                class Scoped {
                    static Transaction kept;
                    static int x;
                    static void run() throws Exception {
                        %s
                    }
                    static Transaction open() { return null; }
                }
                """.formatted(body);
    }

    private Method load(Compiled.Compiler compiler, String body) throws IOException, ReflectiveOperationException {
        Compiled compiled = Compiled.of(folder, compiler, "Scoped", method(body));
        Method run = compiled.loadClass("Scoped").getDeclaredMethod("run");
        run.setAccessible(true);
        return run;
    }

    /// J6: a transaction that is not closed in its method on each way out.
    @ParameterizedTest
    @ValueSource(
            strings = {
                "kept = Transaction.begin();",
                "Transaction.begin();",
                "Transaction t = Transaction.begin(); x = 1; t.commit();",
                "Transaction t = Transaction.begin(); if (x == 0) { t.close(); }",
                "Transaction t = Transaction.begin(); x = Integer.parseInt(\"1\"); t.close();",
                "Transaction t = null; if (x == 0) { t = Transaction.begin(); } t.close();",
                "while (x < 3) { Transaction t = Transaction.begin(); x++; if (x == 2) { t.close(); } }",
                "Transaction t = Transaction.begin(); try { x = 1; } catch (RuntimeException e) { x = 2; } t.close();",
                "Transaction t = null; try { t = Transaction.begin(); x = 1; } finally { if (t != null) t.close(); }"
            })
    void aTransactionThatIsNotClosedOnEachWayOutKeepsTheClassFromLoading(String body) throws Exception {
        for (Compiled.Compiler compiler : Compiled.Compiler.values()) {
            Method run = load(compiler, body);
            String message = assertThrows(VerifyError.class, () -> run.invoke(null), compiler + ": " + body)
                    .getMessage();
            assertTrue(message.contains("Scoped.run()void: the transaction that begins at line 6"), message);
        }
    }

    @ParameterizedTest
    @EnumSource(Compiled.Compiler.class)
    void otherStructuredCodeLoads(Compiled.Compiler compiler) throws Exception {
        Method run = load(compiler, """
                int local = 1;
                Transaction t = Transaction.begin();
                Transaction alias = t;
                try { local = 2; x = 5; alias.rollback(); } finally { t.close(); }
                if (local != 1 || x != 0) throw new AssertionError();
                try (AutoCloseable named = Transaction.begin()) {
                    synchronized (named) { local = 3; }
                    switch (local) { case 3: x = 6; break; default: return; }
                    do { local++; } while (local < 9);
                }
                if (local != 1 || x != 0) throw new AssertionError("local " + local);
                try (Transaction a = Transaction.begin(); Transaction b = Transaction.begin()) {
                    local = 7;
                    b.commit();
                    a.commit();
                }
                if (local != 7) throw new AssertionError("local " + local);
                """);
        try {
            run.invoke(null);
        } catch (InvocationTargetException e) {
            throw (Exception) new RuntimeException(e.getCause());
        }
    }
}
