package cedrat.oracle.state;

/// Outcomes of about the newest [#COUNT] transactions that sweeps have forgotten. Of several whose start
/// timestamps have the same lowest bits, only the one that was swept last is here.
///
/// A client that was assumed dead may return after the sweep and ask for its own transaction. Its rows do
/// not show whether it has committed: another transaction may have written the same values. Nothing depends
/// on an outcome that is no longer here: it is then unknown.
///
/// For one thread at a time.
final class SweptOutcomes {
    static final int COUNT = 1 << 14;

    /// Allocated by the first sweep that forgets a transaction.
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
