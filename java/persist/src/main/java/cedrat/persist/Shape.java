package cedrat.persist;

/// How the objects of a class become bytes, and come back.
///
/// **Threads:** any.
abstract class Shape {
    /// The class's number in the store, or 0: it has none yet.
    private volatile int number;

    int number() {
        return number;
    }

    void number(int number) {
        this.number = number;
    }

    /// Returns the definition of the class in the store.
    abstract StoredClass definition();

    /// Whether its objects do not change, and lead to no others.
    boolean isConstant() {
        return false;
    }

    /// Whether anything can be stored to an object itself, and not only to what it leads to.
    boolean mayChange(Object object) {
        return true;
    }

    /// Writes an object: its data, and the objects that it refers to.
    abstract void write(Object object, ObjectWriter out);

    /// The object, empty, before what it refers to is there. Null if it cannot be without that.
    abstract Object create(ObjectBytes in);

    /// Fills what [#create] has made, or makes the object.
    ///
    /// @param references all that it refers to; what leads back to it may be empty yet
    abstract Object fill(Object created, ObjectBytes in, Object[] references);

    /// How one gets to a reference of an object, as a program would write it.
    abstract String step(Object object, int reference);

    /// As [#step], of an object's bytes in the store, as far as these tell.
    String storedStep(int reference) {
        return step(null, reference);
    }

    /// If a reference is that of a map to a value, the number of the one to its key; otherwise -1.
    int storedKey(int reference) {
        return -1;
    }
}
