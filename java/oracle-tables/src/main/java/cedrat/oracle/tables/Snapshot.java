package cedrat.oracle.tables;

import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.StartTimestamp;
import java.util.Collection;
import java.util.HashMap;
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
/// have the same order; but that depends on ids that clients choose, and reading does not rely on it.
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

    /// A row that was read when the oracle had given so many answers.
    static final class Dated {
        final StoredRow row;
        final long answers;

        Dated(StoredRow row, long answers) {
            this.row = row;
            this.answers = answers;
        }
    }

    /// Dates rows that are about to be read.
    long now() {
        return answers;
    }

    /// Returns the visible cells of a row: stored values, also deleted ones.
    NavigableMap<Column, Bytes> read(Table table, Bytes row, Set<Column> columns) {
        Dated dated = new Dated(table.read(row, columns, start.value()), answers);
        return see(table, dated, columns);
    }

    /// The same of several rows, for which store and oracle are asked once each.
    List<NavigableMap<Column, Bytes>> read(Table table, List<Bytes> rows, Set<Column> columns) {
        long before = answers;
        List<Dated> all = table.read(rows, columns, start.value()).stream()
                .map(row -> new Dated(row, before))
                .collect(Collectors.toUnmodifiableList());
        learn(all);
        return all.stream().map(dated -> see(table, dated, columns)).collect(Collectors.toUnmodifiableList());
    }

    /// Asks the oracle for all transactions that some rows need, at once.
    void learn(Collection<Dated> rows) {
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

    /// Returns the visible cells of a row that was read.
    ///
    /// A transaction that the oracle has forgotten was cleaned up. If the row was read before the oracle's answer,
    /// the cleaning may have happened in between, and the row is read again. If the marker is still there, it
    /// belongs to an aborted transaction whose write came late: all writes of a committed one had returned before
    /// it was committed, and were stamped before it was forgotten.
    NavigableMap<Column, Bytes> see(Table table, Dated first, Set<Column> columns) {
        Dated dated = first;
        learn(List.of(dated));
        while (mustBeReadAgain(dated)) {
            dated = new Dated(table.read(dated.row.key(), columns, start.value()), answers);
            learn(List.of(dated));
        }
        NavigableMap<Column, Bytes> seen = new TreeMap<>();
        for (Map.Entry<Column, NavigableMap<Long, Bytes>> column :
                dated.row.versions().entrySet()) {
            Bytes newest = newest(column.getValue(), dated.row);
            if (newest != null) {
                seen.put(column.getKey(), newest);
            }
        }
        if (commits.size() + forgotten.size() > REMEMBERED_MAX) {
            commits.clear();
            forgotten.clear();
        }
        return seen;
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
