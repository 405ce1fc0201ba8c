package cedrat.oracle.hbase;

import cedrat.oracle.tables.Bytes;
import cedrat.oracle.tables.Column;
import cedrat.oracle.tables.Granularity;
import cedrat.oracle.tables.KeyRange;
import cedrat.oracle.tables.Mutation;
import cedrat.oracle.tables.StoredRow;
import cedrat.oracle.tables.StoredRows;
import cedrat.oracle.tables.Table;
import cedrat.oracle.tables.TableException;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CompareOperator;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.AdvancedScanResultConsumer;
import org.apache.hadoop.hbase.client.AsyncConnection;
import org.apache.hadoop.hbase.client.AsyncTable;
import org.apache.hadoop.hbase.client.CheckAndMutate;
import org.apache.hadoop.hbase.client.CheckAndMutateResult;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.RowMutations;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.filter.BinaryComparator;
import org.apache.hadoop.hbase.filter.BinaryPrefixComparator;
import org.apache.hadoop.hbase.filter.FilterList;
import org.apache.hadoop.hbase.filter.QualifierFilter;
import org.apache.hadoop.hbase.filter.ValueFilter;
import org.apache.hadoop.hbase.io.TimeRange;

/// A table of HBase. See [HBaseTables] for what is where.
final class HBaseTable implements Table {
    /// Largest number of rows that a scan fetches together; HBase's `hbase.client.scanner.max.result.size` bounds
    /// their bytes.
    private static final int SCAN_ROWS = 256;

    /// Time for which a refused write is repeated while it may still be accepted: longer than a region needs to
    /// come back when its server dies.
    static final Duration REFUSED_PATIENCE = Duration.ofMinutes(3);

    /// Largest number of rows of one request, and of bytes of their values, unless one row has more.
    private static final int CHANGED_ROWS = 256;

    private static final long CHANGED_BYTES = 2 << 20;

    private static final long REFUSED_PAUSE_MIN_MS = 20;
    private static final long REFUSED_PAUSE_MAX_MS = 1000;

    private final TableName name;
    private final Granularity granularity;
    private final boolean checksScans;
    /// Asks again by itself: for what changes nothing, or may be done twice.
    private final AsyncTable<AdvancedScanResultConsumer> again;
    /// Sends each request only once.
    private final AsyncTable<AdvancedScanResultConsumer> once;

    HBaseTable(AsyncConnection connection, TableName name, Granularity granularity, boolean checksScans) {
        this.name = name;
        this.granularity = granularity;
        this.checksScans = checksScans;
        again = connection.getTable(name);
        once = connection.getTableBuilder(name).setMaxAttempts(1).build();
    }

    @Override
    public String name() {
        return name.getNameAsString();
    }

    @Override
    public Granularity granularity() {
        return granularity;
    }

    @Override
    public boolean checksScans() {
        return checksScans;
    }

    // ---- changes
    // ----------------------------------------------------------------------------------------------------

    @Override
    public void mutate(Bytes row, Mutation mutation) {
        org.apache.hadoop.hbase.client.Row change = change(row, mutation);
        if (mutation.isRepeatable()) {
            Calls.await(send(again, change), problem -> refused(row, problem));
            return;
        }
        long until = System.nanoTime() + REFUSED_PATIENCE.toNanos();
        long pauseMs = REFUSED_PAUSE_MIN_MS;
        while (true) {
            locate(row);
            try {
                Calls.await(send(once, change), problem -> written(row, problem));
                return;
            } catch (TableException problem) {
                if (problem.effect() == TableException.Effect.UNKNOWN
                        || !Refusals.isForNow(problem)
                        || System.nanoTime() > until) {
                    throw problem;
                }
            }
            pause(row, pauseMs);
            pauseMs = Math.min(2 * pauseMs, REFUSED_PAUSE_MAX_MS);
        }
    }

    private static CompletableFuture<Object> send(
            AsyncTable<AdvancedScanResultConsumer> table, org.apache.hadoop.hbase.client.Row change) {
        return table.batch(List.of(change)).get(0);
    }

