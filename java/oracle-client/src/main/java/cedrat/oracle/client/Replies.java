package cedrat.oracle.client;

/// Receives the answers to the requests of a [Pipeline], on its thread, each once and in any order. Each method
/// gets the tag that the request was made with. It may make requests, and must not block.
///
/// @param <T> tag of a request
public interface Replies<T> {
    /// A transaction has begun.
    void begun(T tag, long start);

    /// Reports the outcome of a transaction, after commit, abort, end or resolve: a commit timestamp, or one of the
    /// outcomes of [cedrat.oracle.protocol.Protocol] below 0.
    void decided(T tag, long start, long outcome);

    /// Reports the outcomes of the requested transactions, in their order. The array belongs to the listener.
    void outcomes(T tag, long[] outcomes);

    /// The number that was asked for: how many transactions were forgotten, or the low-water mark.
    void number(T tag, long number);

    /// There is no answer, and will be none.
    void failed(T tag, OracleException why);
}
