package cedrat.oracle.state;

/// Keeps pages of outcomes for which an oracle has no room in memory (O2).
///
/// What it keeps is needed for as long as the oracle is: an oracle is made again of what [Decisions] were
/// told, and then begins with an empty store. So nothing has to be durable here.
///
/// Whatever goes wrong is thrown, unchecked; the oracle is then of no use any more. For one thread at a time.
public interface PageStore {
    /// Keeps the first `length` bytes; returns their place, of which the store is asked later.
    long put(byte[] bytes, int length);

    /// Reads what was put at a place, as many bytes as were put, to where `bytes` begin.
    void get(long place, byte[] bytes, int length);

    /// Nobody will ask for what was put at a place any more.
    void free(long place, int length);
}
