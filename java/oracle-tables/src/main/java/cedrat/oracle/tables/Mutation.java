package cedrat.oracle.tables;

import java.util.List;
import java.util.Objects;

/// Atomic change of a row.
public final class Mutation {
    /// A version of a cell, and its value.
    public static final class Version {
        private final Column column;
        private final long timestamp;
        private final Bytes value;

        /// A version with a value.
        public Version(Column column, long timestamp, Bytes value) {
            this.column = Objects.requireNonNull(column);
            this.timestamp = timestamp;
            this.value = Objects.requireNonNull(value);
        }

        /// Returns the column.
        public Column column() {
            return column;
        }

        /// Returns the timestamp of the version.
        public long timestamp() {
            return timestamp;
        }

        /// Returns the stored value.
        public Bytes value() {
            return value;
        }

        @Override
        public boolean equals(Object other) {
            if (!(other instanceof Version)) {
                return false;
            }
            Version version = (Version) other;
            return column.equals(version.column) && timestamp == version.timestamp && value.equals(version.value);
        }

        @Override
        public int hashCode() {
            return Objects.hash(column, timestamp, value);
        }

        @Override
        public String toString() {
            return "Version[column=" + column + ", timestamp=" + timestamp + ", value=" + value + "]";
        }
    }

    /// A version of a cell.
    public static final class CellVersion {
        private final Column column;
        private final long timestamp;

        /// A version.
        public CellVersion(Column column, long timestamp) {
            this.column = Objects.requireNonNull(column);
            this.timestamp = timestamp;
        }

        /// Returns the column.
        public Column column() {
            return column;
        }

        /// Returns the timestamp of the version.
        public long timestamp() {
            return timestamp;
        }

        @Override
        public boolean equals(Object other) {
            if (!(other instanceof CellVersion)) {
                return false;
            }
            CellVersion cellVersion = (CellVersion) other;
            return column.equals(cellVersion.column) && timestamp == cellVersion.timestamp;
        }

        @Override
        public int hashCode() {
            return Objects.hash(column, timestamp);
        }

        @Override
        public String toString() {
            return "CellVersion[column=" + column + ", timestamp=" + timestamp + "]";
        }
    }

    /// The commit timestamp of all versions that a transaction has written into the row.
    public static final class Stamp {
        private final long start;
        private final long commit;

        /// A commit timestamp.
        public Stamp(long start, long commit) {
            this.start = start;
            this.commit = commit;
        }

        /// Returns the start timestamp of the transaction.
        public long start() {
            return start;
        }

        /// Returns its commit timestamp.
        public long commit() {
            return commit;
        }

        @Override
        public boolean equals(Object other) {
            if (!(other instanceof Stamp)) {
                return false;
            }
            Stamp stamp = (Stamp) other;
            return start == stamp.start && commit == stamp.commit;
        }

        @Override
        public int hashCode() {
            return Objects.hash(start, commit);
        }

        @Override
        public String toString() {
            return "Stamp[start=" + start + ", commit=" + commit + "]";
        }
    }

    private final List<Version> puts;
    private final List<CellVersion> erasures;
    private final List<CellVersion> cuts;
    private final List<Long> marks;
    private final List<Stamp> stamps;
    private final List<Long> unmarks;

    /// A change, with copies of these lists.
    ///
    /// @param puts versions to be written
    /// @param erasures versions to be removed: exactly these, none older
    /// @param cuts versions to be removed with all that are older
    /// @param marks start timestamps whose pending marker is to be set
    /// @param stamps commit timestamps, each of which replaces the pending marker of its start timestamp
    /// @param unmarks start timestamps whose pending marker or commit timestamp is to be removed: exactly these
    public Mutation(
            List<Version> puts,
            List<CellVersion> erasures,
            List<CellVersion> cuts,
            List<Long> marks,
            List<Stamp> stamps,
            List<Long> unmarks) {
        this.puts = List.copyOf(puts);
        this.erasures = List.copyOf(erasures);
        this.cuts = List.copyOf(cuts);
        this.marks = List.copyOf(marks);
        this.stamps = List.copyOf(stamps);
        this.unmarks = List.copyOf(unmarks);
    }

    /// Returns the versions to be written.
    public List<Version> puts() {
        return puts;
    }

    /// Returns the versions to be removed: exactly these, none older.
    public List<CellVersion> erasures() {
        return erasures;
    }

    /// Returns the versions to be removed with all that are older.
    public List<CellVersion> cuts() {
        return cuts;
    }

    /// Returns the start timestamps whose pending marker is to be set.
    public List<Long> marks() {
        return marks;
    }

    /// Returns the commit timestamps, each of which replaces a pending marker.
    public List<Stamp> stamps() {
        return stamps;
    }

    /// Returns the start timestamps whose pending marker or commit timestamp is to be removed.
    public List<Long> unmarks() {
        return unmarks;
    }

    /// Whether it writes nothing.
    public boolean onlyRemoves() {
        return puts.isEmpty() && marks.isEmpty() && stamps.isEmpty();
    }

    /// Whether it may be made twice, or late, and does no harm: it writes no version, and sets no marker. A commit
    /// timestamp is true whenever it arrives, and what is removed does not come back.
    public boolean isRepeatable() {
        return puts.isEmpty() && marks.isEmpty();
    }

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof Mutation)) {
            return false;
        }
        Mutation mutation = (Mutation) other;
        return puts.equals(mutation.puts)
                && erasures.equals(mutation.erasures)
                && cuts.equals(mutation.cuts)
                && marks.equals(mutation.marks)
                && stamps.equals(mutation.stamps)
                && unmarks.equals(mutation.unmarks);
    }

    @Override
    public int hashCode() {
        return Objects.hash(puts, erasures, cuts, marks, stamps, unmarks);
    }

    @Override
    public String toString() {
        return "Mutation[puts=" + puts + ", erasures=" + erasures + ", cuts=" + cuts + ", marks=" + marks + ", stamps="
                + stamps + ", unmarks=" + unmarks + "]";
    }
}
