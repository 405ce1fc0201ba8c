package cedrat.persist.killed;

/// Operations of each version of the class `cedrat.persist.killed.Paper`. Versions have further fields, in
/// another order; a process has one of them.
public interface Note {
    /// Returns the number on the note.
    int number();

    /// Returns the object that the note refers to.
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
