package cedrat.persist.codec;

import cedrat.persist.PersistenceRuntime;
import cedrat.persist.PersistenceRuntime.FieldConverter;
import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;

/// The fields whose stored values the program converts, because their type was another one.
///
/// **Threads:** any.
public final class ConvertedFields {
    private final PersistenceRuntime.Settings settings;

    public ConvertedFields(PersistenceRuntime.Settings settings) {
        this.settings = settings;
    }

    /// Returns the function for a field that was stored with another type, or null: there is none.
    ///
    /// @param descriptor of the stored field
    /// @param stored     the class of the stored field as it is now, null of a primitive one and of a class that is
    // gone
    public Function<Object, Object> find(Field field, String descriptor, Class<?> stored) {
        FieldConverter converter = converter(field);
        if (converter == null || field.getType() == stored) {
            return null;
        }
        boolean isOfType = converter.stored() == stored
                || converter.stored().isPrimitive()
                        && converter.stored().descriptorString().equals(descriptor);
        return isOfType ? converter.function() : null;
    }

    /// Returns what to do about a field whose stored type does not fit.
    public String advice(Field field) {
        FieldConverter converter = converter(field);
        return converter == null
                ? ": keep the old type, give the field another name, or call StoreOptions.convertField"
                : ": StoreOptions.convertField converts it from "
                        + converter.stored().getTypeName() + " only; declare the stored type";
    }

    private FieldConverter converter(Field field) {
        return settings.fieldConverters()
                .getOrDefault(field.getDeclaringClass().getName(), Map.of())
                .get(field.getName());
    }

    /// Checks that the declarations name fields of the program.
    public void check(Function<String, Class<?>> classes, Set<String> problems) {
        settings.fieldConverters().forEach((owner, fields) -> {
            Class<?> type = classes.apply(owner);
            fields.forEach((name, converter) -> {
                Field found = type == null
                        ? null
                        : Arrays.stream(type.getDeclaredFields())
                                .filter(field -> field.getName().equals(name))
                                .findFirst()
                                .orElse(null);
                if (found == null) {
                    problems.add("StoreOptions.convertField names the field " + owner + "." + name
                            + ", which the program lacks: correct the name, or remove the call");
                } else if (found.getType() == converter.stored()) {
                    problems.add("StoreOptions.convertField converts " + owner + "." + name
                            + " from its present type: declare the type that it had when it was stored");
                }
            });
        });
    }
}
