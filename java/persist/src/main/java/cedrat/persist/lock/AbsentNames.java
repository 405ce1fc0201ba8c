package cedrat.persist.lock;

/// Lock objects in place of names that do not exist: a look-up locks for reading, a new name for writing.
/// There is no limit to such names, so several share a lock object.
///
/// **Threads:** any.
public final class AbsentNames {
    /// Number of lock objects, so that transactions with different names seldom wait for each other. A power of two.
    private static final int COUNT = 256;

    private final Object[] locked = new Object[COUNT];

    public AbsentNames() {
        for (int i = 0; i < COUNT; i++) {
            locked[i] = new Object();
        }
    }

    public Object of(String name) {
        int hash = name.hashCode();
        return locked[(hash ^ hash >>> 16) & COUNT - 1];
    }
}
