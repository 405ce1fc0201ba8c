package cedrat.oracle.tables;

import cedrat.oracle.client.AbortReason;
import cedrat.oracle.client.CommitTimestamp;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.OracleException;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.RefusedException;
import cedrat.oracle.client.StartTimestamp;
import cedrat.oracle.client.UnavailableException;
import cedrat.oracle.protocol.CommitKeys;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Collectors;

/// A transaction over several tables (ReTSO, §2.2).
///
/// ```text
/// Open ──commit──▶ Committed
///  │ └───abort, conflict, failed write──▶ Aborted
///  └─────commit, no answer──▶ Unknown ──resolve──▶ Committed or Aborted
/// ```
///
/// It reads the data that was committed when it began, and its own writes. Until the commit, writes stay in memory,
/// or in a temporary file if they exceed the buffer ([TransactionManager.Options#writeBufferBytes]). So an abort
/// before the commit leaves no trace in the store. One read of a row shows all writes of the transaction there.
///
/// - W1  A row is written once, by one mutation: all columns and the marker.
/// - W2  The oracle is asked to commit when all writes have returned, and none has failed.
/// - W3  The oracle receives `cleaned` when no marker is left and no write is in flight, or of unknown outcome and
///   may still arrive ([Tables#writesLast]). Otherwise it would forget a transaction of which a row may still
///   appear, or needs its outcome.
/// - W4  After the outcome, rows get a commit timestamp, which is true whenever it arrives. Versions are erased only
///   where the marker still is: another client may have cleaned the row.
///
/// Rows are cleaned after the commit, by [TransactionManager.Options#cleanUp], those of several transactions together.
/// A failure of this clean-up does no harm: readers ask the oracle, and the manager tries it again
/// ([TransactionManager#cleanUpsPending]).
///
/// Its methods block. There are none with futures: the next read or write of a transaction depends on its
/// previous reads, and a waiting virtual thread costs no more than a future does, and keeps its stack.
///
/// **Threads:** one at a time.
///
/// **Failure:** reads throw [TableException] if the store fails, and [OracleException] if the oracle does;
/// the transaction stays open, and they may be called again. Unless stated otherwise, all methods throw
/// [IllegalStateException] when the transaction has ended.
public final class Transaction implements AutoCloseable {
    /// How far a transaction has got.
    public enum State {
        /// It reads and writes.
        OPEN,
        /// It has committed.
        COMMITTED,
        /// It has aborted: nothing of it was kept.
        ABORTED,
        /// It has ended, and the oracle could not say how.
        UNKNOWN
    }

    private final TransactionManager manager;
    private final OracleClient oracle;
    private final StartTimestamp start;
    private final Isolation isolation;
    private final Snapshot snapshot;
    private final Fault fault;

    private final Writes writes;
    /// Ids of the rows that were read, as the oracle knows them.
    private final Set<Long> reads = new HashSet<>();
    /// Scans whose ranges are sent to the oracle.
    private final List<Rows> scans = new ArrayList<>();
    /// Their ranges, and whole rows that were read where cells conflict.
    private final ScannedRanges scanned = new ScannedRanges();
    private State state = State.OPEN;
    private CommitTimestamp commit;
    /// A write may have an effect later, or its effect is unknown (W3).
    private boolean isInDoubt;
    /// Some row may be in the store.
    private boolean hasWritten;
    /// Writes that the store has refused: of these nothing is there, and nothing has to be cleaned.
    private final Set<Writes.RowWrite> refused = ConcurrentHashMap.newKeySet();
    /// Finds the outcome in the background; `null` if no answer has been lost.
    private CleanUp unresolved;

    Transaction(TransactionManager manager, StartTimestamp start, Isolation isolation) {
        this.manager = manager;
        this.oracle = manager.oracle();
        this.start = start;
        this.isolation = isolation;
        this.fault = manager.fault();
        snapshot = new Snapshot(oracle, start, fault);
        writes = new Writes(
                manager.options().writeBufferBytes(), manager.options().spillDirectory(), this::requireCommittable);
    }

