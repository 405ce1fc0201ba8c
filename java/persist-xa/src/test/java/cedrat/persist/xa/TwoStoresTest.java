package cedrat.persist.xa;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/// J11: an object of Java and a row of PostgreSQL in one transaction, by Narayana; each side is killed at each step of
/// the two phases, the transaction manager recovers, and both sides agree on what has happened.
@Tag("services")
class TwoStoresTest {
    private static final long AMOUNT = 70;

    private static Postgres postgres;

    @TempDir
    Path folder;

    private Child child;

    @BeforeAll
    static void startPostgres() throws Exception {
        postgres = Postgres.start();
    }

    @AfterAll
    static void stopPostgres() throws Exception {
        postgres.stop();
    }

    @BeforeEach
    void found() throws Exception {
        child = new Child();
        child.does("found");
    }

    @AfterEach
    void end() throws Exception {
        child.process.destroyForcibly().waitFor();
        try (var connection = Postgres.source(postgres.port).getConnection();
                var statement = connection.createStatement()) {
            // A test that has failed may leave a transaction that is prepared.
            List<String> prepared = new ArrayList<>();
            try (var rows = statement.executeQuery("select gid from pg_prepared_xacts")) {
                while (rows.next()) {
                    prepared.add(rows.getString(1));
                }
            }
            for (String name : prepared) {
                statement.execute("rollback prepared '" + name + "'");
            }
            statement.execute("set lock_timeout = '10s'");
            statement.execute("drop table account");
        }
    }

    /// A process with a bank.
    private final class Child {
        private final Path errors;
        private final Process process;
        private final BufferedReader said;

        Child() throws IOException {
            errors = Files.createTempFile(folder, "child", ".err");
            List<String> command = new ArrayList<>();
            command.add(ProcessHandle.current().info().command().orElse("java"));
            command.addAll(List.of("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"));
            command.add("-javaagent:" + System.getProperty("cedrat.agent")
                    + "=exclude=com.arjuna:org.jboss:org.postgresql:com.ongres:jakarta");
            command.add("--enable-native-access=ALL-UNNAMED");
            command.add("-Dcedrat.library=" + System.getProperty("cedrat.library"));
            command.addAll(List.of("-cp", System.getProperty("java.class.path"), Main.class.getName()));
            command.addAll(List.of(folder.toString(), "" + postgres.port));
            process = new ProcessBuilder(command)
                    .redirectError(Redirect.to(errors.toFile()))
                    .start();
            said = process.inputReader(StandardCharsets.UTF_8);
            assertEquals("open", hears());
        }

        void tell(String line) throws IOException {
            process.outputWriter().write(line + "\n");
            process.outputWriter().flush();
        }

        String hears() throws IOException {
            for (String line; (line = said.readLine()) != null; ) {
                if (line.startsWith("> ")) {
                    return line.substring(2);
                }
            }
            throw new AssertionError("the process has ended: " + Files.readString(errors));
        }

        void does(String line) throws IOException {
            tell(line);
            assertEquals("done", hears());
        }

        String says(String line) throws IOException {
            tell(line);
            String answer = hears();
            assertEquals("done", hears());
            return answer;
        }

        void kill() throws InterruptedException {
            process.toHandle().destroyForcibly();
            process.waitFor();
        }
    }

    private static String after(long transferred) {
        return (Bank.HERE - transferred) + " " + (Bank.THERE + transferred) + " 0";
    }

    @Test
    void bothCommit() throws Exception {
        assertEquals("committed", child.says("transfer " + AMOUNT + " NONE"));
        assertEquals("committed", child.says("transfer " + AMOUNT + " NONE"));
        assertEquals(after(2 * AMOUNT), child.says("show"));
        child.kill();
        child = new Child();
        assertEquals(after(2 * AMOUNT), child.says("show"));
    }

    /// The code of the documentation is the code that runs here.
    @Test
    void exampleMatchesTheDocumentation() throws Exception {
        child.does("example " + AMOUNT);
        assertEquals(after(AMOUNT), child.says("show"));
        String page = Files.readString(Path.of("../../docs/use/xa.md"));
        String code = Files.readString(Path.of("src/test/java/cedrat/persist/xa/Example.java"));
        int shown = 0;
        for (String part : code.split("// shown: .*\n")) {
            if (shown++ > 0) {
                String example = part.substring(0, part.lastIndexOf('\n', part.indexOf("// shown\n")));
                assertTrue(page.contains("```java\n" + example.stripIndent() + "\n```\n"), example);
            }
        }
        assertEquals(3, shown);
    }

