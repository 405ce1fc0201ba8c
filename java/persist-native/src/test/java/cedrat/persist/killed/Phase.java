package cedrat.persist.killed;

import java.util.Locale;

/// Work of a process when it is killed.
enum Phase {
    /// A transaction: its record is appended, and awaited.
    APPEND,
    /// The store is closed: what is committed is written to its pages, and there is a checkpoint.
    FLUSH,
    /// A branch votes: its prepare record is appended, and awaited.
    PREPARE,
    /// A branch has voted, and has not heard of the outcome. There the process waits to be killed, before the
    /// outcome is written down or behind that, so that the branch is in doubt for certain.
    PREPARED,
    /// A branch gets its outcome.
    OUTCOME,
    /// Unreachable objects are removed, while transactions go on.
    COLLECTION,
    /// A transaction that has hardly room for what it loads: objects are unloaded, and read again.
    LETTING_GO,
    /// A store is opened by a program with another version of a class, and used for the first time.
    CLASS_CHANGE;

    /// Whether transactions are branches of others, over several stores.
    boolean hasBranches() {
        return this == PREPARE || this == PREPARED || this == OUTCOME;
    }

    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT).replace('_', ' ');
    }
}
