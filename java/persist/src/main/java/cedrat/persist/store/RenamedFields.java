package cedrat.persist.store;

import cedrat.persist.PersistenceRuntime;
import cedrat.persist.codec.StoredClass;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;

/// Whether what a program says of renamed fields means anything in a store. A name that is not written as the store
/// has it does nothing: the field has no value when an object is loaded, and the next commit of that object stores
/// none, for good.
///
/// That a declaration does nothing is no mistake by itself, because the program keeps it for stores that are older
/// or younger. It is one where fields would be dropped that it may have been meant for.
///
/// **Threads:** one.
final class RenamedFields {
    private record Name(String className, String field) {}

    /// A field that the objects of a class have in the store, and not in the program.
    ///
    /// @param type the objects' class
    /// @param name the class that declares it, as that is called now, and its name in the store
    private record Dropped(Class<?> type, Name name) {}

    private final PersistenceRuntime.Settings settings;
    /// Fields of the store, with the present names of their classes.
    private final Set<Name> stored = new HashSet<>();
    /// Fields of the program that a field of the store leads to.
    private final Set<Name> found = new HashSet<>();

    private final Set<Dropped> dropped = new LinkedHashSet<>();

    RenamedFields(PersistenceRuntime.Settings settings) {
        this.settings = settings;
    }

    /// The store has a field, which the objects of a class have in the program, or have no more.
    ///
    /// @param type      the objects' class
    /// @param declaring the class that declares it in the store
    /// @param field     what it is now, or null
    void add(Class<?> type, StoredClass declaring, StoredClass.Member member, Field field) {
        Name name = new Name(settings.className(declaring.name()), member.name());
        stored.add(name);
        if (field != null) {
            found.add(new Name(field.getDeclaringClass().getName(), field.getName()));
        } else if (!Modifier.isAbstract(type.getModifiers())) {
            dropped.add(new Dropped(type, name));
        }
    }

    /// Says which declarations are mistakes.
    ///
    /// @param find the class of the program that has a name, or null
    void check(Function<String, Class<?>> find, Set<String> problems) {
        new TreeMap<>(settings.fields()).forEach((className, names) -> {
            for (Map.Entry<String, String> entry : new TreeMap<>(names).entrySet()) {
                Name old = new Name(className, entry.getKey());
                Name now = new Name(className, entry.getValue());
                if (stored.contains(old) || stored.contains(now) || found.contains(now)) {
                    continue;
                }
                Set<String> lost = lost(old, find.apply(className));
                if (!lost.isEmpty()) {
                    problems.add("StoreOptions.renameField(\"" + className + "\", \"" + old.field + "\", \""
                            + now.field + "\") matches no field in the store, and these fields would be dropped: "
                            + String.join(", ", lost) + "; pass the new name of the class and the stored name of the "
                            + "field, or remove the call");
                }
            }
        });
    }

    /// Returns the fields that a declaration without effect may have been meant for: any field of its class, and one of
    /// its name whose class may have been mistaken for another.
    ///
    /// @param type the class of the declaration, or null if the program has none of that name
    private Set<String> lost(Name old, Class<?> type) {
        Set<String> lost = new TreeSet<>();
        for (Dropped one : dropped) {
            boolean isOfClass = one.name.className.equals(old.className);
            boolean isOfOther = one.name.field.equals(old.field) && (type == null || type.isAssignableFrom(one.type));
            if (isOfClass || isOfOther) {
                lost.add(one.name.className + "." + one.name.field);
            }
        }
        return lost;
    }
}
