package cedrat.oracle.maintenance;

import cedrat.services.Bookies;
import cedrat.services.Command;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// The libraries of this module are those of the installed command, which is to work with each kind of log.
@Tag("services")
@Timeout(300)
class InstalledClassPathTest {
    @TempDir
    private Path folder;

    private void run(Bookies bookies, String... command) throws Exception {
        List<String> arguments = new ArrayList<>(List.of(command));
        arguments.addAll(List.of(
                "--log", "bookkeeper", "--zookeeper", bookies.zooKeeper().address()));
        Command.of(
                        "cedrat-oracle " + command[0],
                        folder.resolve(command[0]),
                        List.of("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                        System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                        "cedrat.oracle.server.Main",
                        arguments)
                .run();
    }

    @Test
    void commandUsesLogInBookKeeper() throws Exception {
        try (Bookies bookies = Bookies.start(folder.resolve("services"), 3)) {
            run(bookies, "init");
            run(bookies, "log", "dump");
        }
    }
}
