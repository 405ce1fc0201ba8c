package cedrat.persist.record;

import cedrat.persist.lock.Locks;

/// Objects that a transaction makes parts of persistent collections, until it ends.
///
/// **Threads:** one at a time.
public interface AddedParts {
    /// Returns the number of added parts.
    int size();

    /// Whether there is anything that [#end] would say.
    boolean areAny();

    /// The transaction ends, and has restored what it takes back.
    void end(boolean isCommitted, Locks.Owner by, long when);

    /// Takes back the parts added since there were `mark` of which nothing was stored.
    ///
    /// @param when in the order of what transactions take back
    void takeBack(int mark, Locks.Owner by, long when);
}
