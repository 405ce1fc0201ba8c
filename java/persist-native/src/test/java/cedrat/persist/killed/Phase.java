package cedrat.persist.killed;

/// What a process is doing when it is killed.
enum Phase {
    /// A transaction: its record is appended, and awaited.
    COMMIT,
    /// The store is closed: what is committed is written to its pages, and there is a checkpoint.
    FLUSH,
    /// What nobody reaches is removed, while transactions go on.
    COLLECTION,
    /// A transaction that has hardly room for what it loads: objects are let go of, and read again.
    LETTING_GO,
    /// A store is opened by a program with another version of a class, and used for the first time.
    CLASS_CHANGE
}