    /// When it began; its name.
    public StartTimestamp start() {
        return start;
    }

    /// Returns its isolation level.
    public Isolation isolation() {
        return isolation;
    }

    /// How far it has got. Does not throw when it has ended.
    public State state() {
        return state;
    }

    // ---- reads
    // ------------------------------------------------------------------------------------------------------

    /// The value of a cell.
    public Optional<Bytes> get(Table table, Bytes row, Column column) {
        return get(table, row, Set.of(column)).get(column);
    }

    /// A whole row; empty if there is none.
    ///
    /// @throws UnsupportedOperationException from a serialisable transaction, of a table in which cells
    ///     conflict and scans are not checked: the oracle cannot check for columns that other transactions may
    ///     have added. Name the columns
    public Row get(Table table, Bytes row) {
        return get(table, row, Set.of());
    }

    /// Some columns of a row; with none named, as [#get(Table, Bytes)].
    public Row get(Table table, Bytes row, Set<Column> columns) {
        requireOpen();
        noteRead(table, row, columns);
        return row(table, row, columns, snapshot.read(table, row, columns));
    }

    /// Some columns of several rows, in the order of `rows`; with no column named, whole rows. The store is asked for
    /// all at once.
    ///
    /// @throws UnsupportedOperationException as [#get(Table, Bytes)]
    public List<Row> get(Table table, List<Bytes> rows, Set<Column> columns) {
        requireOpen();
        rows.forEach(row -> noteRead(table, row, columns));
        List<NavigableMap<Column, Bytes>> seen = snapshot.read(table, rows, columns);
        List<Row> all = new ArrayList<>();
        for (int index = 0; index < rows.size(); index++) {
            all.add(row(table, rows.get(index), columns, seen.get(index)));
        }
        return all;
    }

    /// Returns a row as it was seen, with the own writes of these columns.
    private Row row(Table table, Bytes row, Set<Column> columns, NavigableMap<Column, Bytes> seen) {
        writes.of(table, row).forEach((column, value) -> {
            if (columns.isEmpty() || columns.contains(column)) {
                seen.put(column, value);
            }
        });
        return new Row(row, Rows.values(seen));
    }

    /// Rows in the order of their keys, or in the opposite one. What is written after this is not seen by it.
    ///
    /// @throws UnsupportedOperationException from a serialisable transaction, of a table whose scans are not
    ///     checked: a scan also reads that there is no row in between ([Table#checksScans])
    public Rows scan(Table table, Scan scan) {
        requireOpen();
        if (isolation == Isolation.SERIALISABLE && !table.checksScans()) {
            throw new UnsupportedOperationException("a serialisable transaction cannot scan table " + table.name()
                    + ", whose scans are not checked: create the table with checked scans, read its rows one by "
                    + "one, or use snapshot isolation");
        }
        Rows rows = new Rows(
                table,
                scan,
                snapshot,
                snapshot.scan(table, scan),
                writes.in(table, scan.range()),
                () -> state == State.OPEN,
                fault);
        if (isolation == Isolation.SERIALISABLE && fault != Fault.FORGET_SCANS) {
            scans.add(rows);
        }
        return rows;
    }

    private void noteRead(Table table, Bytes row, Set<Column> columns) {
        if (isolation == Isolation.SNAPSHOT || fault == Fault.FORGET_READS) {
            return;
        }
        byte[] name = Bytes.of(table.name()).raw();
        if (table.granularity() == Granularity.ROW) {
            reads.add(Granularity.ROW.id(name, row, null));
            return;
        }
        if (columns.isEmpty()) {
            if (!table.checksScans()) {
                throw new UnsupportedOperationException("a serialisable transaction cannot read whole rows of table "
                        + table.name() + ", where cells conflict and scans are not checked: name the columns to read");
            }
            scanned.add(table, row);
        }
        columns.forEach(column -> reads.add(Granularity.CELL.id(name, row, column)));
    }

