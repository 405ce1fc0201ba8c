package cedrat.persist.woven.weave;

import java.io.File;
import java.nio.file.Path;
import org.junit.jupiter.api.io.TempDir;

/// The agent's argument `include`, with classes that a build has woven.
class BuiltNarrowingTest extends NarrowingTest {
    @TempDir
    Path folder;

    @Override
    String classPath(String argument) throws Exception {
        BuiltClasses.add(argument, folder, "cedrat/persist/woven/narrowed/");
        return folder + File.pathSeparator + super.classPath(argument);
    }
}
