package cedrat.persist.store;

import cedrat.persist.boot.Identity;
import cedrat.persist.boot.Persistable;
import cedrat.persist.form.StaticFinals;
import cedrat.persist.form.ThrowableForm;
import cedrat.persist.memory.MemoFields;
import java.io.Externalizable;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.AbstractCollection;
import java.util.AbstractList;
import java.util.AbstractMap;
import java.util.AbstractQueue;
import java.util.AbstractSequentialList;
import java.util.AbstractSet;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;

/// The fields of a class that are stored.
///
/// A class that takes part in its own serialisation uses `transient` for the fields that it writes itself. A store runs
/// none of its methods, and keeps these fields as any other: woven code records each assignment to them. So does
/// a serialisable class with a superclass that is not: serialisation would run a constructor of that class.
/// In any other class a transient field is not stored, as after serialisation, unless it is final. A [memo
/// field][MemoFields] is never stored: it may be assigned at any time, also while a commit writes its object.
///
/// **Threads:** any.
final class SerialFields {
    /// Its fields are final, and its methods load them before they read them.
    private static final Class<?> SUPERCLASS = AbstractMap.SimpleImmutableEntry.class;
    /// Classes of the JDK without anything to store.
    private static final Set<Class<?>> STATELESS = Set.of(
            Object.class,
            Record.class,
            Number.class,
            AbstractCollection.class,
            AbstractList.class,
            AbstractSequentialList.class,
            AbstractSet.class,
            AbstractQueue.class,
            AbstractMap.class);

    private static final ClassValue<Boolean> KEEPING = new ClassValue<>() {
        @Override
        protected Boolean computeValue(Class<?> type) {
            return hasTransient(type) && rebuildsItself(type);
        }
    };

    private SerialFields() {}

    /// Whether a class of the JDK has nothing to store.
    static boolean isStateless(Class<?> type) {
        return STATELESS.contains(type);
    }

    /// The woven classes of an object's class, the topmost first.
    static List<Class<?>> hierarchy(Class<?> type) {
        List<Class<?>> found = new ArrayList<>();
        for (Class<?> one = type; Persistable.class.isAssignableFrom(one); one = one.getSuperclass()) {
            found.addFirst(one);
        }
        return found;
    }

    /// Whether a class of the JDK may be the superclass of classes whose objects are stored: its fields are stored as
    /// fields of these.
    static boolean isStoredWithSubclass(Class<?> type, Class<?> subclass) {
        List<Field> fields = ofJdk(type);
        return !fields.isEmpty()
                && Arrays.stream(subclass.getDeclaredFields()).noneMatch(own -> fields.stream()
                        .anyMatch(field -> field.getName().equals(own.getName())));
    }

    /// Returns the fields of a class of the JDK that are stored with those of its subclasses; none if it cannot have
    /// such subclasses.
    private static List<Field> ofJdk(Class<?> type) {
        if (type == SUPERCLASS) {
            return Arrays.stream(SUPERCLASS.getDeclaredFields())
                    .filter(field -> !Modifier.isStatic(field.getModifiers()))
                    .toList();
        }
        for (Class<?> one = type; one != Throwable.class; one = one.getSuperclass()) {
            if (one == null || hasVariables(one)) {
                return List.of();
            }
        }
        return ThrowableForm.fields();
    }

    private static boolean hasVariables(Class<?> type) {
        return Arrays.stream(type.getDeclaredFields()).anyMatch(field -> !Modifier.isStatic(field.getModifiers()));
    }

    /// Whether the transient fields of a class, and of its superclasses, are stored with its objects.
    static boolean keepsTransient(Class<?> type) {
        return KEEPING.get(type);
    }

    /// Whether a class or one of its superclasses has a transient field.
    static boolean hasTransient(Class<?> type) {
        for (Class<?> one = type; one != null && one.getClassLoader() != null; one = one.getSuperclass()) {
            for (Field field : one.getDeclaredFields()) {
                if (isOfObject(field) && Modifier.isTransient(field.getModifiers())) {
                    return true;
                }
            }
        }
        return false;
    }

    /// Returns the fields of a class that are stored.
    ///
    /// @param withTransient whether its transient fields are
    /// @param memos         fields that are not
    static List<Field> of(Class<?> declaring, boolean withTransient, MemoFields memos) {
        List<Field> found = new ArrayList<>();
        Class<?> superclass = declaring.getSuperclass();
        if (superclass != null && !Persistable.class.isAssignableFrom(superclass)) {
            found.addAll(ofJdk(superclass));
        }
        for (Field field : declaring.getDeclaredFields()) {
            int modifiers = field.getModifiers();
            // A class cannot assign to a final field once it is loaded: it would stay null.
            boolean isKept = withTransient || !Modifier.isTransient(modifiers) || Modifier.isFinal(modifiers);
            if (isOfObject(field) && isKept && !memos.has(field)) {
                found.add(field);
            }
        }
        return found;
    }

    /// Whether a field belongs to its object, and was not added by the agent.
    private static boolean isOfObject(Field field) {
        return !Modifier.isStatic(field.getModifiers()) && field.getType() != Identity.class;
    }

    private static boolean rebuildsItself(Class<?> type) {
        if (!Serializable.class.isAssignableFrom(type)) {
            return false;
        }
        if (Externalizable.class.isAssignableFrom(type) || StaticFinals.replacesItself(type)) {
            return true;
        }
        for (Class<?> one = type; one != null && one.getClassLoader() != null; one = one.getSuperclass()) {
            boolean isConstructed = !Serializable.class.isAssignableFrom(one) && hasTransient(one);
            if (isConstructed
                    || has(one, "writeObject", ObjectOutputStream.class)
                    || has(one, "readObject", ObjectInputStream.class)
                    || has(one, "readObjectNoData")) {
                return true;
            }
        }
        return false;
    }

    private static boolean has(Class<?> declaring, String name, Class<?>... parameters) {
        try {
            return !Modifier.isStatic(
                    declaring.getDeclaredMethod(name, parameters).getModifiers());
        } catch (NoSuchMethodException | LinkageError e) {
            return false;
        }
    }
}
