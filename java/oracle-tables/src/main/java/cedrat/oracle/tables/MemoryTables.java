package cedrat.oracle.tables;

import cedrat.oracle.client.OracleIdentity;
import java.time.Duration;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.NavigableMap;
import java.util.NavigableSet;
import java.util.NoSuchElementException;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentNavigableMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;

/// Tables in the memory of this process; they end with it. One client at least that has begun a transaction over them
/// has to live for as long as they are used: with the last one the oracle forgets that it has rows here. For
/// programs whose rows need not outlive them, and for tests.
///
/// **Threads:** any may call.
public final class MemoryTables implements Tables {
    /// More than one, so that programs that are tried out in memory meet failures of several rows together.
    private static final int ROWS_PER_CALL = 3;

    private final ConcurrentNavigableMap<String, MemoryTable> tables = new ConcurrentSkipListMap<>();
    /// Drawn at random, as other tables of the same oracle need another number.
    private final long namespace = ThreadLocalRandom.current().nextLong(1, Long.MAX_VALUE);

    /// The first oracle that has used them.
    private final AtomicReference<OracleIdentity> bound = new AtomicReference<>();

    /// No tables yet.
    public MemoryTables() {}

    /// Makes a table.
    ///
    /// @throws IllegalStateException if there is one of this name
    public Table create(String name, Granularity granularity) {
        return create(name, granularity, false);
    }

    /// Makes a table, of which scans are checked or not ([Table#checksScans]).
    ///
    /// @throws IllegalStateException if there is one of this name
    public Table create(String name, Granularity granularity, boolean checksScans) {
        MemoryTable table = new MemoryTable(name, granularity, checksScans);
        if (tables.putIfAbsent(name, table) != null) {
            throw new IllegalStateException("cannot create table " + name + ", because it exists: choose another name");
        }
        return table;
    }

    /// A write that has not returned belongs to a thread that lives.
    @Override
    public Duration writesLast() {
        return Duration.ZERO;
    }

    @Override
    public Table table(String name) {
        MemoryTable table = tables.get(name);
        if (table == null) {
            throw new TableException(
                    TableException.Effect.NONE, "there is no table " + name + " in memory: create it first", null);
        }
        return table;
    }

    @Override
    public long namespace() {
        return namespace;
    }

    @Override
    public void bind(OracleIdentity oracle) {
        OracleIdentity first = bound.compareAndExchange(null, oracle);
        if (first != null && !first.equals(oracle)) {
            throw TableException.ofOtherOracle("the tables in memory", first.toString(), oracle);
        }
    }

    @Override
    public boolean isVolatile() {
        return true;
    }

    @Override
    public List<Table> all() {
        return List.copyOf(tables.values());
    }

    /// Guarded by itself.
    private static final class MemoryRow {
        final TreeMap<Column, TreeMap<Long, Bytes>> versions = new TreeMap<>();
        final TreeSet<Long> pending = new TreeSet<>();
        final TreeMap<Long, Long> commits = new TreeMap<>();
        /// It is no longer the table's: who has found it looks again.
        boolean isRemoved;

        boolean isEmpty() {
            return versions.isEmpty() && pending.isEmpty() && commits.isEmpty();
        }

        void apply(Mutation mutation) {
            for (Mutation.Version put : mutation.puts()) {
                versions.computeIfAbsent(put.column(), none -> new TreeMap<>()).put(put.timestamp(), put.value());
            }
            for (Mutation.CellVersion erased : mutation.erasures()) {
                remove(erased, column -> column.remove(erased.timestamp()));
            }
            for (Mutation.CellVersion cut : mutation.cuts()) {
                remove(cut, column -> column.headMap(cut.timestamp(), true).clear());
            }
            pending.addAll(mutation.marks());
            for (Mutation.Stamp stamp : mutation.stamps()) {
                pending.remove(stamp.start());
                commits.put(stamp.start(), stamp.commit());
            }
            mutation.unmarks().forEach(start -> {
                pending.remove(start);
                commits.remove(start);
            });
        }

        private void remove(Mutation.CellVersion which, Consumer<TreeMap<Long, Bytes>> how) {
            TreeMap<Long, Bytes> column = versions.get(which.column());
            if (column != null) {
                how.accept(column);
                if (column.isEmpty()) {
                    versions.remove(which.column());
                }
            }
        }
    }

    private static final class MemoryTable implements Table {
        private final String name;
        private final Granularity granularity;
        private final boolean checksScans;
        private final ConcurrentNavigableMap<Bytes, MemoryRow> rows = new ConcurrentSkipListMap<>();

