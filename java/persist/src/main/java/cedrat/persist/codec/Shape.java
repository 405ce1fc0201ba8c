package cedrat.persist.codec;

/// How the objects of a class become bytes, and come back.
///
/// **Threads:** any.
public abstract class Shape {
    /// The class's number in the store, or 0: it has none yet.
    private volatile int number;

    /// The number that a running commit defines it by, or 0. Under the schema's lock of definitions.
    private int proposed;

    public int number() {
        return number;
    }

    public void number(int number) {
        this.number = number;
    }

    public int proposed() {
        return proposed;
    }

    public void proposed(int number) {
        proposed = number;
    }

    /// Returns the definition of the class in the store.
    public abstract StoredClass definition();

    /// Whether its objects do not change, and lead to no others.
    public boolean isConstant() {
        return false;
    }

    /// Whether anything can be stored to an object itself, and not only to what it leads to.
    public boolean mayChange(Object object) {
        return true;
    }

    /// Writes an object: its data, and the objects that it refers to.
    public abstract void write(Object object, ObjectWriter out);

    /// The object, empty, before what it refers to is there. Null if it cannot be without that.
    public abstract Object create(ObjectBytes in);

    /// Fills what [#create] has made, or makes the object.
    ///
    /// @param references all that it refers to; what leads back to it may be empty yet
    public abstract Object fill(Object created, ObjectBytes in, Object[] references);

    /// How one gets to a reference of an object, as a program would write it.
    public abstract String step(Object object, int reference);

    /// As [#step], of an object's bytes in the store, as far as these tell.
    public String storedStep(int reference) {
        return step(null, reference);
    }

    /// If a reference is that of a map to a value, the number of the one to its key; otherwise -1.
    public int storedKey(int reference) {
        return -1;
    }
}
