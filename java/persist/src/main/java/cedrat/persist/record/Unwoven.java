package cedrat.persist.record;

import java.util.Set;
import java.util.concurrent.ConcurrentSkipListSet;

/// Code that should have barriers and has none, and what is refused because of that.
///
/// **Threads:** any.
public final class Unwoven {
    private static final int SHOWN_MAX = 5;

    private final boolean locksReads;
    /// Description of classes that could not be woven, or null.
    private volatile String failure;
    /// Code that reads fields without barriers.
    private final Set<String> unguarded = new ConcurrentSkipListSet<>();

    /// @param locksReads whether reads are woven so that they can lock
    Unwoven(boolean locksReads) {
        this.locksReads = locksReads;
    }

    /// A class could not be woven: no transaction begins any more.
    public void fail(String what) {
        failure = what;
    }

    /// Something reads fields without barriers: no store is opened.
    public void leaveUnguarded(String what) {
        // One more than are shown tells that there are others.
        if (unguarded.size() <= SHOWN_MAX) {
            unguarded.add(what);
        }
    }

    /// @throws IllegalStateException if a rollback would miss stores of a class
    void checkStores() {
        if (failure != null) {
            throw new IllegalStateException(
                    "cannot begin a transaction, because a rollback would miss changes: " + failure);
        }
    }

    public boolean guardsReads() {
        return unguarded.isEmpty();
    }

    /// @throws IllegalStateException if something would see null where a reference is not loaded yet
    public void checkReads() {
        if (failure != null) {
            throw new IllegalStateException(
                    "cannot open a store, because code without read barriers sees null where an "
                            + "object is not loaded: " + failure);
        }
        if (!unguarded.isEmpty()) {
            String some = String.join(", ", unguarded.stream().limit(SHOWN_MAX).toList());
            throw new IllegalStateException(
                    "cannot open a store, because code without read barriers sees null where an "
                            + "object is not loaded. These were loaded before the agent: " + some
                            + (unguarded.size() > SHOWN_MAX ? ", and others" : "")
                            + ". Start Java with -javaagent:persist.jar, before other agents. Exclude classes that use no "
                            + "persistent object with its argument: -javaagent:persist.jar=exclude=PACKAGE:PACKAGE");
        }
    }

    /// @throws IllegalStateException if reads are woven so that they lock nothing
    public void checkReadLocks() {
        if (!locksReads) {
            throw new IllegalStateException(
                    "cannot open a store with Isolation.SERIALISABLE, the default, because the agent was started with "
                            + "reads=unlocked, so that reads take no locks: remove that argument, or choose "
                            + "StoreOptions.isolation(Isolation.READ_UNCOMMITTED)");
        }
    }
}
