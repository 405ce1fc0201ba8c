package cedrat.persist.form;

import cedrat.persist.PersistenceRuntime.Converter;
import cedrat.persist.StoreException;
import cedrat.persist.codec.ObjectBytes;
import cedrat.persist.codec.ObjectWriter;

/// Objects of a class for which the program has a converter: a reference to what that has made of the object.
final class ConvertedForm extends Form {
    /// The beginning of its names, which end with that of the class.
    static final String PREFIX = "cedrat.Converted:";

    private final Class<?> type;
    private final Converter converter;

    ConvertedForm(Class<?> type, Converter converter) {
        super(PREFIX + type.getName());
        this.type = type;
        this.converter = converter;
    }

    @Override
    boolean mayChange() {
        return false;
    }

    @Override
    void write(Object object, ObjectWriter out) {
        Object stored;
        try {
            stored = converter.toStored().apply(object);
        } catch (RuntimeException e) {
            throw out.refuse("its converter has thrown " + e);
        }
        if (stored == null || stored.getClass() == object.getClass()) {
            throw out.refuse("its converter has returned " + (stored == null ? "null" : "an object of the same class")
                    + ": return an object that can be stored");
        }
        out.endData();
        out.reference(stored);
    }

    @Override
    Object fill(Object created, ObjectBytes in, Object[] references) {
        Object loaded;
        try {
            loaded = converter.fromStored().apply(references[0]);
        } catch (RuntimeException e) {
            throw new StoreException(
                    "cannot load an object of " + type.getName() + ", because its converter has thrown " + e, e);
        }
        if (!type.isInstance(loaded)) {
            throw new StoreException("cannot load an object of " + type.getName()
                    + ", because its converter has returned another one: return an object of that class");
        }
        return loaded;
    }

    @Override
    String step(Object object, int reference) {
        return "converted";
    }
}
