package cedrat.persist.boot;

/// The persistent side of an object: what its store knows of it. An object that has none is not persistent.
///
/// **Threads:** as the store says.
public abstract class Identity {
    /// For stores.
    protected Identity() {}
}
