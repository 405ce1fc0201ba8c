package cedrat.oracle.state;

/// Lifetime of a transaction that has committed and written rows.
///
/// @param start its start timestamp, 1 or more
/// @param commit its commit timestamp, above the start
public record Lifetime(long start, long commit) {
    /// Checks it.
    public Lifetime {
        if (start <= 0 || commit <= start) {
            throw new IllegalArgumentException(
                    "invalid lifetime of a transaction: started at " + start + ", committed at " + commit);
        }
    }

    /// Returns the number of timestamps that were given out in it.
    public long length() {
        return commit - start;
    }
}
