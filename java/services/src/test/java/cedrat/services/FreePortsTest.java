package cedrat.services;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

/// Ports for services.
class FreePortsTest {
    private static final Path RANGE = Path.of("/proc/sys/net/ipv4/ip_local_port_range");

    /// A service that is killed and started again needs its port: no connection may have been given it meanwhile.
    @Test
    void portIsNoneOfConnections() throws Exception {
        String[] bounds = Files.readAllLines(RANGE).getFirst().split("\\s+");
        for (int count = 0; count < 100; count++) {
            int port = FreePorts.next();
            assertTrue(port < Integer.parseInt(bounds[0]) || port > Integer.parseInt(bounds[1]), "port " + port);
        }
    }
}
