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

    /// Says that the transactions that began at the first `count` of `starts` are cleaned up. Systems that
    /// need not know do nothing; [Load#cleaned] is the answer of those that do.
    default void cleaned(long[] starts, int count) {}

    /// Nothing more is asked for.
    @Override
    void close();
}
