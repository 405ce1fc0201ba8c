package cedrat.oracle.log;

/// Whether a log has to exist when it is opened. An oracle over a log that was created by mistake, because its path was
/// mistyped or the log was lost, issues timestamps again that its clients and tables know.
public enum OpenMode {
    /// It exists and has an entry; nothing is created.
    EXISTING,
    /// It has no entry, and is created if it is missing.
    CREATE_NEW,
    /// It is created if it is missing.
    CREATE
}
