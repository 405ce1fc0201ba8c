package cedrat.persist;

import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.stream.Stream;

/// A store as it was at a moment, for [Store#open(View, StoreOptions)].
///
/// ```java
/// var monday = View.of(sunday).archive(archive).at(Instant.parse("2026-11-30T09:30:00Z"));
/// ```
///
/// @param backups the folders of a full backup and of its increments, in their order; they are only read, and no
///     program may open them as stores meanwhile
/// @param archive the folder of the store's archive, which is only read, and may be in use; empty: the moment at which
///     the backup ends is the only one
/// @param moment  the moment
public record View(List<Path> backups, Optional<Path> archive, Moment moment) {
    /// A moment of a store.
    public sealed interface Moment {
        /// The newest moment of the archive, or the end of the backup without one.
        record Newest() implements Moment {}

        /// The record of the log with this LSN, and all before it.
        ///
        /// @param lsn a positive number, such as [BackupReport#upTo]
        record Lsn(long lsn) implements Moment {
            /// @throws IllegalArgumentException if it is not positive
            public Lsn {
                if (lsn <= 0) {
                    throw new IllegalArgumentException("invalid LSN " + lsn + ": choose a positive one");
                }
            }
        }

        /// The last moment of the archive up to this time. It has every synchronous commit that had returned before.
        ///
        /// @param time later than 1970
        record Time(Instant time) implements Moment {
            /// @throws IllegalArgumentException if it is not later than 1970
            public Time {
                if (time.toEpochMilli() <= 0) {
                    throw new IllegalArgumentException("invalid time " + time + ": choose one after 1970");
                }
            }
        }
    }

    /// @throws IllegalArgumentException if there is no backup
    public View {
        backups = List.copyOf(backups);
        if (backups.isEmpty()) {
            throw new IllegalArgumentException("a view needs a backup: name the folder of one");
        }
        Objects.requireNonNull(archive);
        Objects.requireNonNull(moment);
    }

    /// Returns the view of the store as it was when the last of these backups ended.
    public static View of(Path full, Path... increments) {
        List<Path> backups =
                Stream.concat(Stream.of(full), Stream.of(increments)).toList();
        return new View(backups, Optional.empty(), new Moment.Newest());
    }

    /// Returns the view with an archive, which has later moments.
    public View archive(Path folder) {
        return new View(backups, Optional.of(folder), moment);
    }

    /// Returns the view as of a record of the log.
    ///
    /// @throws IllegalArgumentException if the LSN is not positive
    public View at(long lsn) {
        return new View(backups, archive, new Moment.Lsn(lsn));
    }

    /// Returns the view as of a time.
    ///
    /// @throws IllegalArgumentException if it is not later than 1970
    public View at(Instant time) {
        return new View(backups, archive, new Moment.Time(time));
    }
}
