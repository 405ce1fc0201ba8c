package cedrat.persist.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import picocli.CommandLine.Option;

/// Options of figures that measure stores on disk.
final class StoreFiles {
    @Option(names = "--library", required = true, paramLabel = "FILE", description = "The file of libcedrat.")
    Path library;

    @Option(
            names = "--directory",
            defaultValue = "target",
            paramLabel = "DIR",
            description = "Where stores are made, on the disk that is measured.")
    private Path directory;

    /// Makes an empty folder for stores.
    Path newHome(String name) throws IOException {
        return Files.createTempDirectory(Files.createDirectories(directory), name);
    }
}
