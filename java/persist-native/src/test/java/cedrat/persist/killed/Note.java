package cedrat.persist.killed;

/// What each version of the class `cedrat.persist.killed.Paper` can do. Versions have other fields beside, in
/// another order; a process has one of them.
public interface Note {
    /// What is written on it.
    int number();

    /// Where it leads.
    Object next();

    /// Writes on it.
    void write(int number, Object next);

    /// One with nothing on it, of the version that this process has.
    static Note make() {
        try {
            return (Note) Class.forName("cedrat.persist.killed.Paper")
                    .getDeclaredConstructor()
                    .newInstance();
        } catch (ReflectiveOperationException e) {
            throw new AssertionError("Paper is on no class path: see KillTest", e);
        }
    }
}
