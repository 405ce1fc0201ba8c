package cedrat.oracle.log.bookkeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.Log;
import cedrat.oracle.log.OpenMode;
import cedrat.oracle.log.SharedLogs.Place;
import cedrat.oracle.log.contract.RecordingListener;
import cedrat.services.Bookies;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.KeeperException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// Files that say how servers access ZooKeeper and BookKeeper.
@Tag("services")
@Timeout(300)
class CredentialsTest {
    @TempDir
    private static Path folder;

    private static Bookies bookies;

    @BeforeAll
    static void start() throws IOException {
        bookies = Bookies.start(folder, 3);
    }

    @AfterAll
    static void stop() {
        bookies.close();
    }

    private static Place place(String path, Optional<Path> credentials, Optional<Path> bookKeeper) {
        return new Place(
                bookies.zooKeeper().address(),
                path,
                Duration.ofSeconds(60),
                100_000,
                "test",
                credentials,
                bookKeeper,
                Optional.empty());
    }

    private static Optional<Path> file(String name, String text) throws IOException {
        return Optional.of(Files.writeString(folder.resolve(name), text));
    }

    private static void open(Place place, OpenMode mode) throws Exception {
        try (Log log = new BookKeeperLog(place, mode)) {
            log.open((bytes, from, length) -> {}, new RecordingListener());
            log.append(new byte[1], 0, 1);
        }
    }

    @Test
    void nodesBelongToThoseWhoMadeThem() throws Exception {
        String path = "/cedrat-secret/oracle";
        Place own = place(path, file("credentials", "oracle:secret\n"), Optional.empty());
        open(own, OpenMode.CREATE_NEW);
        open(own, OpenMode.EXISTING);
        for (Optional<Path> others : List.of(Optional.<Path>empty(), file("wrong", "oracle:other"))) {
            IOException refused = assertThrows(
                    IOException.class, () -> open(place(path, others, Optional.empty()), OpenMode.EXISTING));
            assertTrue(refused.getMessage().contains("does not admit these credentials"), refused.getMessage());
        }
        try (CuratorFramework stranger =
                CuratorFrameworkFactory.newClient(bookies.zooKeeper().address(), new RetryOneTime(1000))) {
            stranger.start();
            for (String node : new String[] {"", "/ledgers"}) {
                assertThrows(
                        KeeperException.NoAuthException.class,
                        () -> stranger.getChildren().forPath(path + node),
                        node);
            }
            assertEquals(
                    List.of(), stranger.getChildren().forPath(path + "/election"), "clients look for servers there");
            assertThrows(KeeperException.NoAuthException.class, () -> stranger.create()
                    .forPath(path + "/election/one"));
        }
    }

    @Test
    void invalidFilesAreNamed() throws Exception {
        String path = "/cedrat/invalid";
        Path missing = folder.resolve("missing");
        for (Place invalid : new Place[] {
            place(path, Optional.of(missing), Optional.empty()),
            place(path, Optional.empty(), Optional.of(missing)),
            place(path, file("no-password", "oracle"), Optional.empty())
        }) {
            Path named = invalid.credentials().or(invalid::bookKeeper).orElseThrow();
            String why = assertThrows(IOException.class, () -> open(invalid, OpenMode.CREATE_NEW))
                    .getMessage();
            assertTrue(why.contains(named.toString()), why);
        }
    }

    @Test
    void propertiesReachBookKeepersClient() throws Exception {
        Optional<Path> file = file("properties", "# ours\nzkEnableSecurity=true\nnumWorkerThreads=7\n");
        ClientConfiguration configuration = Ledgers.configuration("localhost:1,localhost:2", file);
        assertTrue(configuration.isZkEnableSecurity());
        assertEquals(1, configuration.getNumWorkerThreads(), "the log relies on it");
        assertEquals("zk+hierarchical://localhost:1;localhost:2/ledgers", configuration.getMetadataServiceUri());
    }
}
