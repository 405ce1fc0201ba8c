package cedrat.persist.woven.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cedrat.persist.weave.BuildWeaver;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

/// Class files that are woven as a build weaves them.
final class BuiltClasses {
    private static final Path CLASSES = Path.of("target", "test-classes").toAbsolutePath();

    private BuiltClasses() {}

    /// Copies class files of this module's tests.
    ///
    /// @param names beginnings of their names, with slashes
    static void copy(Path folder, String... names) throws IOException {
        try (Stream<Path> files = Files.walk(CLASSES)) {
            for (Path file : files.filter(Files::isRegularFile).toList()) {
                String name = CLASSES.relativize(file).toString();
                if (Stream.of(names).anyMatch(name::startsWith)) {
                    Path copied = folder.resolve(name);
                    Files.createDirectories(copied.getParent());
                    Files.copy(file, copied);
                }
            }
        }
    }

    /// Weaves class files that refer to those of this module's tests.
    static BuildWeaver.Outcome weave(String arguments, Path folder) throws IOException {
        return weave(arguments, null, folder);
    }

    /// @param originals a folder that keeps the files as they were compiled, or null
    static BuildWeaver.Outcome weave(String arguments, Path originals, Path folder) throws IOException {
        List<Path> others = List.of(CLASSES, Path.of("target", "classes"));
        return new BuildWeaver(arguments, originals, List.of(folder), others).weave();
    }

    /// Copies and weaves class files, of which each can be woven.
    static void add(String arguments, Path folder, String... names) throws IOException {
        copy(folder, names);
        assertEquals(List.of(), weave(arguments, folder).failures());
    }
}
