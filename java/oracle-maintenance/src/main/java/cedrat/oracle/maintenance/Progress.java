package cedrat.oracle.maintenance;

/// Receives the results of passes. Any thread may call.
interface Progress {
    /// A pass has come to its end; it may have left tables out.
    void passed(Job job, String namespace, Pass pass);

    /// A pass has failed.
    void failed(Job job, String namespace);
}
