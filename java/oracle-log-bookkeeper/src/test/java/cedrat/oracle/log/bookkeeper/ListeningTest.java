package cedrat.oracle.log.bookkeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cedrat.services.Bookies;
import java.io.IOException;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.net.Socket;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Services without authentication are not to be reached from other machines.
@Tag("services")
class ListeningTest {
    @TempDir
    Path folder;

    @Test
    void servicesListenOnLoopbackOnly() throws IOException {
        try (Bookies bookies = Bookies.start(folder, 1)) {
            List<String> reached = new ArrayList<>();
            for (InetAddress own : NetworkInterface.networkInterfaces()
                    .flatMap(NetworkInterface::inetAddresses)
                    .filter(address -> !address.isLoopbackAddress())
                    .toList()) {
                for (int port :
                        List.of(bookies.get(0).port(), bookies.zooKeeper().port())) {
                    if (isReached(own, port)) {
                        reached.add(own + ":" + port);
                    }
                }
            }
            assertEquals(List.of(), reached);
        }
    }

    private static boolean isReached(InetAddress address, int port) {
        try (Socket socket = new Socket(address, port)) {
            return socket.isConnected();
        } catch (IOException refused) {
            return false;
        }
    }
}
