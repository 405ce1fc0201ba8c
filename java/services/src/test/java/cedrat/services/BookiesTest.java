package cedrat.services;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// That they start; what they do is for those to test who need them.
@Tag("services")
@Timeout(600)
class BookiesTest {
    @TempDir
    private Path folder;

    @Test
    void bookiesServeAndComeBack() throws Exception {
        try (Bookies bookies = Bookies.start(folder, 3)) {
            for (int number = 0; number < 3; number++) {
                assertTrue(bookies.zooKeeper()
                        .hasEphemeral("127.0.0.1:" + bookies.get(number).port()));
            }
            int port = bookies.get(1).port();
            bookies.get(1).service().kill();
            assertFalse(bookies.get(1).service().isAlive());
            bookies.restart(1);
            assertTrue(bookies.get(1).service().isAlive());
            assertTrue(bookies.zooKeeper().hasEphemeral("127.0.0.1:" + port));
        }
    }

    @Test
    void ensembleOutlivesOneServer() throws Exception {
        try (Bookies bookies = Bookies.startOverEnsemble(folder, 1, 3)) {
            bookies.zooKeeper().service(2).kill();
            bookies.restart(0);
            bookies.zooKeeper().restart(2);
            assertTrue(bookies.zooKeeper()
                    .hasEphemeral("127.0.0.1:" + bookies.get(0).port()));
        }
    }
}
