package cedrat.persist.javac;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/// J15: what javac says of code in and behind a transaction: reachability, definite assignment, exceptions.
class FlowTest {
    private static final String HEAD = "import java.io.*; import java.util.*; import java.util.concurrent.Callable; "
            + "class Program { boolean flag; void use(Object o) { } void fail() throws Exception { }\n";

    /// Options that have flow analysed where types are wrong already, as other plugins of javac ask for, and javac's
    /// own failures reported.
    private static final String[] ANALYSE_ANYWAY = {"-XDshould-stop.ifError=FLOW", "-XDdev"};

    @TempDir
    Path folder;

    private List<String> messages(String members, String... options) {
        return Compiled.messages(folder, "Program", HEAD + members.strip() + "\n}\n", options);
    }

    /// Each with the message expected, at the line that has `// here`.
    static List<Arguments> compileErrorsNameTheirPlace() {
        String unassigned = "variable x might not have been initialized";
        String unreachable = "unreachable statement";
        return List.of(
                Arguments.of(unreachable, """
                        void run() { transaction { commit;
                            use(1); // here
                        } }"""),
                Arguments.of(unreachable, """
                        void run() { transaction { rollback;
                            use(1); // here
                        } }"""),
                Arguments.of(unreachable, """
                        void run() { transaction { if (flag) { commit; } else { rollback; }
                            use(1); // here
                        } }"""),
                Arguments.of(unreachable, """
                        void run() { transaction { while (true) { flag = !flag; }
                        }
                        use(1); // here
                        }"""),
                Arguments.of(unreachable, """
                        void run() { transaction { return; }
                        use(1); // here
                        }"""),
                Arguments.of("missing return statement", """
                        int run() { transaction { if (flag) { return 1; } commit; }
                        } // here"""),
                Arguments.of("missing return statement", """
                        int run() { transaction { if (flag) { return 1; } }
                        } // here"""),
                Arguments.of("missing return statement", """
                        int run() { transaction (commit) { if (flag) { return 1; } rollback; }
                        } // here"""),
                Arguments.of(unassigned, """
                        void run() { int x; transaction { x = 1; rollback; }
                        use(x); // here
                        }"""),
                Arguments.of(unassigned, """
                        void run() { int x; transaction { x = 1; }
                        use(x); // here
                        }"""),
                Arguments.of(unassigned, """
                        void run() { int x; transaction { x = 1; if (flag) { commit; } else { rollback; } }
                        use(x); // here
                        }"""),
                Arguments.of(unassigned, """
                        void run() { int x; transaction { x = 1; if (flag) { commit; } }
                        use(x); // here
                        }"""),
                Arguments.of(unassigned, """
                        void run() { int x; transaction { if (flag) { x = 1; } commit; }
                        use(x); // here
                        }"""),
                Arguments.of(unassigned, """
                        void run() { int x; transaction (commit) { x = 1; if (flag) { rollback; } }
                        use(x); // here
                        }"""),
                Arguments.of(unassigned, """
                        void run() { int x; while (true) { transaction { x = 1; break; } }
                        use(x); // here
                        }"""),
                Arguments.of(unassigned, """
                        void run() { int x; all: { transaction { x = 1; if (flag) break all; commit; } }
                        use(x); // here
                        }"""),
                Arguments.of(unassigned, """
                        void run() { int x; do { transaction { x = 1; if (flag) break; continue; } } while (
                        x > 0); // here
                        }"""),
                Arguments.of(unassigned, """
                        void run() { int x; int y = switch (1) { default: transaction { x = 1; yield 1; } };
                        use(x); // here
                        }"""),
                Arguments.of(unassigned, """
                        void run() { int x; boolean y = switch (1) { default: transaction { x = 1; yield flag; } };
                        use(x); // here
                        }"""),
                Arguments.of(unassigned, """
                        void run() { int x; transaction { transaction { x = 1; commit; } rollback; }
                        use(x); // here
                        }"""),
                Arguments.of(unassigned, """
                        void run() { int x; all: { transaction (commit) { transaction { x = 1; break all; } } }
                        use(x); // here
                        }"""),
                Arguments.of(unassigned, """
                        void run() { int x; all: { transaction { transaction (commit) { x = 1; break all; } } }
                        use(x); // here
                        }"""),
                Arguments.of(unassigned, """
                        Runnable run() { return () -> { int x; transaction { x = 1; }
                        use(x); // here
                        }; }"""),
                Arguments.of("variable x might already have been assigned", """
                        void run() { final int x; transaction { x = 1; rollback; }
                        x = 2; // here
                        }"""),
                Arguments.of(unassigned, """
                        void run() { int x; own: transaction { x = 1; if (flag) break own; commit; }
                        use(x); // here
                        }"""),
                Arguments.of(unassigned, """
                        void run() { int x; again: while (true) { while (true) {
                            transaction { x = 1; if (flag) break again; continue again; }
                        } }
                        use(x); // here
                        }"""),
                Arguments.of(unassigned, """
                        void run() { int x; try { transaction { x = 1; if (flag) return; commit; } } finally {
                            use(x); // here
                        } }"""),
                Arguments.of(unassigned, """
                        void run() { int x; try { transaction (commit) { x = 1; fail(); } } catch (Exception e) {
                            use(x); // here
                        } }"""),
                Arguments.of("variable f might not have been initialized", """
                        final int f; Program() { transaction { f = 1; if (flag) commit; }
                        } // here"""),
                Arguments.of(unreachable, """
                        void run() { int y = switch (1) { default: transaction (commit) { yield 1; }
                            use(1); // here
                        }; }"""),
                Arguments.of(unreachable, """
                        void run() { while (true) { transaction (commit) { continue; }
                            use(1); // here
                        } }"""),
                Arguments.of(unreachable, """
                        void run() { transaction { try { commit; } finally { use(1); }
                            use(2); // here
                        } }"""),
                Arguments.of("not a loop label: own", """
                        void run() { own: transaction {
                            continue own; // here
                        } }"""),
                Arguments.of("break outside switch or loop", """
                        void run() { transaction {
                            break; // here
                        } }"""),
                Arguments.of("yield outside of switch expression", """
                        void run() { transaction {
                            yield 1; // here
                        } }"""),
                Arguments.of("incompatible types: java.lang.Object is not a functional interface", """
                        void run() {
                            Object o = () -> { // here
                                int x = switch (1) { default: transaction { if (flag) commit; yield 1; } };
                                while (flag) { transaction (commit) { if (flag) rollback; else continue; } }
                            };
                        }"""),
                Arguments.of("undefined label: all", """
                        void run() { all: { Runnable r = () -> { transaction {
                            break all; // here
                        } }; } }"""),
                Arguments.of(
                        "local variables referenced from a lambda expression must be final or effectively final", """
                        void run() { int x; transaction { x = 1; rollback; } x = 2;
                            Runnable r = () -> use(x); // here
                        }"""),
                Arguments.of("cannot find symbol", """
                        void run(Object o) { transaction { if (!(o instanceof String s)) { use(o); }
                            use(s); // here
                        } }"""),
                Arguments.of("unreported exception E; must be caught or declared to be thrown", """
                        <E extends Exception> void run(E e) { transaction {
                            throw e; // here
                        } }"""),
                Arguments.of("unreported exception java.lang.Exception; must be caught or declared to be thrown", """
                        void run() { transaction {
                            if (flag) throw new Exception(); // here
                            commit;
                        } }"""),
                Arguments.of(
                        "exception java.io.IOException is never thrown in body of corresponding try statement", """
                        void run() { try { transaction { commit; } }
                        catch (java.io.IOException e) { } // here
                        }"""),
                Arguments.of("cannot commit outside of a transaction: write transaction { … commit; … }", """
                        void run() {
                            commit; // here
                        }"""),
                Arguments.of("cannot rollback outside of a transaction: write transaction { … rollback; … }", """
                        void run() { transaction { commit; }
                            if (flag) rollback; // here
                        }"""),
                Arguments.of("cannot commit from within a lambda in the transaction: commit after it", """
                        void run() { transaction { Runnable inside = () -> {
                            commit; // here
                        }; } }"""),
                Arguments.of("cannot rollback from within a class in the transaction: rollback after it", """
                        void run() { transaction { new Object() { {
                            rollback; // here
                        } }; } }"""),
                Arguments.of("cannot commit from within a switch expression in the transaction: commit after it", """
                        void run() { transaction { int y = switch (1) { default:
                            commit; // here
                        }; } }"""),
                Arguments.of("incompatible types: java.lang.String cannot be converted to int", """
                        void run() { transaction {
                            int x = ""; // here
                            commit; } }"""),
                Arguments.of("';' expected", """
                        void run() { transaction { commit; }
                            int x = 1 // here
                        }"""),
                Arguments.of("variable x is already defined in method run()", """
                        void run() { int x = 1; transaction {
                            int x = 2; // here
                        } }"""));
    }