    // ---- writes
    // -----------------------------------------------------------------------------------------------------

    /// Writes a cell. Others see it when the transaction has committed.
    ///
    /// @throws RefusedException if one commit cannot have so many rows. Nothing was written, and the transaction
    ///     stays open. All methods that write throw this exception
    /// @throws TableException if the writes exceed the buffer, and the temporary file cannot be written. Nothing
    ///     was written, and the transaction stays open
    public void put(Table table, Bytes row, Column column, Bytes value) {
        requireOpen();
        writes.put(table, row, column, Values.stored(value));
    }

    /// Deletes a cell; it conflicts as a write does.
    public void delete(Table table, Bytes row, Column column) {
        requireOpen();
        writes.put(table, row, column, Values.DELETED);
    }

    /// Deletes the cells of a row that this transaction sees: it reads them first. Where cells conflict, a
    /// column that another adds meanwhile stays.
    ///
    /// @throws UnsupportedOperationException as [#get(Table, Bytes)]
    public void delete(Table table, Bytes row) {
        Map<Column, Bytes> deleted = new TreeMap<>();
        get(table, row).cells().keySet().forEach(column -> deleted.put(column, Values.DELETED));
        // Also columns that no other transaction has seen.
        writes.columns(table, row).forEach(column -> deleted.put(column, Values.DELETED));
        writes.put(table, row, deleted);
    }

    /// Returns the present point, to which [#rollBackTo] returns.
    public Savepoint savepoint() {
        requireOpen();
        return writes.savepoint();
    }

    /// Forgets the writes since a savepoint. Later savepoints are given up; this one can be used again. What was read
    /// since still counts for a serialisable transaction.
    ///
    /// @throws IllegalArgumentException if the savepoint was given up, or is of another transaction
    /// @throws TableException if the temporary file cannot be read or written; the transaction has aborted, as
    ///     after an error
    public void rollBackTo(Savepoint savepoint) {
        requireOpen();
        writes.require(savepoint);
        try {
            writes.rollBackTo(savepoint);
        } catch (RuntimeException | Error halfWay) {
            abort();
            throw halfWay;
        }
    }

    // ---- the end
    // ----------------------------------------------------------------------------------------------------

    /// Commits. Transactions that begin after this has returned see what it wrote. One that wrote nothing
    /// commits when it began.
    ///
    /// @return when
    /// @throws AbortedException if it has aborted; nothing was kept, run it again
    /// @throws OutcomeUnknownException if the oracle was not to be reached: [#resolve] tells later
    /// @throws TableException if a write has failed; the transaction has aborted
    /// @throws RefusedException if it has written and read too many rows for one commit. The transaction stays
    ///     open. If a server that was connected later has refused it, the transaction has aborted
    /// @throws IllegalArgumentException if a key is too long for a table whose scans are checked; the
    ///     transaction is open still
    public CommitTimestamp commit() {
        requireOpen();
        if (writes.isEmpty()) {
            writes.close();
            return decided(ask(() -> oracle.end(start)));
        }
        CommitKeys keys = keys();
        requireCommittable(writes.units() + reads.size(), keys.length());
        try {
            write();
        } finally {
            writes.close(); // the rows are in the store, or the transaction has aborted
        }
        long[] ids = writes.ids();
        long[] read = reads.stream().mapToLong(Long::longValue).toArray();
        Outcome outcome;
        try {
            outcome = ask(() -> oracle.commit(start, ids, read, keys));
        } catch (RefusedException refused) {
            rollBack(refused);
            throw refused;
        }
        return decided(outcome);
    }

    private void requireCommittable(long rows, long keyBytes) {
        if (fault != Fault.FORGET_LIMIT) {
            oracle.requireCommittable(rows, keyBytes);
        }
    }

