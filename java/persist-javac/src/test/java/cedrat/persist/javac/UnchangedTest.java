package cedrat.persist.javac;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Sources that the plugin does not change.
class UnchangedTest {
    @TempDir
    Path folder;

    /// A program that has `transaction`, `commit` and `rollback` for names: the library itself.
    @Test
    void classesWithoutTheStatementAreTheSame() throws Exception {
        List<Path> sources = new ArrayList<>();
        for (String part : List.of("persist-boot", "persist")) {
            try (Stream<Path> files = Files.walk(Path.of("..", part, "src", "main", "java"))) {
                // Without their modules, which would need those of others.
                files.filter(file -> file.toString().endsWith(".java") && !file.endsWith("module-info.java"))
                        .forEach(sources::add);
            }
        }
        Path without = Files.createDirectory(folder.resolve("without"));
        Path with = Files.createDirectory(folder.resolve("with"));
        try (var manager = ToolProvider.getSystemJavaCompiler().getStandardFileManager(null, null, null)) {
            var files = manager.getJavaFileObjectsFromPaths(sources);
            // The library fills objects by means of the JDK's own.
            List<String> options = List.of(
                    "-g",
                    "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED",
                    "--add-exports=java.base/jdk.internal.vm.annotation=ALL-UNNAMED");
            assertEquals(List.of(), Compiled.messages(without, files, options));
            List<String> withPlugin = new ArrayList<>(options);
            withPlugin.addAll(List.of("-processorpath", Compiled.PLUGIN, "-Xplugin:Cedrat"));
            assertEquals(List.of(), Compiled.messages(with, files, withPlugin));
        }
        assertTrue(Compiled.sameClasses(without, with) > sources.size());
    }

    /// Each is a mistake of the program's syntax, or in the use of a name, and is reported as in any other block.
    @ParameterizedTest
    @ValueSource(
            strings = {
                "use(1)",
                "int x = ;",
                "int x 1;",
                "if (flag { use(1); }",
                "for (int i = 0 i < 3; i++) { }",
                "String s = \"abc;",
                "else { }",
                "case 1: use(1);",
                "try { }",
                "catch (Exception e) { }",
                "1 + 1;",
                "} }",
                "{ ",
                "void inner() { }",
                "x = switch (1) { case 1 -> };",
                "commit",
                "commit use(1);",
                "commit + 1;",
                "commit: rollback: }",
                "rollback commit;",
                "@Override commit;",
                "final commit;",
                "if (flag) commit",
                "if (flag) int commit = 1;",
                "for (commit; flag; rollback) { }",
                "Runnable r = () -> commit;",
                "Runnable r = () -> { commit };",
                "int x = switch (1) { case 1 -> commit; default -> 2; };",
                "transaction",
                "transaction;",
                "transaction use(1);",
                "transaction () { }",
                "transaction (1) { }",
                "transaction (commit);",
                "transaction (commit, rollback) { }",
                "transaction (commit) use(1);",
                "new transaction { }",
                "transaction.commit;",
                "return commit",
                "throw rollback;",
                "yield commit;",
                "break commit;"
            })
    void compileErrorsMatchJavac(String mistake) {
        String source = """
                class Program {
                    boolean flag;
                    static void use(Object o) { }
                    void run() {
                        use(0);
                        %s {
                            use(1);
                            %s
                        }
                        use(2);
                    }
                }
                """;
        List<String> expected =
                Compiled.messagesWithoutPlugin(folder, "Program", source.formatted("synchronized (this)", mistake));
        assertNotEquals(List.of(), expected, mistake);
        assertEquals(expected, Compiled.messages(folder, "Program", source.formatted("synchronized (this)", mistake)));
        assertEquals(expected, Compiled.messages(folder, "Program", source.formatted("transaction", mistake)));
    }

    /// A word that is no statement is an error as before.
    @ParameterizedTest
    @ValueSource(
            strings = {
                "commit;",
                "void run() { int x = transaction { 1; }; }",
                "transaction (commit) { }",
                "int run() { return switch (1) { default -> transaction { } }; }"
            })
    void itIsNoDeclarationAndNoExpression(String members) {
        String source = "class Program {\n" + members + "\n}\n";
        List<String> expected = Compiled.messagesWithoutPlugin(folder, "Program", source);
        assertNotEquals(List.of(), expected, members);
        assertEquals(expected, Compiled.messages(folder, "Program", source));
    }
}
