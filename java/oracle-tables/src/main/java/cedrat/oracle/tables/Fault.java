package cedrat.oracle.tables;

/// Bugs that tests plant, to see that they are found.
enum Fault {
    NONE,
    /// A cleaner removes the rows of open transactions.
    CLEAN_OPEN,
    /// A reader takes the version with the largest start timestamp.
    LARGEST_START,
    /// A reader takes the newest few versions of a cell for all.
    FEW_VERSIONS,
    /// A reader takes a version whose marker it has not read for one without.
    FEW_STAMPS,
    /// A reader takes the start timestamp of a committed version for its commit timestamp.
    START_FOR_COMMIT,
    /// The oracle receives `cleaned` while a write may be in flight.
    CLEANED_IN_FLIGHT,
    /// A cleaner has transactions forgotten whose writes may still arrive.
    SWEEP_EARLY,
    /// A client uses tables that are bound to another oracle.
    IGNORE_BINDING,
    /// A client does not register the namespace of its rows.
    FORGET_NAMESPACES,
    /// A cleaner does not look at the marker when it changes the row.
    UNCHECKED_CLEANER,
    /// A reader takes what was forgotten for aborted without reading the row again.
    NO_SECOND_READ,
    /// A pruner removes what open transactions still read.
    PRUNE_ABOVE_THE_MARK,
    /// A pruner removes commit timestamps that open transactions still need.
    SETTLE_ABOVE_THE_MARK,
    /// A serialisable transaction does not say what it has read.
    FORGET_READS,
    /// A serialisable transaction does not say what it has scanned.
    FORGET_SCANS,
    /// A transaction does not say which keys it has written.
    FORGET_KEYS,
    /// A transaction does not compare its number of rows with the limit of a commit.
    FORGET_LIMIT,
    /// A scan counts what it does not return.
    LIMIT_BEFORE_VISIBILITY
}