    /// Returns the keys that the oracle gets of tables whose scans are checked.
    private CommitKeys keys() {
        CommitKeys keys = new CommitKeys();
        if (fault != Fault.FORGET_KEYS) {
            writes.addKeysTo(keys);
        }
        for (Rows rows : scans) {
            KeyRange looked = rows.looked();
            if (looked != null) {
                scanned.add(rows.table(), looked);
            }
        }
        scanned.addTo(keys);
        return keys;
    }

    /// Writes the rows: the first half of a commit (W1).
    void write() {
        hasWritten = true;
        ConcurrentLinkedQueue<RuntimeException> all = new ConcurrentLinkedQueue<>();
        List<List<Writes.RowWrite>> groups = Calls.groups(writes.rows(), write -> write.table, Writes.RowWrite::bytes);
        all.addAll(manager.calls().forEach(groups, manager.callsMax(), group -> all.addAll(write(group))));
        List<RuntimeException> failures = List.copyOf(all);
        if (failures.isEmpty()) {
            return;
        }
        for (RuntimeException failure : failures) {
            isInDoubt |= !(failure instanceof TableException)
                    || ((TableException) failure).effect() == TableException.Effect.UNKNOWN;
        }
        RuntimeException first = failures.get(0);
        failures.stream().skip(1).forEach(first::addSuppressed);
        rollBack(first);
        throw first;
    }

    /// Writes rows of one table, and returns what has failed.
    private Collection<TableException> write(List<Writes.RowWrite> group) {
        Map<Bytes, Mutation> changes = new LinkedHashMap<>();
        group.forEach(write -> changes.put(write.row, Mutations.write(start.value(), write.cells())));
        Map<Bytes, TableException> failures = group.get(0).table.mutate(changes);
        for (Writes.RowWrite write : group) {
            TableException failure = failures.get(write.row);
            if (failure != null && failure.effect() == TableException.Effect.NONE) {
                refused.add(write);
            }
        }
        return failures.values();
    }

    /// Resolves the outcome after an [OutcomeUnknownException]. A transaction that is still undecided aborts: a
    /// commit in flight then comes too late.
    ///
    /// @return [State#COMMITTED] or [State#ABORTED]
    /// @throws OutcomeUnknownException if the outcome is still unknown
    /// @throws IllegalStateException if the transaction is open
    public State resolve() {
        if (state == State.OPEN) {
            throw new IllegalStateException("transaction " + start.value() + " is open: commit or abort it first");
        }
        if (state == State.UNKNOWN) {
            try {
                decided(outcomeInBackground().orElseGet(() -> ask(this::resolveOnce)));
            } catch (AbortedException answer) {
                assert state == State.ABORTED;
            }
        }
        return state;
    }

    /// Aborts. Does nothing if it has aborted already. Where an error, such as a lack of memory, was thrown
    /// out of a commit, it may have committed: [#state] tells.
    ///
    /// @throws IllegalStateException if it has ended otherwise
    public void abort() {
        if (state == State.ABORTED) {
            return;
        }
        requireOpen();
        writes.close();
        if (!hasWritten) { // there is nothing to be cleaned, nor to be asked about
            state = State.ABORTED;
            oracle.endAsync(start);
            return;
        }
        // Something that neither the store nor the oracle throws has ended a commit half-way.
        isInDoubt = true;
        state = State.UNKNOWN;
        Outcome outcome;
        try {
            outcome = oracle.abort(start);
        } catch (OracleException unreachable) {
            resolveInBackground();
            throw unreachable;
        }
        if (end(outcome)) {
            manager.cleanUp(leftOver(outcome));
        } else {
            requireAbortInRows();
        }
    }

    /// Takes over a known outcome; returns `false` if it is none.
    private boolean end(Outcome outcome) {
        switch (outcome.kind()) {
            case COMMITTED:
                state = State.COMMITTED;
                commit = outcome.commitTimestamp();
                return true;
            case ABORTED:
                state = State.ABORTED;
                return true;
            default:
                return false;
        }
    }

