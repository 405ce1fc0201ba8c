package cedrat.maven;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import cedrat.persist.weave.Agent;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// The file with the arguments of the agent.
class ArgumentsFileTest {
    @TempDir
    Path folder;

    private Path file;
    private ArgumentsFile arguments;

    @BeforeEach
    void prepare() throws IOException {
        file = folder.resolve("classes").resolve(Agent.ARGUMENTS);
        Files.createDirectories(file.getParent());
        arguments = new ArgumentsFile(folder.resolve("classes"), folder.resolve("cedrat"));
    }

    /// J18e
    @Test
    void resourceGivesArguments() throws IOException {
        Files.writeString(file, "include=com.acme.model\n");
        assertEquals("include=com.acme.model", arguments.arguments(null));
        arguments.write(null);
        assertEquals("include=com.acme.model\n", Files.readString(file));
    }

    /// J18e
    @Test
    void argumentsOfPomAreWritten() throws IOException {
        Files.writeString(file, "include=com.acme.model\n");
        assertEquals("exclude=com.acme", arguments.arguments(" exclude=com.acme "));
        arguments.write(" exclude=com.acme ");
        assertEquals("exclude=com.acme\n", Files.readString(file));
    }

    /// J18e
    @Test
    void argumentsRemovedFromPomAreRemoved() throws IOException {
        arguments.write("exclude=com.acme");
        assertEquals(null, arguments.arguments(" "));
        arguments.write(" ");
        assertFalse(Files.exists(file));
        Files.writeString(file, "exclude=com.acme\n");
        assertEquals("exclude=com.acme", arguments.arguments(null));
    }
}
