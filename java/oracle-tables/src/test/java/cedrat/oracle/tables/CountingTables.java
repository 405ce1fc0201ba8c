package cedrat.oracle.tables;

import cedrat.oracle.client.OracleIdentity;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;

/// The tables of another store, with a count of what is read from them, and of calls that change them.
final class CountingTables implements Tables {
    private static final int ROWS_PER_CALL = 100;

    private final Tables tables;
    /// Versions, markers and commit timestamps.
    final AtomicLong cells = new AtomicLong();
    /// Calls of the store that read.
    final AtomicLong calls = new AtomicLong();
    /// Calls of the store that change several rows without a look at their markers.
    final AtomicLong changes = new AtomicLong();

    CountingTables(Tables tables) {
        this.tables = tables;
    }

    /// Returns the cells that were read since the last call, and the calls.
    String takeCounts() {
        return "cells " + cells.getAndSet(0) + " calls " + calls.getAndSet(0);
    }

    @Override
    public Table table(String name) {
        return new Counting(tables.table(name));
    }

    @Override
    public List<Table> all() {
        return tables.all().stream().map(Counting::new).collect(Collectors.toUnmodifiableList());
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

    @Override
    public Duration writesLast() {
        return tables.writesLast();
    }

    private StoredRow count(StoredRow row) {
        long versions =
                row.versions().values().stream().mapToInt(each -> each.size()).sum();
        cells.addAndGet(versions + row.pending().size() + row.commits().size());
        return row;
    }

    final class Counting implements Table {
        private final Table table;

        Counting(Table table) {
            this.table = table;
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
            table.mutate(row, mutation);
        }

        @Override
        public int rowsPerCall() {
            return ROWS_PER_CALL;
        }

        @Override
        public Map<Bytes, TableException> mutate(Map<Bytes, Mutation> all) {
            changes.incrementAndGet();
            return table.mutate(all);
        }

        @Override
        public boolean mutateIfMarked(Bytes row, long start, Mutation mutation) {
            return table.mutateIfMarked(row, start, mutation);
        }

        @Override
        public StoredRow read(Bytes row, Set<Column> columns, long below, int versionsMax) {
            calls.incrementAndGet();
            return count(table.read(row, columns, below, versionsMax));
        }

        @Override
        public List<StoredRow> read(List<Bytes> rows, Set<Column> columns, long below, int versionsMax) {
            calls.incrementAndGet();
            List<StoredRow> read = table.read(rows, columns, below, versionsMax);
            read.forEach(CountingTables.this::count);
            return read;
        }

        @Override
        public StoredRows scan(Scan scan, long below, int versionsMax) {
            calls.incrementAndGet();
            StoredRows rows = table.scan(scan, below, versionsMax);
            return new StoredRows() {
                @Override
                public boolean hasNext() {
                    return rows.hasNext();
                }

                @Override
                public StoredRow next() {
                    return count(rows.next());
                }

                @Override
                public void close() {
                    rows.close();
                }
            };
        }

        @Override
        public StoredRows marked(KeyRange range) {
            return table.marked(range);
        }
    }
}