    /// Were it not so, the object would be changed alone.
    @Test
    void exampleFailsIfStoreTakesNoPart() throws Exception {
        assertEquals("IllegalStateException", child.says("refused " + AMOUNT));
        assertEquals(after(0), child.says("show"));
        assertEquals("committed", child.says("transfer " + AMOUNT + " NONE"));
    }

    /// J11.10.
    @Test
    void aStoreTakesPartTwice() throws Exception {
        assertEquals("true true", child.says("twice " + AMOUNT));
        String left = (Bank.HERE - 2 * AMOUNT) + " " + Bank.THERE + " 0";
        assertEquals(left, child.says("show"));
        child.kill();
        child = new Child();
        assertEquals(left, child.says("show"));
    }

    /// J11.7: the transaction manager does not notify the thread that had the branch.
    @Test
    void aTimeoutLeavesTheThreadFree() throws Exception {
        assertEquals("RollbackException StoreException", child.says("outlast " + AMOUNT));
        String left = (Bank.HERE - AMOUNT) + " " + Bank.THERE + " 0";
        assertEquals(left, child.says("show"));
        assertEquals("committed", child.says("transfer 0 NONE"));
        child.kill();
        child = new Child();
        assertEquals(left, child.says("show"));
    }

    /// J11.
    @Test
    void oneRefusesAndBothRollBack() throws Exception {
        assertEquals("failed RollbackException", child.says("transfer " + AMOUNT + " ONE_REFUSES"));
        assertEquals(after(0), child.says("show"));
        // Memory and store go on.
        assertEquals("committed", child.says("transfer " + AMOUNT + " NONE"));
        assertEquals(after(AMOUNT), child.says("show"));
    }

    /// The database says so itself, before anybody prepares.
    @Test
    void aStatementThatFailsRollsBothBack() throws Exception {
        assertTrue(child.says("transfer -1000 NONE").startsWith("failed"));
        assertEquals(after(0), child.says("show"));
    }

    /// Returns the points at which a transfer stops that no store refuses.
    static Set<Point> pointsOnTheWay() {
        return EnumSet.complementOf(EnumSet.of(Point.NONE, Point.ONE_REFUSES));
    }

    /// J11.
    @ParameterizedTest
    @MethodSource("pointsOnTheWay")
    void theProcessIsKilled(Point point) throws Exception {
        child.tell("transfer " + AMOUNT + " " + point);
        assertEquals("stopped " + point, child.hears());
        child.kill();
        child = new Child();
        boolean isDecided = point.compareTo(Point.AFTER_THE_DECISION) >= 0;
        String here = point == Point.ONE_HAS_COMMITTED ? "" + (Bank.HERE - AMOUNT) : "unknown";
        String inDoubt = point == Point.BEFORE_THE_DECISION || point == Point.AFTER_THE_DECISION ? "2" : "1";
        assertEquals(here + " " + Bank.THERE + " " + inDoubt, child.says("show"));
        child.does("recover");
        assertEquals(after(isDecided ? AMOUNT : 0), child.says("show"));
        assertEquals("committed", child.says("transfer " + AMOUNT + " NONE"));
        assertEquals(after(isDecided ? 2 * AMOUNT : AMOUNT), child.says("show"));
    }

    /// J11.
    /// Between its vote and the word of the outcome, and before it was asked.
    @ParameterizedTest
    @MethodSource("pointsOnTheWay")
    void postgresIsKilled(Point point) throws Exception {
        child.tell("transfer " + AMOUNT + " " + point);
        assertEquals("stopped " + point, child.hears());
        postgres.kill();
        child.tell("go on");
        // What the transaction manager says of it is its own business.
        child.hears();
        assertEquals("done", child.hears());
        postgres.restart();
        child.does("recover");
        boolean isCommitted = point != Point.ONE_HAS_PREPARED;
        assertEquals(after(isCommitted ? AMOUNT : 0), child.says("show"));
        assertEquals("committed", child.says("transfer " + AMOUNT + " NONE"));
        assertEquals(after(isCommitted ? 2 * AMOUNT : AMOUNT), child.says("show"));
    }
}