    @Override
    public int rowsPerCall() {
        return CHANGED_ROWS;
    }

    /// One request for each region server. It is sent once, unless all changes may be repeated; large values are
    /// sent in several parts. A row that is refused temporarily is then changed by itself.
    @Override
    public Map<Bytes, TableException> mutate(Map<Bytes, Mutation> changes) {
        Map<Bytes, TableException> failures = new HashMap<>();
        if (changes.values().stream().allMatch(Mutation::isRepeatable)) {
            repeat(changes, failures);
            return failures;
        }
        Map<Bytes, Mutation> part = new LinkedHashMap<>();
        long bytes = 0;
        for (Map.Entry<Bytes, Mutation> change : changes.entrySet()) {
            part.put(change.getKey(), change.getValue());
            bytes += change.getValue().puts().stream()
                    .mapToLong(version -> version.value().length())
                    .sum();
            if (bytes >= CHANGED_BYTES) {
                mutatePart(part, failures);
                part.clear();
                bytes = 0;
            }
        }
        mutatePart(part, failures);
        return failures;
    }

    private void repeat(Map<Bytes, Mutation> changes, Map<Bytes, TableException> failures) {
        Map<Bytes, org.apache.hadoop.hbase.client.Row> requests = new LinkedHashMap<>();
        changes.forEach((row, mutation) -> collect(row, failures, () -> requests.put(row, change(row, mutation))));
        Iterator<CompletableFuture<Object>> answers =
                again.batch(List.copyOf(requests.values())).iterator();
        for (Bytes row : requests.keySet()) {
            CompletableFuture<Object> answer = answers.next();
            collect(row, failures, () -> Calls.await(answer, problem -> refused(row, problem)));
        }
    }

    private void mutatePart(Map<Bytes, Mutation> changes, Map<Bytes, TableException> failures) {
        Map<Bytes, org.apache.hadoop.hbase.client.Row> requests = new LinkedHashMap<>();
        changes.forEach((row, mutation) -> collect(row, failures, () -> {
            org.apache.hadoop.hbase.client.Row change = change(row, mutation);
            locate(row);
            requests.put(row, change);
        }));
        if (requests.isEmpty()) {
            return;
        }
        Iterator<CompletableFuture<Object>> answers =
                once.batch(List.copyOf(requests.values())).iterator();
        List<Bytes> refused = new ArrayList<>();
        for (Bytes row : requests.keySet()) {
            CompletableFuture<Object> answer = answers.next();
            collect(
                    row,
                    failures,
                    () -> Calls.await(answer, problem -> {
                        if (Refusals.isForNow(problem) || changes.get(row).isRepeatable()) {
                            refused.add(row);
                        }
                        return written(row, problem);
                    }));
        }
        for (Bytes row : refused) {
            failures.remove(row);
            collect(row, failures, () -> mutate(row, changes.get(row)));
        }
    }

    private static void collect(Bytes row, Map<Bytes, TableException> failures, Runnable change) {
        try {
            change.run();
        } catch (TableException failure) {
            failures.put(row, failure);
        }
    }

    /// One request for each region server.
    @Override
    public Map<Bytes, TableException> mutateIfMarked(long start, Map<Bytes, Mutation> changes) {
        Map<Bytes, TableException> failures = new HashMap<>();
        Map<Bytes, CheckAndMutate> requests = new LinkedHashMap<>();
        changes.forEach((row, mutation) -> {
            if (!isNever(row)) {
                collect(row, failures, () -> requests.put(row, changeIfMarked(row, start, mutation)));
            }
        });
        Iterator<CompletableFuture<CheckAndMutateResult>> answers =
                again.checkAndMutate(List.copyOf(requests.values())).iterator();
        for (Bytes row : requests.keySet()) {
            CompletableFuture<CheckAndMutateResult> answer = answers.next();
            collect(row, failures, () -> Calls.await(answer, problem -> refused(row, problem)));
        }
        return failures;
    }

