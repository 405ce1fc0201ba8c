package cedrat.oracle.state;

/// Outcomes of transactions that sweeps had forgotten: of two whose start timestamps have the same lowest bits the one
/// that was swept later, so about the newest [#COUNT] of them.
///
/// A client that was taken for dead may come back after the sweep and ask for its own transaction. It does not
/// follow from the rows whether it has committed: another transaction may have written the same. Nothing depends
/// on an outcome that is not here any more; it is unknown, then.
///
/// For one thread at a time.
final class SweptOutcomes {
    static final int COUNT = 1 << 14;

    /// Made by the first sweep that forgets.
    private long[] starts;
    private long[] states;

    void put(long start, long state) {
        if (starts == null) {
            starts = new long[COUNT];
            states = new long[COUNT];
        }
        starts[slot(start)] = start;
        states[slot(start)] = state;
    }

    /// Returns the state of a transaction; [Transactions#NOTHING] if it is not known.
    long state(long start) {
        return starts != null && starts[slot(start)] == start ? states[slot(start)] : Transactions.NOTHING;
    }

    /// Returns its memory.
    long bytes() {
        return starts == null ? 0 : 2L * Long.BYTES * COUNT;
    }

    private static int slot(long start) {
        return (int) start & COUNT - 1;
    }
}
