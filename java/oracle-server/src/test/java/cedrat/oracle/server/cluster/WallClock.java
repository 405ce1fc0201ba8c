package cedrat.oracle.server.cluster;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/// A wall clock that processes have instead of the machine's, and that can be set: by Debian's `libfaketime`.
/// Other clocks, by which time is measured, are the machine's.
public final class WallClock {
    private static final String LIBRARY = "faketime/libfaketimeMT.so.1";
    private static final List<String> PLACES =
            List.of("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib", "/usr/local/lib");

    private final Path file;
    private final Path library;

    /// One that shows the time. What it shows is kept in this file.
    public WallClock(Path file) throws IOException {
        this.file = file;
        library = PLACES.stream()
                .map(place -> Path.of(place, LIBRARY))
                .filter(Files::exists)
                .findFirst()
                .orElseThrow(() -> new IOException("libfaketime is missing: `./x test` installs it"));
        set(Duration.ZERO);
    }

    /// Returns the environment of a process with this clock.
    public Map<String, String> environment() {
        return Map.of(
                "LD_PRELOAD",
                library.toString(),
                "FAKETIME_TIMESTAMP_FILE",
                file.toString(),
                "FAKETIME_CACHE_DURATION",
                "1",
                "FAKETIME_DONT_FAKE_MONOTONIC",
                "1",
                // Threads wait by the machine's clock. Otherwise the library takes the end of a wait for one by
                // the wall clock: it is long past, and no wait lasts.
                "FAKETIME_FORCE_MONOTONIC_FIX",
                "0");
    }

    /// Sets it to the present time and so much more, or less. Processes see it within a second.
    public void set(Duration shift) throws IOException {
        Path fresh = file.resolveSibling(file.getFileName() + ".fresh");
        Files.writeString(fresh, "%+d\n".formatted(shift.toSeconds()));
        Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }
}