    /// A change that is sent again, because no answer has come, finds no marker where the first was done.
    @Override
    public boolean mutateIfMarked(Bytes row, long start, Mutation mutation) {
        if (isNever(row)) {
            return false;
        }
        CheckAndMutate change = changeIfMarked(row, start, mutation);
        CheckAndMutateResult result = Calls.await(again.checkAndMutate(change), problem -> refused(row, problem));
        return result.isSuccess();
    }

    /// HBase has no row without a key: a put is refused, and nothing is ever found there.
    private static boolean isNever(Bytes row) {
        return row.length() == 0;
    }

    private CheckAndMutate changeIfMarked(Bytes row, long start, Mutation mutation) {
        CheckAndMutate.Builder builder = CheckAndMutate.newBuilder(row.toArray())
                .timeRange(TimeRange.at(start))
                .ifEquals(Cells.PENDING, Cells.stateQualifier(), Cells.marker());
        org.apache.hadoop.hbase.client.Row change = change(row, mutation);
        if (change instanceof Put) {
            return builder.build((Put) change);
        }
        return change instanceof Delete ? builder.build((Delete) change) : builder.build((RowMutations) change);
    }

    private org.apache.hadoop.hbase.client.Row change(Bytes row, Mutation mutation) {
        try {
            return Cells.change(row.toArray(), mutation);
        } catch (IOException | IllegalArgumentException unfit) {
            throw new TableException(
                    TableException.Effect.NONE,
                    "table " + name + ", row " + row + ": HBase cannot store the value: " + unfit.getMessage(),
                    unfit);
        }
    }

    /// Locates the row's region server beforehand, so that a failed look-up is not taken for a failure of the
    /// write.
    private void locate(Bytes row) {
        Calls.await(
                once.getRegionLocator().getRegionLocation(row.toArray()),
                problem -> Refusals.exception(
                        problem,
                        "table " + name + ", row " + row
                                + ": no region server serves it; run `status` in HBase's shell"));
    }

