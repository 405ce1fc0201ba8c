package cedrat.oracle.discovery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.StartTimestamp;
import cedrat.oracle.client.UnavailableException;
import cedrat.oracle.server.cluster.Servers;
import cedrat.services.Bookies;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// C6: clients that know ZooKeeper alone.
@Tag("services")
@Timeout(300)
class ZooKeeperDiscoveryTest {
    private static final String PATH = "/cedrat/discovery";

    @TempDir
    private static Path folder;

    private static Bookies bookies;

    @BeforeAll
    static void start() throws IOException {
        bookies = Bookies.start(folder.resolve("bookies"), 3);
    }

    @AfterAll
    static void stop() {
        bookies.close();
    }

    private static String zooKeeper() {
        return bookies.zooKeeper().address();
    }

    @Test
    void failOverIsFoundByDiscovery() throws Exception {
        Servers servers = new Servers(bookies, folder, PATH);
        ZooKeeperDiscovery discovery = new ZooKeeperDiscovery(zooKeeper(), PATH);
        try (Servers.Server first = servers.startFirst("first", "NONE");
                Servers.Server second = servers.startSecond("second", first);
                OracleClient client =
                        OracleClient.open(ClientOptions.of(discovery).withPatience(Duration.ofMinutes(2)))) {
            StartTimestamp start = client.begin();
            assertEquals(
                    List.of(first.address().getPort(), second.address().getPort()),
                    discovery.find().stream().map(server -> server.getPort()).toList());
            first.service().kill();
            assertTrue(client.commit(start, 1).kind() == Outcome.Kind.COMMITTED);
            assertEquals(
                    List.of(second.address().getPort()),
                    discovery.find().stream().map(server -> server.getPort()).toList());
        }
    }

    @Test
    void absentOracleIsNamed() {
        ZooKeeperDiscovery discovery = new ZooKeeperDiscovery(zooKeeper(), "/cedrat/absent");
        assertThrows(IOException.class, discovery::find);
        try (OracleClient client = OracleClient.open(ClientOptions.of(discovery).withPatience(Duration.ofSeconds(5)))) {
            String why = assertThrows(UnavailableException.class, client::begin).getMessage();
            assertTrue(why.contains("ZooKeeper at " + zooKeeper() + "/cedrat/absent"), why);
        }
    }
}
