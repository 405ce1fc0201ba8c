package cedrat.persist.woven.narrowed.library;

import java.lang.reflect.Field;

/// Assigns to fields by reflection, as mappers do.
public final class Setter {
    private Setter() {}

    /// Assigns to a field.
    public static void set(Object object, String name, int value) throws ReflectiveOperationException {
        Field field = object.getClass().getField(name);
        field.setInt(object, value);
    }
}