    /// J15.
    @ParameterizedTest
    @MethodSource
    void compileErrorsNameTheirPlace(String message, String members) {
        long line = 2 + members.substring(0, members.indexOf("// here")).lines().count() - 1;
        String expected = line + ": " + message;
        assertEquals(List.of(expected), messages(members), members);
        List<String> more = messages(members, ANALYSE_ANYWAY);
        assertTrue(more.contains(expected), more.toString());
    }

    /// J15.
    @ParameterizedTest
    @ValueSource(
            strings = {
                "void run() { int x; transaction { x = 1; commit; } use(x); }",
                "void run() { int x; transaction { if (flag) { x = 1; commit; } x = 2; commit; } use(x); }",
                "void run() { int x; transaction (commit) { x = 1; } use(x); }",
                "void run() { int x; transaction (commit) { x = 1; if (flag) commit; } use(x); }",
                "void run() { int x; while (true) { transaction (commit) { x = 1; break; } } use(x); }",
                "void run() { int x; transaction { x = 1; use(x); } x = 2; use(x); }",
                "void run() { int x; x = 1; transaction { x = 2; rollback; } use(x); }",
                "void run() { int x; transaction { x = 1; if (flag) return; commit; } use(x); }",
                "void run() { int x; transaction { x = 1; if (flag) throw new Error(); commit; } use(x); }",
                "void run() { int x; transaction { transaction { x = 1; commit; } commit; } use(x); }",
                "void run() { int x; transaction { x = 1; transaction { if (flag) rollback; } commit; } use(x); }",
                "void run() { int x; transaction { x = 1; while (flag) { break; } l: { break l; } commit; } use(x); }",
                "void run() { final int x; transaction { x = 1; commit; } Runnable r = () -> use(x); }",
                "Runnable run() { return () -> { int x; transaction { x = 1; commit; } use(x); }; }",
                "int run() { transaction { if (flag) { return 1; } else { throw new Error(); } } }",
                "int run() { transaction { try { commit; } finally { return 1; } } }",
                "int run() { transaction { try { rollback; } finally { return 1; } } }",
                "int run() { int x; transaction { x = 1; try { rollback; } finally { commit; } } return x; }",
                "int run() { transaction (commit) { try { rollback; } finally { return 1; } } }",
                "int run() { transaction { commit; } return 1; }",
                "int run() { transaction { while (true) { flag = !flag; } } }",
                "java.util.function.IntSupplier run() { return () -> { transaction { return 1; } }; }",
                "void run() throws Exception { transaction { if (flag) throw new Exception(); commit; } }",
                "void run() { try { transaction { if (flag) throw new Exception(); } } catch (Exception e) { } }",
                "boolean run() { int x; return switch (1) { default: transaction (commit) { x = 1; yield x > 0; } }; }",
                "Callable<Integer> run() { return () -> { transaction { try { commit; } finally { return 1; } } }; }",
                "void run(Object o) { if (!(o instanceof String s)) {"
                        + " transaction { try { commit; } finally { return; } } } use(s.length()); }",
                "int run() { all: { transaction { transaction { try { commit; } finally { break all; } } } } return 1; }",
                "int run() { while (true) { transaction { try { commit; } finally { continue; } } } }",
                "void run() { int x; while (true) { transaction { x = 1; if (flag) continue; commit; } break; } use(x); }",
                "void run() { int x; own: transaction (commit) { x = 1; if (flag) break own; } use(x); }",
                "void run() { int x; transaction { for (;;) { if (flag) { x = 1; break; } } commit; } use(x); }",
                "void run() { var x = 1; transaction { var y = x; x = y + 1; commit; } use(x); }",
                "<T> T run(T t) { T x; transaction { List<T> l = List.of(t); x = l.get(0); commit; } return x; }",
                "final int f; Program() { transaction { f = 1; commit; } }",
                "final int f; Program() { transaction { f = 1; if (flag) return; commit; } }",
                "<T> T call(Callable<T> c) throws Exception { return c.call(); }\n"
                        + "String run() throws Exception { return call(() -> { transaction { if (flag) return \"x\"; commit; } return \"y\"; }); }",
                "void run(Object o) { transaction { if (!(o instanceof String s)) { commit; } use(s.length()); rollback; } }",
                "void run(Object o) { if (!(o instanceof String s)) { transaction { commit; } return; } use(s.length()); }",
                "void run(Object o) { while (!(o instanceof String s)) { transaction { if (flag) rollback; } } use(s.length()); }",
                "void run() { try { transaction { fail(); } } catch (IOException e) { } catch (Exception e) { } }",
                "<E extends Exception> void run(E e) throws E { transaction { if (flag) throw e; commit; } }",
                "int run(Object o) { return switch (o) { case String s -> { transaction { yield s.length(); } } default -> 0; }; }",
                "void run() { try (var a = new StringReader(\"\")) { transaction { use(a); commit; } } catch (Exception e) { } }",
                "void run() { transaction { try (var a = new StringReader(\"\")) { use(a); commit; } catch (Exception e) { rollback; } } }"
            })
    void whatIsRightCompiles(String members) {
        assertEquals(List.of(), messages(members), members);
    }

    /// A program that lacks the library gets an error at the place that needs it.
    @Test
    void missingLibraryIsReportedAtTheStatement() {
        String source = "class Program { void run() {\ntransaction { if (hashCode() == 0) rollback; commit; } } }";
        for (String[] analyse : List.of(new String[0], ANALYSE_ANYWAY)) {
            List<String> options = new ArrayList<>(List.of("-classpath", folder.toString()));
            options.addAll(List.of(analyse));
            assertEquals(
                    List.of("2: package cedrat.persist does not exist"),
                    Compiled.messages(folder, "Program", source, options.toArray(String[]::new)));
        }
    }
}
