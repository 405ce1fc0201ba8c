package cedrat.oracle.tables;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.NoSuchElementException;
import java.util.TreeMap;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;

/// The rows of a scan: what was committed when the transaction began, and what it
/// had written itself when the scan began. For the thread of its transaction, while that is open.
public final class Rows implements Iterator<Row>, AutoCloseable {
    /// Number of rows that are read before one request to the oracle for all of them.
    private static final int BATCH_ROWS = 64;

    private final Table table;
    private final Scan scan;
    private final Snapshot snapshot;
    private final StoredRows stored;
    /// In the order of the scan.
    private final NavigableMap<Bytes, Supplier<NavigableMap<Column, Bytes>>> own;
    private final BooleanSupplier isOpen;
    private final Fault fault;

    /// Number of the oracle's answers when the scan began: rows may be as old (B3).
    private final long begunAt;
    /// Rows that were read for the next batch: they are not read again where the store or the oracle fails.
    private List<Snapshot.Dated> reading = new ArrayList<>();
    /// Keys of rows that were read, and their visible cells.
    private final ArrayDeque<Map.Entry<Bytes, NavigableMap<Column, Bytes>>> batch = new ArrayDeque<>();
    private Row next;
    private long returned;
    /// The last key that was looked at, whether its row was returned or not.
    private Bytes lastKey;
    private boolean isAtEnd;

    Rows(
            Table table,
            Scan scan,
            Snapshot snapshot,
            StoredRows stored,
            TreeMap<Bytes, Supplier<NavigableMap<Column, Bytes>>> own,
            BooleanSupplier isOpen,
            Fault fault) {
        this.table = table;
        this.scan = scan;
        this.snapshot = snapshot;
        this.stored = stored;
        this.own = scan.isReversed() ? own.descendingMap() : own;
        this.isOpen = isOpen;
        this.fault = fault;
        begunAt = snapshot.now();
    }

    /// @throws IllegalStateException if the transaction has ended
    /// @throws TableException if the store fails; it may be called again, if the store's own scan continues
    /// @throws cedrat.oracle.client.OracleException if the oracle does; it may be called again
    @Override
    public boolean hasNext() {
        if (!isOpen.getAsBoolean()) {
            throw new IllegalStateException(
                    "cannot go on with a scan whose transaction has ended: begin another transaction");
        }
        // Limit and filter see what the transaction sees: a row that is not visible counts nowhere.
        while (next == null && returned < scan.limit() && !isExhausted()) {
            Row row = merge();
            if (!row.isEmpty() && scan.filter().test(row)) {
                next = row;
            } else if (fault == Fault.LIMIT_BEFORE_VISIBILITY) {
                returned++;
            }
        }
        return next != null;
    }

    @Override
    public Row next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        Row row = next;
        next = null;
        returned++;
        return row;
    }

    Table table() {
        return table;
    }

    /// The keys that it has looked at so far; `null` if none. Whether there is a row behind them it does not
    /// know.
    KeyRange looked() {
        if (isAtEnd) {
            return scan.range();
        }
        if (lastKey == null) {
            return null;
        }
        return scan.isReversed()
                ? new KeyRange(lastKey, scan.range().to())
                : new KeyRange(scan.range().from(), lastKey.next());
    }

    /// Returns the remaining rows.
    public List<Row> toList() {
        List<Row> rows = new ArrayList<>();
        forEachRemaining(rows::add);
        return rows;
    }

    @Override
    public void close() {
        stored.close();
    }

    private boolean isExhausted() {
        if (batch.isEmpty()) {
            while (reading.size() < BATCH_ROWS && stored.hasNext()) {
                reading.add(snapshot.scanned(stored.next(), begunAt));
            }
            List<NavigableMap<Column, Bytes>> seen = snapshot.see(table, reading, scan.columns());
            for (int index = 0; index < reading.size(); index++) {
                batch.add(Map.entry(reading.get(index).row.key(), seen.get(index)));
            }
            reading = new ArrayList<>();
        }
        isAtEnd = batch.isEmpty() && own.isEmpty();
        return isAtEnd;
    }

    private Row merge() {
        Map.Entry<Bytes, NavigableMap<Column, Bytes>> first = batch.peek();
        int order = first == null ? 1 : own.isEmpty() ? -1 : order(first.getKey(), own.firstKey());
        NavigableMap<Column, Bytes> seen = new TreeMap<>();
        Bytes key = order <= 0 ? first.getKey() : own.firstKey();
        // Before the scan moves on: it may have to be read, which may fail.
        Map<Column, Bytes> written =
                order < 0 ? Map.of() : own.firstEntry().getValue().get();
        lastKey = key;
        if (order <= 0) {
            seen.putAll(batch.poll().getValue());
            // A row that was read again has all columns.
            seen.keySet().removeIf(column -> !scan.selects(column));
        }
        if (order >= 0) {
            own.pollFirstEntry();
            overlay(seen, written, scan);
        }
        return new Row(key, values(seen));
    }

    private int order(Bytes one, Bytes other) {
        return scan.isReversed() ? other.compareTo(one) : one.compareTo(other);
    }

    private static void overlay(Map<Column, Bytes> seen, Map<Column, Bytes> written, Scan scan) {
        written.forEach((column, value) -> {
            if (scan.selects(column)) {
                seen.put(column, value);
            }
        });
    }

    /// Without what was deleted, and as users have written it.
    static NavigableMap<Column, Bytes> values(Map<Column, Bytes> stored) {
        NavigableMap<Column, Bytes> values = new TreeMap<>();
        stored.forEach((column, value) -> {
            if (!Values.isDeleted(value)) {
                values.put(column, Values.value(value));
            }
        });
        return values;
    }
}
