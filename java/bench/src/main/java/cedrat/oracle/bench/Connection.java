package cedrat.oracle.bench;

/// A connection to a system that is measured. It takes requests, and tells its [Load] the answers; both on
/// one thread.
public interface Connection extends AutoCloseable {
    /// Runs something on the connection's thread. **Threads:** any may call.
    void execute(Runnable work);

    /// Asks for a start timestamp; [Load#begun] is the answer.
    void begin(int worker);

    /// Asks to commit the first `count` of these rows; [Load#decided] is the answer.
    void commit(int worker, long start, long[] rows, int count);

    /// Reports that a transaction is cleaned up. Systems that need not know do nothing.
    default void cleaned(long start) {}

    /// Returns the number of frames that were sent for requests so far; 0 for systems that do not count them.
    default long frames() {
        return 0;
    }

    /// Nothing more is asked for.
    @Override
    void close();
}
