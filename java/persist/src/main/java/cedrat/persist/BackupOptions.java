package cedrat.persist;

import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

/// Options of a backup.
///
/// ```java
/// store.backup(monday, new BackupOptions().since(sunday));
/// ```
///
/// @param since             the folders of an earlier full backup and of its increments, in their order: only what
///     changed since is copied; empty: all
/// @param bytesPerSecondMax the number of bytes that are copied in a second at most; 0: as many as possible
public record BackupOptions(List<Path> since, long bytesPerSecondMax) {
    /// Options of a full backup, as fast as possible.
    public BackupOptions() {
        this(List.of(), 0);
    }

    /// @throws IllegalArgumentException if `bytesPerSecondMax` is negative
    public BackupOptions {
        since = List.copyOf(since);
        if (bytesPerSecondMax < 0) {
            throw new IllegalArgumentException(
                    "cannot copy " + bytesPerSecondMax + " bytes in a second: choose 0 for no limit");
        }
    }

    /// Returns options of an incremental backup, which continues the last one of these.
    public BackupOptions since(Path full, Path... increments) {
        return new BackupOptions(
                Stream.concat(Stream.of(full), Stream.of(increments)).toList(), bytesPerSecondMax);
    }

    /// Returns options with a limit of the bytes in a second.
    ///
    /// @throws IllegalArgumentException if it is negative
    public BackupOptions bytesPerSecondMax(long bytes) {
        return new BackupOptions(since, bytes);
    }
}
