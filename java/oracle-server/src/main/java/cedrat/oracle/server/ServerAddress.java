package cedrat.oracle.server;

import java.net.InetSocketAddress;

/// Addresses as the command takes them.
final class ServerAddress {
    private ServerAddress() {}

    /// Returns the address `HOST:PORT`, which is not resolved.
    ///
    /// @throws IllegalArgumentException if it is none
    static InetSocketAddress of(String hostAndPort) {
        int colon = hostAndPort.lastIndexOf(':');
        String port = hostAndPort.substring(colon + 1);
        if (colon < 1 || !port.matches("\\d{1,5}") || Integer.parseInt(port) > 0xffff) {
            throw new IllegalArgumentException("invalid address " + hostAndPort + ": write HOST:PORT");
        }
        return InetSocketAddress.createUnresolved(hostAndPort.substring(0, colon), Integer.parseInt(port));
    }
}
