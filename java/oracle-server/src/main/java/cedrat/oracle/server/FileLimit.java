package cedrat.oracle.server;

import com.sun.management.UnixOperatingSystemMXBean;
import java.lang.management.ManagementFactory;

/// Number of files that this process may have open, connections included.
final class FileLimit {
    /// Number of files reserved for everything except connections of clients: the log, the scratch file,
    /// libraries, connections of operators and of the log.
    static final int RESERVED = 256;

    private FileLimit() {}

    /// Returns the limit; `Long.MAX_VALUE` if the system has none that it reports.
    static long files() {
        return ManagementFactory.getOperatingSystemMXBean() instanceof UnixOperatingSystemMXBean unix
                        && unix.getMaxFileDescriptorCount() > 0
                ? unix.getMaxFileDescriptorCount()
                : Long.MAX_VALUE;
    }

    /// Returns the number of connections that a process with this limit may have; at least 1.
    static int connections(long files) {
        return (int) Math.clamp(files - RESERVED, 1L, Integer.MAX_VALUE);
    }
}
