package cedrat.oracle.tables;

import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.StartTimestamp;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;

/// The data that was committed when a transaction began (ReTSO §2.2 and Algorithm 4).
///
/// A version has the start timestamp of its writer, and the row has the commit timestamp of that writer, or its
/// marker: then the oracle supplies the commit timestamp. A version with neither was committed before all readers
/// that are open began ([Pruner]), and in the order of start timestamps. Of all versions committed before, the
/// one with the largest *commit* timestamp is visible. While all writers of a cell conflict, start timestamps
/// have the same order. So the newest few versions are read first, and older ones only if none of these is visible.
/// Among the versions that were read, the order of commit timestamps counts.
///
/// All visible versions lie below the reader's start timestamp, and so do their commit timestamps: a
/// transaction that commits before a reader begins has begun before it.
///
/// For one thread at a time.
final class Snapshot {
    /// An outcome that makes a version invisible to this reader for good: its transaction has aborted, or was
    /// open when the oracle was asked, and then commits above all start timestamps there were (S4 of the
    /// oracle).
    private static final long INVISIBLE = Long.MAX_VALUE;

    private static final int REMEMBERED_MAX = 1 << 16;

    /// Versions of a column that are read at first: the newest is visible, but for those of transactions that run side
    /// by side.
    private static final int VERSIONS_FIRST = 4;

    /// Versions of a column that are read if none of the first is visible; then all are read.
    private static final int VERSIONS_SECOND = 64;

    private final OracleClient oracle;
    private final StartTimestamp start;
    private final Fault fault;

    private final Map<Long, Long> commits = new HashMap<>();
    /// Transactions that the oracle has forgotten, and which of its answers said so.
    private final Map<Long, Long> forgotten = new HashMap<>();
    private long answers;

    Snapshot(OracleClient oracle, StartTimestamp start, Fault fault) {
        this.oracle = oracle;
        this.start = start;
        this.fault = fault;
    }

    /// A row that was read when the oracle had given so many answers, with at most so many versions of a column.
    static final class Dated {
        final StoredRow row;
        final int versionsMax;
        final long answers;

        Dated(StoredRow row, int versionsMax, long answers) {
            this.row = row;
            this.versionsMax = versionsMax;
            this.answers = answers;
        }
    }

    /// Dates rows that are about to be read.
    long now() {
        return answers;
    }

    /// Returns the visible cells of a row: stored values, also deleted ones.
    NavigableMap<Column, Bytes> read(Table table, Bytes row, Set<Column> columns) {
        StoredRow stored = table.read(row, columns, start.value(), VERSIONS_FIRST);
        return see(table, List.of(new Dated(stored, VERSIONS_FIRST, answers)), columns)
                .get(0);
    }

    /// The same of several rows, for which store and oracle are asked once each, if none needs more versions.
    List<NavigableMap<Column, Bytes>> read(Table table, List<Bytes> rows, Set<Column> columns) {
        return see(table, read(table, rows, columns, VERSIONS_FIRST), columns);
    }

    private List<Dated> read(Table table, List<Bytes> rows, Set<Column> columns, int versionsMax) {
        long before = answers;
        return table.read(rows, columns, start.value(), versionsMax).stream()
                .map(row -> new Dated(row, versionsMax, before))
                .collect(Collectors.toUnmodifiableList());
    }

    /// Begins a scan of rows for [#see].
    StoredRows scan(Table table, Scan scan) {
        return table.scan(scan, start.value(), VERSIONS_FIRST);
    }

    /// Dates a row of such a scan, which began at [#now].
    Dated scanned(StoredRow row, long begunAt) {
        return new Dated(row, VERSIONS_FIRST, begunAt);
    }

    /// Asks the oracle for all transactions that some rows need, at once.
    private void learn(Collection<Dated> rows) {
        Set<Long> asked = new TreeSet<>();
        for (Dated dated : rows) {
            for (long writer : dated.row.pending()) {
                if (!commits.containsKey(writer) && !forgotten.containsKey(writer)) {
                    asked.add(writer);
                }
            }
        }
        if (asked.isEmpty()) {
            return;
        }
        List<StartTimestamp> writers = asked.stream().map(StartTimestamp::new).collect(Collectors.toUnmodifiableList());
        List<Outcome> outcomes = oracle.status(start, writers);
        answers++;
        for (int index = 0; index < outcomes.size(); index++) {
            long writer = writers.get(index).value();
            Outcome outcome = outcomes.get(index);
            switch (outcome.kind()) {
                case COMMITTED:
                    commits.put(writer, outcome.commitTimestamp().value());
                    break;
                case UNKNOWN:
                    forgotten.put(writer, answers);
                    break;
                default:
                    commits.put(writer, INVISIBLE);
            }
        }
    }

