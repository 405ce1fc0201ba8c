package cedrat.persist.woven.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.woven.narrowed.app.Program;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

/// The agent's argument `include` with a package of the application.
class NarrowingTest {
    private static final String NARROWED = "cedrat.persist.woven.narrowed.";
    private static final String INCLUDED = "include=" + NARROWED + "model";

    /// Returns the class path of the program.
    String classPath(String argument) throws Exception {
        return Path.of("target", "test-classes").toAbsolutePath().toString();
    }

    private String run(String argument, String what) throws Exception {
        Process process = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-XX:TieredStopAtLevel=1",
                        "-javaagent:" + System.getProperty("cedrat.agent") + "=" + argument,
                        "-cp",
                        classPath(argument),
                        Program.class.getName(),
                        what)
                .redirectErrorStream(true)
                .start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), said);
        return said;
    }

    private static void assertSays(String said, String... texts) {
        for (String text : texts) {
            assertTrue(said.contains(text), said);
        }
    }

    /// J17: also by classes and subclasses of other packages.
    @Test
    void includedObjectsAreRestored() throws Exception {
        String said = run(INCLUDED, "restored");
        assertSays(said, "account 0 [], savings 0 [] 0, numbers []", "interfaces 1000");
    }

    /// J17
    @Test
    void fieldsOfOtherClassesAreRefused() throws Exception {
        String said = run(INCLUDED, "refused");
        assertSays(
                said,
                "refused: cannot change the field " + NARROWED + "library.Point.x in a transaction",
                "Program.java:",
                "Add the class or its package to include=… in the agent's argument",
                "an object of " + NARROWED + "library.Point, which has the field",
                "the field " + NARROWED + "library.Point.made in",
                "the field " + NARROWED + "app.Program.count in",
                "point 0,1, made 0, count 0",
                "outside 8,1");
        assertEquals(
                6, said.lines().filter(line -> line.startsWith("refused: ")).count(), said);
        assertFalse(said.contains("StoreRuntime"), said);
    }

    /// J17
    @Test
    void objectsOfTransactionMayBeChanged() throws Exception {
        assertSays(run(INCLUDED, "created"), "created 7,0 0,8");
    }

    /// J17: nothing of the object is restored.
    @Test
    void unwovenMethodsChangeTheirObjectForGood() throws Exception {
        assertSays(run(INCLUDED, "itself"), "cache 1 {a=1}, point 1,1");
    }

    /// J17a
    @Test
    void refusalWithinCollectionEndsTransaction() throws Exception {
        String said = run(INCLUDED, "list");
        assertSays(
                said, "library.Cache$CountingList.adds", "not committed: cannot commit the transaction", "list [b] 1");
    }

    /// J17a: of the nested transaction that was begun last.
    @Test
    void refusalEndsNestedTransactionAlone() throws Exception {
        String said = run(INCLUDED, "nested");
        assertSays(said, "not committed: cannot commit the transaction", "within 7 [+7] true", "nested 7 [+7] []");
    }

    /// J17
    @Test
    void inheritedFieldsOfOthersAreRefused() throws Exception {
        String said = run(INCLUDED, "inherited");
        assertSays(said, "the field " + NARROWED + "library.Point.x in", "place 0,0 0", "not stored: ", "include=…");
    }

    /// J17b
    @Test
    void mapperIsInfrastructureByArgument() throws Exception {
        String said = run(INCLUDED + ",infrastructure=" + NARROWED + "library.Setter", "mapped");
        assertSays(said, "account 0 [], point 7,0");
    }

    @Test
    void includedObjectsSurviveReopening() throws Exception {
        String said = run(INCLUDED, "stored");
        assertSays(
                said,
                "stored 7 [] 3, partner 5 [+5], owner 0 []",
                "outside of a transaction: cannot change",
                "again 6 [+5]");
    }

    /// J14
    @Test
    void initialisersOfOtherClassesAreSuspended() throws Exception {
        assertSays(run(INCLUDED, "initialised"), "initialised true", "registered 1");
    }
}