    /// Aborts if it is open. Does not throw when it has ended.
    @Override
    public void close() {
        if (state == State.OPEN) {
            abort();
        }
    }

    private interface Question {
        Outcome answer();
    }

    /// The client resends a commit that gets no answer, until its patience ends. Then the request that *decides*
    /// is sent once; the outcome is never guessed.
    private Outcome ask(Question question) {
        try {
            return question.answer();
        } catch (UnavailableException lost) {
            state = State.UNKNOWN;
            try {
                return resolveOnce();
            } catch (OracleException again) {
                lost.addSuppressed(again);
                resolveInBackground();
                throw new OutcomeUnknownException(start, lost);
            }
        } catch (RefusedException refused) {
            throw refused;
        } catch (OracleException closed) {
            state = State.UNKNOWN;
            throw new OutcomeUnknownException(start, closed);
        }
    }

    /// Requests the outcome, which this decides if nothing else has. The oracle keeps none of a transaction that wrote
    /// nothing, which may end twice.
    private Outcome resolveOnce() {
        return writes.isEmpty() ? oracle.end(start) : oracle.resolve(start);
    }

    /// Nothing is to be kept of a transaction that wrote nothing, and its client ends it.
    private void resolveInBackground() {
        if (unresolved == null && !writes.isEmpty()) {
            unresolved = leftOver(null);
            manager.later(unresolved);
        }
    }

    private Optional<Outcome> outcomeInBackground() {
        return Optional.ofNullable(unresolved).map(CleanUp::outcome);
    }

    private CommitTimestamp decided(Outcome answer) {
        // The oracle may have forgotten it since, after a clean-up in the background.
        Outcome outcome =
                answer.kind() == Outcome.Kind.UNKNOWN ? outcomeInBackground().orElse(answer) : answer;
        if (!end(outcome)) {
            state = State.UNKNOWN;
            requireAbortInRows();
            throw new AbortedException(start, isolation, AbortReason.UNKNOWN);
        }
        if (!writes.isEmpty()) {
            manager.cleanUp(leftOver(outcome));
        }
        if (state == State.ABORTED) {
            throw new AbortedException(start, isolation, outcome.abortReason());
        }
        return commit;
    }

    /// Reads the rows of a transaction that the oracle has forgotten, because it has assumed this client
    /// dead: only they may still show that the transaction has aborted. Returns if they do.
    ///
    /// @throws OutcomeUnknownException if they do not
    private void requireAbortInRows() {
        boolean isAborted;
        try {
            isAborted = OwnRows.showAbort(written(), start.value());
        } catch (TableException unreadable) {
            throw new OutcomeUnknownException(start, unreadable);
        }
        if (!isAborted) {
            throw new OutcomeUnknownException(start);
        }
        state = State.ABORTED;
        manager.cleanUp(leftOver(Outcome.unknown()));
    }

    /// Returns the rows that may be in the store.
    private List<Writes.RowWrite> written() {
        return writes.rows().stream()
                .filter(write -> !refused.contains(write))
                .collect(Collectors.toUnmodifiableList());
    }

    private void rollBack(RuntimeException because) {
        state = State.ABORTED;
        try {
            // Decided first: a row that is removed must not commit.
            Outcome outcome = oracle.abort(start);
            if (outcome.kind() == Outcome.Kind.ABORTED) {
                manager.cleanUp(leftOver(outcome));
            }
        } catch (OracleException unreachable) {
            because.addSuppressed(unreachable);
            manager.later(leftOver(null));
        }
    }

    private CleanUp leftOver(Outcome outcome) {
        return new CleanUp(start, written(), isInDoubt, manager.nowNanos(), outcome);
    }

    private void requireOpen() {
        if (state != State.OPEN) {
            throw new IllegalStateException(
                    "transaction " + start.value() + " has ended (" + state + "): begin another one");
        }
    }

    @Override
    public String toString() {
        return "transaction " + start.value() + ", " + state;
    }
}
