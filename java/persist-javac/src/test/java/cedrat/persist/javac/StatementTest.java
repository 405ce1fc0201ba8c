package cedrat.persist.javac;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.source.tree.ErroneousTree;
import com.sun.source.tree.TryTree;
import com.sun.source.util.JavacTask;
import com.sun.source.util.TreeScanner;
import java.lang.classfile.ClassFile;
import java.lang.classfile.CodeElement;
import java.lang.classfile.instruction.InvokeInstruction;
import java.lang.classfile.instruction.LineNumber;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import javax.tools.JavaFileObject;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Where a transaction statement may stand, and what else its words may name.
class StatementTest {
    @TempDir
    Path folder;

    private Object run(String members, String... options) throws Exception {
        return Compiled.run(Compiled.load(folder, "Program", program(members), options), "run");
    }

    private static String program(String members) {
        return "class Program {\n" + members + "\n}\n";
    }

    /// Transactions for Java, Figure 1.
    @Test
    void theFigureOfThePaper() throws Exception {
        assertEquals("1 0", Compiled.run(Compiled.load(folder, "Figure", """
                import cedrat.persist.RwLock;
                class Figure {
                    static class Persistent { int i; }
                    int run(int other) {
                        Persistent my_obj = new Persistent();
                        Persistent other_obj = new Persistent();
                        other_obj.i = other;
                        transaction {
                            RwLock.acquireWrite(my_obj);
                            my_obj.i = 1;
                            RwLock.acquireRead(other_obj);
                            if ( other_obj.i == 1 ) {
                                commit;
                            } else {
                                rollback;
                            }
                        } /* End of transaction */
                        return my_obj.i;
                    }
                    String run() { return run(1) + " " + run(2); }
                }
                """), "run"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"-g", "-g:none"})
    void commitEndsInnermostTransaction(String debug) throws Exception {
        assertEquals("inner 4 2, outer 1 1, both 1 1, left 1 1", run("""
                int field = 1;
                String run() {
                    int local = 1;
                    transaction {
                        field = local = 2;
                        transaction { field = local = 3; rollback; }
                        field += local;
                        transaction { field += 0; commit; }
                        commit;
                    }
                    String seen = "inner " + field + " " + local;
                    field = local = 1;
                    transaction {
                        transaction { field = local = 5; commit; }
                        rollback;
                    }
                    seen += ", outer " + field + " " + local;
                    transaction {
                        field = local = 6;
                        transaction (commit) { field = local = 7; rollback; }
                        if (field == 7) commit;
                    }
                    seen += ", both " + field + " " + local;
                    again: while (true) {
                        transaction {
                            transaction (commit) { field = local = 8; break again; }
                        }
                    }
                    return seen + ", left " + field + " " + local;
                }
                """, debug));
    }

    @Test
    void itStandsWhereverAStatementMay() throws Exception {
        assertEquals("1 constructor 2 initialiser 3 lambda 4 switch 6 else 8 record 9 anonymous 10", run("""
                static int count;
                static String seen = "";
                static { transaction { count++; commit; } }
                { transaction { seen = count + " constructor "; count++; commit; } }
                Program() {
                    transaction { seen += count + " initialiser "; count++; commit; }
                }
                record transaction(int value) {
                    transaction {
                        transaction { count++; commit; }
                    }
                }
                String run() {
                    Runnable lambda = () -> { transaction { count++; commit; } };
                    seen += count + " lambda ";
                    lambda.run();
                    seen += count + " switch ";
                    switch (count) {
                        case 4: transaction { count++; commit; }
                        default: transaction { count++; rollback; }
                    }
                    switch (count) {
                        case 5 -> transaction { count++; commit; }
                        default -> transaction { rollback; }
                    }
                    int value = switch (count) {
                        case 6: transaction { commit; } yield 1;
                        default: yield 2;
                    };
                    if (value == 2) transaction { rollback; }
                    else transaction { seen += count + " else "; count++; commit; }
                    transaction record = new transaction(1);
                    seen += count + " record ";
                    count++;
                    new Object() { { transaction { seen += count + " anonymous "; count++; commit; } } };
                    for (int i = 0; i < 2; i++) transaction { count++; }
                    do transaction { rollback; } while (count < 0);
                    return seen + (count + record.value - 1);
                }
                """));
    }

    /// The words are names wherever they were, and as what they were.
    @Test
    void theWordsMayStillBeNames() throws Exception {
        String source = """
                int transaction = 1;
                int commit = 2;
                int rollback = 3;
                static Program transaction(int... commit) { return new Program(); }
                void commit() { commit++; }
                void rollback() { rollback++; }
                interface commit { }
                static class rollback implements commit { }
                @interface Transaction { int commit() default 1; }
                enum Words { transaction { }, commit, rollback { } }
                int run() {
                    transaction = transaction + commit;
                    transaction++;
                    commit();
                    this.rollback();
                    transaction(commit).rollback();
                    transaction(commit);
                    transaction: {
                        if (transaction > 0) break transaction;
                    }
                    commit: for (int rollback : new int[] {1, 2}) {
                        if (rollback == 1) continue commit;
                        break commit;
                    }
                    commit commit = new rollback() { };
                    rollback transaction = new rollback();
                    Runnable rollback = () -> commit();
                    rollback.run();
                    commit.getClass();
                    int[] cedrat = {1}, persist = {2};
                    return switch (Words.transaction) { case transaction -> this.transaction + this.commit; default -> 0; };
                }
                """;
        Path without = Files.createDirectory(folder.resolve("without"));
        Path with = Files.createDirectory(folder.resolve("with"));
        String program = program(source);
        assertEquals(List.of(), Compiled.messagesWithoutPlugin(without, "Program", program));
        assertEquals(List.of(), Compiled.messages(with, "Program", program));
        assertTrue(Compiled.sameClasses(without, with) > 1);
        assertEquals(8, run(source));
        assertEquals(
                18, run(source.replace("int[] cedrat", "transaction { this.commit += 10; commit; }\nint[] cedrat")));
    }

    /// Names of the program hide none of what the statement stands for.
    @Test
    void programNamesDoNotHideTheStatement() throws Exception {
        assertEquals("3", run("""
                static class Transaction { }
                static class Action { }
                static class cedrat { static class persist { } }
                String run() {
                    String cedrat = "1";
                    String transaction$ = "2";
                    transaction (commit) { cedrat = "3"; }
                    return cedrat;
                }
                """));
    }

    @Test
    void javacsOwnLintHasNothingToSay() throws Exception {
        run("""
                int count;
                int run() {
                    transaction { count++; }
                    transaction { count++; commit; }
                    transaction (commit) { if (count == 9) rollback; }
                    return count;
                }
                """, "-Xlint:all", "-Werror");
    }

    @Test
    void anImplicitClassHasIt() throws Exception {
        assertEquals(1, Compiled.run(Compiled.load(folder, "Implicit", """
                int count;
                void main() { }
                int run() {
                    transaction { count++; commit; }
                    transaction { count++; rollback; }
                    return count;
                }
                """), "run"));
    }

    /// In frames of exceptions, and for debuggers: it begins where it is written, and ends with its brace.
    @Test
    void codeHasTheLinesOfTheSource() throws Exception {
        assertEquals(List.of("begin 3", "close 3", "close 6", "commit 6"), lines("""
                class Lines {
                    void run() {
                        transaction {
                            if (hashCode() == 0)
                                commit;
                        }
                    }
                }
                """));
        assertEquals(List.of("begin 1", "close 1", "close 3", "defaultAction 1"), lines("""
                class Lines { void run() { transaction (commit) {
                    hashCode();
                } } }
                """));
    }

    private List<String> lines(String source) throws Exception {
        Path classes = Files.createTempDirectory(folder, "classes");
        assertEquals(List.of(), Compiled.messages(classes, "Lines", source));
        List<String> calls = new ArrayList<>();
        int line = 0;
        var model = ClassFile.of().parse(classes.resolve("Lines.class"));
        for (CodeElement element : model.methods().getLast().code().orElseThrow()) {
            if (element instanceof LineNumber number) {
                line = number.line();
            } else if (element instanceof InvokeInstruction call
                    && call.owner().name().equalsString("cedrat/persist/Transaction")) {
                calls.add(call.name() + " " + line);
            }
        }
        return calls.stream().distinct().sorted().toList();
    }

    /// Debuggers, annotation processors and other plugins of javac know nothing of the statement.
    @Test
    void toolsSeeATryInItsPlace() throws Exception {
        JavaFileObject file = Compiled.file("Program", program("""
                void run(int i) {
                    transaction { if (i == 0) { commit; } else { rollback; } }
                    switch (i) { case 1 -> transaction { rollback; } default -> { } }
                    if (i == 2) transaction (commit) { } else Thread.yield();
                    label: transaction { }
                }
                """));
        List<String> options = List.of("-processorpath", Compiled.PLUGIN, "-Xplugin:Cedrat");
        JavacTask task = (JavacTask)
                ToolProvider.getSystemJavaCompiler().getTask(null, null, null, options, null, List.of(file));
        int[] count = {0};
        new TreeScanner<Void, Void>() {
            @Override
            public Void visitTry(TryTree tree, Void nothing) {
                count[0]++;
                return super.visitTry(tree, nothing);
            }

            @Override
            public Void visitErroneous(ErroneousTree tree, Void nothing) {
                throw new AssertionError(tree);
            }
        }.scan(task.parse(), null);
        assertEquals(4, count[0]);
    }

    @Test
    void anArgumentIsRefused() {
        CedratPlugin plugin = new CedratPlugin();
        var e = assertThrows(IllegalArgumentException.class, () -> plugin.init(null, "commit"));
        assertTrue(e.getMessage().contains("takes no arguments"), e.getMessage());
    }
}
