package cedrat.oracle.state;

/// Keeps pages of outcomes that do not fit an oracle's memory.
///
/// Its content is needed for as long as the oracle runs: a new oracle is built from the logged [Decisions],
/// and begins with an empty store. So nothing has to be durable here.
///
/// A failure is thrown as an unchecked exception; the oracle cannot be used afterwards. For one thread at a
/// time.
public interface PageStore {
    /// Keeps the first `length` bytes; returns their place, of which the store is asked later.
    long put(byte[] bytes, int length);

    /// Reads what was put at a place, as many bytes as were put, to where `bytes` begin.
    void get(long place, byte[] bytes, int length);

    /// Frees a place: its content will not be read again.
    void free(long place, int length);
}
