package cedrat.oracle.tables;

/// Isolation level of a transaction.
public enum Isolation {
    /// It reads what was committed when it began, and aborts if something that it writes was committed since.
    /// Two such transactions may each write what the other has read (write skew).
    SNAPSHOT,
    /// It aborts also if something that it has read was committed since: transactions that are all so are as
    /// if one ran after the other. Scans can be checked of tables that are made for it ([Table#checksScans]),
    /// and are refused of others.
    SERIALISABLE
}
