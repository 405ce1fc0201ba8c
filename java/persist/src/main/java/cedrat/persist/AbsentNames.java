package cedrat.persist;

/// What is locked in place of names that are not there: whoever looks one up reads it, whoever makes one changes it
/// (J3.2). There is no limit to such names, so several share what is locked.
///
/// **Threads:** any.
final class AbsentNames {
    /// So that two who look for some and make others seldom wait for each other. A power of two.
    private static final int COUNT = 256;

    private final Object[] locked = new Object[COUNT];

    AbsentNames() {
        for (int i = 0; i < COUNT; i++) {
            locked[i] = new Object();
        }
    }

    Object of(String name) {
        int hash = name.hashCode();
        return locked[(hash ^ hash >>> 16) & COUNT - 1];
    }
}
