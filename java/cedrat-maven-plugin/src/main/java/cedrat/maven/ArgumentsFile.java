package cedrat.maven;

import cedrat.persist.weave.Agent;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/// The file with the agent's arguments among the class files of a module: a resource of the module, or written by the
/// goal `weave`.
///
/// **Threads:** one.
final class ArgumentsFile {
    private final Path file;
    /// A copy of what the goal has written, by which it recognises that.
    private final Path written;

    /// @param classes the folder of the class files
    /// @param own     a folder of the plugin
    ArgumentsFile(Path classes, Path own) {
        file = classes.resolve(Agent.ARGUMENTS);
        written = own.resolve("agent.arguments");
    }

    /// Returns the arguments that the program will run with: those of the POM, or else those of a resource. Null if
    /// there are none.
    String arguments(String ofPom) throws IOException {
        if (ofPom != null && !ofPom.isBlank()) {
            return ofPom.strip();
        }
        return Files.exists(file) && !isWritten() ? Files.readString(file).strip() : null;
    }

    private boolean isWritten() throws IOException {
        return Files.exists(written) && Files.mismatch(file, written) < 0;
    }

    /// Writes the arguments of the POM. If there are none any more, removes those that were written before.
    void write(String ofPom) throws IOException {
        if (ofPom != null && !ofPom.isBlank()) {
            String line = ofPom.strip() + "\n";
            Files.createDirectories(written.getParent());
            Files.writeString(written, line);
            Files.createDirectories(file.getParent());
            Files.writeString(file, line);
            return;
        }
        if (Files.exists(file) && isWritten()) {
            Files.delete(file);
        }
        Files.deleteIfExists(written);
    }
}