    private void pause(Bytes row, long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new TableException(
                    TableException.Effect.NONE,
                    "table " + name + ", row " + row + ": the thread was interrupted before the write was repeated",
                    interrupted);
        }
    }

    private TableException written(Bytes row, Throwable problem) {
        if (Refusals.isForNow(problem) || Refusals.isForGood(problem)) {
            return refused(row, problem);
        }
        return new TableException(
                TableException.Effect.UNKNOWN,
                "table " + name + ", row " + row + ": whether it was written is unknown (" + Refusals.root(problem)
                        + "); the transaction aborts, run it again",
                problem);
    }

    private TableException refused(Bytes row, Throwable problem) {
        return Refusals.exception(
                problem,
                "table " + name + ", row " + row + ": "
                        + (Refusals.isForGood(problem)
                                ? "HBase refuses the write; compare it with `describe '" + name + "'` in HBase's shell"
                                : "no region server accepts the write; run `status` in HBase's shell, and try again"));
    }

    // ---- reads
    // ------------------------------------------------------------------------------------------------------

    @Override
    public StoredRow read(Bytes row, Set<Column> columns, long below, int versionsMax) {
        if (isNever(row)) {
            return Cells.row(row, Result.EMPTY_RESULT);
        }
        Get get = get(row, columns, below, versionsMax);
        return Cells.row(row, Calls.await(again.get(get), problem -> refused(row, problem)));
    }

    @Override
    public List<StoredRow> read(List<Bytes> rows, Set<Column> columns, long below, int versionsMax) {
        List<Get> gets = rows.stream()
                .filter(row -> !isNever(row))
                .map(row -> get(row, columns, below, versionsMax))
                .collect(Collectors.toUnmodifiableList());
        if (gets.isEmpty()) {
            return Table.super.read(rows, columns, below, versionsMax);
        }
        Bytes first = Bytes.of(gets.get(0).getRow());
        Iterator<Result> results = Calls.await(again.getAll(gets), problem -> refused(first, problem))
                .iterator();
        return rows.stream()
                .map(row -> Cells.row(row, isNever(row) ? Result.EMPTY_RESULT : results.next()))
                .collect(Collectors.toUnmodifiableList());
    }

    private static Get get(Bytes row, Set<Column> columns, long below, int versionsMax) {
        Get get = new Get(row.toArray());
        if (!columns.isEmpty()) {
            columns.forEach(column ->
                    get.addColumn(column.family().toArray(), column.qualifier().toArray()));
            get.addFamily(Cells.PENDING);
        }
        try {
            get.readVersions(versionsMax).setTimeRange(0, below);
        } catch (IOException impossible) {
            throw new IllegalArgumentException("invalid timestamp " + below, impossible);
        }
        return get;
    }

    @Override
    public StoredRows scan(cedrat.oracle.tables.Scan wanted, long below, int versionsMax) {
        KeyRange range = wanted.range();
        Scan scan = (wanted.isReversed() ? reversed(range) : scan(range)).readVersions(versionsMax);
        if (!wanted.columns().isEmpty()) {
            wanted.columns()
                    .forEach(column -> scan.addColumn(
                            column.family().toArray(), column.qualifier().toArray()));
            scan.addFamily(Cells.PENDING);
        } else if (!wanted.columnPrefixes().isEmpty()) {
            wanted.columnPrefixes()
                    .forEach(prefix -> scan.addFamily(prefix.family().toArray()));
            scan.addFamily(Cells.PENDING).setFilter(anyOf(wanted.columnPrefixes()));
        }
        try {
            scan.setTimeRange(0, below);
        } catch (IOException impossible) {
            throw new IllegalArgumentException("invalid timestamp " + below, impossible);
        }
        return new ScannedRows(this, again.getScanner(scan), false);
    }

    /// Passes columns by their qualifiers, also that of the markers. A filter of families would end the row at the
    /// first other family, and so might lose the markers.
    private static FilterList anyOf(Set<Column> prefixes) {
        FilterList any = new FilterList(FilterList.Operator.MUST_PASS_ONE);
        any.addFilter(new QualifierFilter(CompareOperator.EQUAL, new BinaryComparator(Cells.stateQualifier())));
        prefixes.forEach(prefix -> any.addFilter(new QualifierFilter(
                CompareOperator.EQUAL,
                new BinaryPrefixComparator(prefix.qualifier().toArray()))));
        return any;
    }

    /// Looks for markers only, and then reads the rows that have one. Region servers pass over commit timestamps.
    @Override
    public StoredRows marked(KeyRange range) {
        Scan scan = scan(range)
                .addFamily(Cells.PENDING)
                .readAllVersions()
                .setFilter(new ValueFilter(CompareOperator.EQUAL, new BinaryComparator(Cells.marker())));
        return new ScannedRows(this, again.getScanner(scan), true);
    }

    private static Scan scan(KeyRange range) {
        return new Scan()
                .withStartRow(range.from().toArray())
                .withStopRow(range.to().toArray())
                .setCaching(SCAN_ROWS);
    }

    /// HBase's reversed scan begins at the greater key. An empty one stands for the end of the table in either order.
    private static Scan reversed(KeyRange range) {
        return new Scan()
                .setReversed(true)
                .withStartRow(range.to().toArray(), false)
                .withStopRow(range.from().toArray(), true)
                .setCaching(SCAN_ROWS);
    }

    /// A timestamp of the table from this one on, also of what was removed; 0 if there is none. Files that
    /// have only older ones are not read.
    long timestampFrom(long first) {
        Scan scan = scan(KeyRange.ALL).setRaw(true).readAllVersions().setLimit(1);
        try {
            scan.setTimeRange(first, Long.MAX_VALUE);
        } catch (IOException impossible) {
            throw new IllegalArgumentException("invalid timestamp " + first, impossible);
        }
        try (ResultScanner found = again.getScanner(scan)) {
            Result result = found.next();
            long newest = 0;
            if (result != null) {
                for (Cell cell : result.rawCells()) {
                    newest = Math.max(newest, cell.getTimestamp());
                }
            }
            return newest;
        } catch (IOException problem) {
            throw Refusals.exception(problem, "cannot scan table " + name + "; run `status` in HBase's shell");
        }
    }

    @Override
    public String toString() {
        return name();
    }
}
