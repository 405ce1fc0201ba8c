package cedrat.persist.xa;

/// Where a transfer stops, and is killed or goes on.
enum Point {
    /// It does not.
    NONE,
    /// Cedrat has prepared, PostgreSQL has not.
    ONE_HAS_PREPARED,
    /// Both have prepared, and the decision is not in the transaction manager's log.
    BEFORE_THE_DECISION,
    /// The decision is in the log, and no store knows it.
    AFTER_THE_DECISION,
    /// Cedrat has committed, PostgreSQL does not know the decision.
    ONE_HAS_COMMITTED,
    /// PostgreSQL refuses to prepare.
    ONE_REFUSES
}
