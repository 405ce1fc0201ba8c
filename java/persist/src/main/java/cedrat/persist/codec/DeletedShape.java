package cedrat.persist.codec;

import cedrat.persist.StoreException;

/// A class of a store that the program has declared deleted: its objects are refused.
///
/// **Threads:** any.
public final class DeletedShape extends Shape {
    private final StoredClass definition;

    public DeletedShape(StoredClass definition) {
        this.definition = definition;
    }

    @Override
    public StoredClass definition() {
        return definition;
    }

    /// Returns the exception for an object, or a constant.
    public StoreException refused(String what) {
        return new StoreException(what + " is of the class " + definition.name()
                + ", which StoreOptions.deleteClass declares deleted: remove the reference with a program that has "
                + "the class, or add the class and remove the call");
    }

    @Override
    public void write(Object object, ObjectWriter out) {
        throw new AssertionError("the program has no objects of a deleted class");
    }

    @Override
    public Object create(ObjectBytes in) {
        throw refused("the object " + in.show());
    }

    @Override
    public Object fill(Object created, ObjectBytes in, Object[] references) {
        throw refused("the object " + in.show());
    }

    @Override
    public String step(Object object, int reference) {
        return "";
    }
}
