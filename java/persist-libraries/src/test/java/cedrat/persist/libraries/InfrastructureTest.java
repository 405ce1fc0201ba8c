package cedrat.persist.libraries;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// Loggers, mappers, mocks and coverage, called in transactions.
class InfrastructureTest {
    @TempDir
    Path folder;

    private final String agent = "-javaagent:" + System.getProperty("cedrat.agent");

    private String run(String what) throws IOException, InterruptedException {
        return run(what, List.of(agent));
    }

    /// @param agents the options of agents, in their order
    private String run(String what, List<String> agents) throws IOException, InterruptedException {
        String said = run(what, agents, 0);
        assertTrue(said.contains("{} a 0"), said);
        return said;
    }

    private String run(String what, List<String> agents, int status) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(AgentCommand.of(
                System.getProperty("java.class.path"),
                Infrastructure.class.getName(),
                folder.resolve("store").toString(),
                what));
        command.remove(agent);
        command.addAll(1, agents);
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(status, process.waitFor(), said);
        return said;
    }

    @Test
    void logbackLogsInTransaction() throws Exception {
        String said = run("log");
        assertTrue(said.contains("count {a=5} of b"), said);
        assertTrue(said.contains("count {a=6} of a"), said);
    }

    @Test
    void jacksonMapsInTransaction() throws Exception {
        String said = run("map");
        assertTrue(said.contains("{\"customer\":\"b\",\"lines\":[1,2]}"), said);
        assertTrue(said.contains("c[3][1]"), said);
    }

    @Test
    void mockIsCalledInTransaction() throws Exception {
        assertTrue(run("mock").contains("7"));
    }

    @ParameterizedTest
    @CsvSource({
        "true, exclude=org.jacoco",
        "false, exclude=org.jacoco",
        "true, include=cedrat.persist.libraries",
        "false, include=cedrat.persist.libraries"
    })
    void coverageIsRecordedInTransaction(boolean isFirst, String argument) throws Exception {
        String jar = Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator))
                .filter(path -> path.contains("org.jacoco.agent"))
                .findAny()
                .orElseThrow();
        Path recorded = folder.resolve("coverage");
        String jacoco = "-javaagent:" + jar + "=destfile=" + recorded + ",includes=cedrat.persist.libraries.*";
        String narrowed = agent + "=" + argument;
        String said = run("map", isFirst ? List.of(jacoco, narrowed) : List.of(narrowed, jacoco));
        assertTrue(said.contains("{\"customer\":\"b\",\"lines\":[1,2]}"), said);
        assertTrue(Files.readString(recorded, StandardCharsets.ISO_8859_1).contains("Infrastructure"));
    }

    /// J10
    @Test
    void openingNamesClassesLeftOut() throws Exception {
        run("log", List.of(agent + "=include=cedrat.persist.libraries"));
        String said = run("log", List.of(agent + "=include=com.example"), 1);
        assertTrue(said.contains("was stored as a class with barriers, and has none now"), said);
        assertTrue(said.contains("add it or its package to include=…"), said);
    }
}