    /// Returns the visible cells of rows that were read, in the same order.
    ///
    /// A transaction that the oracle has forgotten was cleaned up. If the row was read before the oracle's answer,
    /// the cleaning may have happened in between, and the row is read again. If the marker is still there, it
    /// belongs to an aborted transaction whose write came late: all writes of a committed one had returned before
    /// it was committed, and were stamped before it was forgotten.
    ///
    /// A row of which too few versions were read is read again with more. What is visible at the second time was
    /// there at the first one, because it was committed before the transaction began.
    List<NavigableMap<Column, Bytes>> see(Table table, List<Dated> rows, Set<Column> columns) {
        List<NavigableMap<Column, Bytes>> seen = new ArrayList<>(Collections.nCopies(rows.size(), null));
        Map<Integer, Dated> open = new TreeMap<>();
        for (int index = 0; index < rows.size(); index++) {
            open.put(index, rows.get(index));
        }
        while (!open.isEmpty()) {
            learn(open.values());
            int versionsMax = 0;
            for (Iterator<Map.Entry<Integer, Dated>> each = open.entrySet().iterator(); each.hasNext(); ) {
                Map.Entry<Integer, Dated> entry = each.next();
                Dated dated = entry.getValue();
                NavigableMap<Column, Bytes> visible = mustBeReadAgain(dated) ? null : visible(dated);
                if (visible == null) {
                    versionsMax = Math.max(versionsMax, more(dated));
                } else {
                    seen.set(entry.getKey(), visible);
                    each.remove();
                }
            }
            readAgain(table, columns, open, versionsMax);
        }
        if (commits.size() + forgotten.size() > REMEMBERED_MAX) {
            commits.clear();
            forgotten.clear();
        }
        return seen;
    }

    private void readAgain(Table table, Set<Column> columns, Map<Integer, Dated> open, int versionsMax) {
        if (open.isEmpty()) {
            return;
        }
        List<Bytes> keys =
                open.values().stream().map(dated -> dated.row.key()).collect(Collectors.toUnmodifiableList());
        Iterator<Dated> again = read(table, keys, columns, versionsMax).iterator();
        open.replaceAll((index, dated) -> again.next());
    }

    private int more(Dated dated) {
        if (mustBeReadAgain(dated)) {
            return dated.versionsMax;
        }
        return dated.versionsMax < VERSIONS_SECOND ? VERSIONS_SECOND : Table.ALL_VERSIONS;
    }

    /// Returns the visible cells; `null` if that depends on versions, markers or commit timestamps that were not read.
    private NavigableMap<Column, Bytes> visible(Dated dated) {
        StoredRow row = dated.row;
        long from = fault == Fault.FEW_STAMPS ? 0 : stampsFrom(dated);
        NavigableMap<Column, Bytes> seen = new TreeMap<>();
        for (Map.Entry<Column, NavigableMap<Long, Bytes>> column :
                row.versions().entrySet()) {
            NavigableMap<Long, Bytes> versions = column.getValue();
            Bytes newest = newest(versions.tailMap(from, true), row);
            boolean isWhole = versions.size() < dated.versionsMax || fault == Fault.FEW_VERSIONS;
            if (newest != null) {
                seen.put(column.getKey(), newest);
            } else if (!isWhole || versions.firstKey() < from) {
                return null;
            }
        }
        return seen;
    }

    /// Returns the start timestamp from which on all markers and commit timestamps of the row were read.
    private static long stampsFrom(Dated dated) {
        StoredRow row = dated.row;
        if (row.pending().size() + row.commits().size() < dated.versionsMax) {
            return 0;
        }
        return Math.min(
                row.pending().isEmpty() ? Long.MAX_VALUE : row.pending().first(),
                row.commits().isEmpty() ? Long.MAX_VALUE : row.commits().firstKey());
    }

    private boolean mustBeReadAgain(Dated dated) {
        if (fault == Fault.NO_SECOND_READ) {
            return false;
        }
        for (long writer : dated.row.pending()) {
            if (forgotten.getOrDefault(writer, 0L) > dated.answers) {
                return true;
            }
        }
        return false;
    }

    private Bytes newest(NavigableMap<Long, Bytes> versions, StoredRow row) {
        Bytes newest = null;
        long newestCommit = 0;
        for (Map.Entry<Long, Bytes> version : versions.entrySet()) {
            long timestamp = version.getKey();
            long commit = row.pending().contains(timestamp)
                    ? commits.getOrDefault(timestamp, INVISIBLE)
                    : row.commit(timestamp);
            if (fault == Fault.START_FOR_COMMIT && commit != INVISIBLE) {
                commit = timestamp;
            }
            if (commit >= start.value()) {
                continue;
            }
            long rank = fault == Fault.LARGEST_START ? timestamp : commit;
            if (rank > newestCommit) {
                newest = version.getValue();
                newestCommit = rank;
            }
        }
        return newest;
    }
}
