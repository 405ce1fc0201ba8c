package cedrat.oracle.tables;

import cedrat.oracle.client.OracleIdentity;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Collectors;

/// The tables of another store, with calls that a hook can delay or fail: for tests, and to show the
/// consequences.
///
/// **Threads:** any may call.
public final class HookedTables implements Tables {
    /// Where a call has got to.
    public enum Point {
        /// Before a row is read.
        BEFORE_READ,
        /// After a row was read.
        AFTER_READ,
        /// Before a row changes.
        BEFORE_MUTATE,
        /// After a row has changed.
        AFTER_MUTATE,
        /// Before a marker is looked at.
        BEFORE_MUTATE_IF_MARKED,
        /// After a row has changed, or has not, because of its marker.
        AFTER_MUTATE_IF_MARKED
    }

    /// Receives every call, on the caller's thread; it may wait, to delay the call, or throw, to make it fail.
    @FunctionalInterface
    public interface Hook {
        /// `row` is `null` before the next row of a scan, `mutation` where a row is read.
        void reached(Point point, Table table, Bytes row, Mutation mutation);
    }

    private final Tables tables;
    private final Hook hook;

    /// The same tables.
    public HookedTables(Tables tables, Hook hook) {
        this.tables = Objects.requireNonNull(tables);
        this.hook = Objects.requireNonNull(hook);
    }

    @Override
    public Table table(String name) {
        return hooked(tables.table(name));
    }

    @Override
    public List<Table> all() {
        return tables.all().stream().map(this::hooked).collect(Collectors.toUnmodifiableList());
    }

    @Override
    public long namespace() {
        return tables.namespace();
    }

    @Override
    public void bind(OracleIdentity oracle) {
        tables.bind(oracle);
    }

    @Override
    public boolean isVolatile() {
        return tables.isVolatile();
    }

    /// One, so that calls come in the order of what is to be done.
    @Override
    public int callsMax() {
        return 1;
    }

    @Override
    public Duration writesLast() {
        return tables.writesLast();
    }

    private Table hooked(Table table) {
        return new HookedTable(table, hook);
    }

    private static final class HookedTable implements Table {
        private final Table table;
        private final Hook hook;

        HookedTable(Table table, Hook hook) {
            this.table = table;
            this.hook = hook;
        }

        @Override
        public String name() {
            return table.name();
        }

        @Override
        public Granularity granularity() {
            return table.granularity();
        }

        @Override
        public boolean checksScans() {
            return table.checksScans();
        }

        @Override
        public void mutate(Bytes row, Mutation mutation) {
            hook.reached(Point.BEFORE_MUTATE, this, row, mutation);
            table.mutate(row, mutation);
            hook.reached(Point.AFTER_MUTATE, this, row, mutation);
        }

        @Override
        public boolean mutateIfMarked(Bytes row, long start, Mutation mutation) {
            hook.reached(Point.BEFORE_MUTATE_IF_MARKED, this, row, mutation);
            boolean isMarked = table.mutateIfMarked(row, start, mutation);
            hook.reached(Point.AFTER_MUTATE_IF_MARKED, this, row, mutation);
            return isMarked;
        }

        @Override
        public StoredRow read(Bytes row, Set<Column> columns, long below, int versionsMax) {
            hook.reached(Point.BEFORE_READ, this, row, null);
            StoredRow read = table.read(row, columns, below, versionsMax);
            hook.reached(Point.AFTER_READ, this, row, null);
            return read;
        }

        @Override
        public StoredRows scan(Scan scan, long below, int versionsMax) {
            return hooked(table.scan(scan, below, versionsMax));
        }

        @Override
        public StoredRows marked(KeyRange range) {
            return hooked(table.marked(range));
        }

        private StoredRows hooked(StoredRows rows) {
            return new StoredRows() {
                @Override
                public boolean hasNext() {
                    return rows.hasNext();
                }

                @Override
                public StoredRow next() {
                    hook.reached(Point.BEFORE_READ, HookedTable.this, null, null);
                    StoredRow read = rows.next();
                    hook.reached(Point.AFTER_READ, HookedTable.this, read.key(), null);
                    return read;
                }

                @Override
                public void close() {
                    rows.close();
                }
            };
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof HookedTable
                    && table.equals(((HookedTable) other).table)
                    && hook.equals(((HookedTable) other).hook);
        }

        @Override
        public int hashCode() {
            return 31 * table.hashCode() + hook.hashCode();
        }

        @Override
        public String toString() {
            return table.toString();
        }
    }
}