        MemoryTable(String name, Granularity granularity, boolean checksScans) {
            this.name = Objects.requireNonNull(name);
            this.granularity = Objects.requireNonNull(granularity);
            this.checksScans = checksScans;
        }

        @Override
        public boolean checksScans() {
            return checksScans;
        }

        @Override
        public String name() {
            return name;
        }

        @Override
        public Granularity granularity() {
            return granularity;
        }

        @Override
        public int rowsPerCall() {
            return ROWS_PER_CALL;
        }

        @Override
        public void mutate(Bytes row, Mutation mutation) {
            while (!change(row, rows.computeIfAbsent(row, none -> new MemoryRow()), mutation)) {
                // it was removed meanwhile
            }
        }

        private boolean change(Bytes key, MemoryRow row, Mutation mutation) {
            synchronized (row) {
                if (row.isRemoved) {
                    return false;
                }
                row.apply(mutation);
                if (row.isEmpty()) {
                    row.isRemoved = true;
                    rows.remove(key, row);
                }
                return true;
            }
        }

        @Override
        public boolean mutateIfMarked(Bytes row, long start, Mutation mutation) {
            MemoryRow found = rows.get(row);
            if (found == null) {
                return false;
            }
            synchronized (found) {
                // A row that was removed has no markers.
                return found.pending.contains(start) && change(row, found, mutation);
            }
        }

        @Override
        public StoredRow read(Bytes row, Set<Column> columns, long below, int versionsMax) {
            return copy(row, rows.get(row), Scan.ALL.withColumns(columns), below, versionsMax);
        }

        @Override
        public StoredRows scan(Scan scan, long below, int versionsMax) {
            KeyRange range = scan.range();
            NavigableMap<Bytes, MemoryRow> part = range.to().length() == 0
                    ? rows.tailMap(range.from(), true)
                    : rows.subMap(range.from(), true, range.to(), false);
            Iterator<Bytes> keys =
                    (scan.isReversed() ? part.descendingMap() : part).keySet().iterator();
            return new StoredRows() {
                @Override
                public boolean hasNext() {
                    return keys.hasNext();
                }

                @Override
                public StoredRow next() {
                    if (!keys.hasNext()) {
                        throw new NoSuchElementException();
                    }
                    Bytes key = keys.next();
                    return copy(key, rows.get(key), scan, below, versionsMax);
                }

                @Override
                public void close() {
                    // holds nothing
                }
            };
        }

        @Override
        public StoredRows marked(KeyRange range) {
            return scan(range, Set.of(), Long.MAX_VALUE);
        }

        private static StoredRow copy(Bytes key, MemoryRow row, Scan scan, long below, int versionsMax) {
            if (row == null) {
                return new StoredRow(
                        key,
                        Collections.emptyNavigableMap(),
                        Collections.emptyNavigableSet(),
                        Collections.emptyNavigableMap());
            }
            NavigableMap<Column, NavigableMap<Long, Bytes>> versions = new TreeMap<>();
            NavigableSet<Long> pending;
            NavigableMap<Long, Long> commits;
            synchronized (row) {
                for (Column column : scan.columns().isEmpty() ? row.versions.keySet() : scan.columns()) {
                    TreeMap<Long, Bytes> all = row.versions.get(column);
                    if (all != null && all.firstKey() < below && scan.selects(column)) {
                        NavigableMap<Long, Bytes> older = all.headMap(below, false);
                        versions.put(
                                column, new TreeMap<>(older.tailMap(newest(older.descendingKeySet(), versionsMax))));
                    }
                }
                NavigableSet<Long> marks = row.pending.headSet(below, false);
                NavigableMap<Long, Long> stamps = row.commits.headMap(below, false);
                long from = Math.max(
                        newest(marks.descendingSet(), versionsMax), newest(stamps.descendingKeySet(), versionsMax));
                pending = new TreeSet<>(marks.tailSet(from));
                commits = new TreeMap<>(stamps.tailMap(from));
            }
            return new StoredRow(key, versions, pending, commits);
        }

        /// Returns the last of the first so many; a smaller number than all if there are fewer.
        private static long newest(NavigableSet<Long> descending, int count) {
            long last = Long.MIN_VALUE;
            int passed = 0;
            for (long each : descending) {
                last = each;
                passed++;
                if (passed == count) {
                    return last;
                }
            }
            return Long.MIN_VALUE;
        }

        @Override
        public String toString() {
            return name;
        }
    }
}
