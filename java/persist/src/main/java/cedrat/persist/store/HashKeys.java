package cedrat.persist.store;

import cedrat.persist.boot.Persistable;
import cedrat.persist.codec.ObjectIdentity;
import cedrat.persist.memory.Fields;
import cedrat.persist.memory.HashSource;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.SortedMap;
import java.util.SortedSet;

/// Containers of libraries, which are stored as they are, and keys that they would not find in another process.
///
/// **Threads:** any.
final class HashKeys {
    private final Fields slots;
    private final HashSource sources;
    private final ClassValue<Lookup> lookups = new ClassValue<>() {
        @Override
        protected Lookup computeValue(Class<?> type) {
            return find(type);
        }
    };

    /// How a container is asked for a key.
    private interface Lookup {
        boolean contains(Object container, Object key);
    }

    /// That of an object that finds nothing by hash codes.
    private static final Lookup NONE = (container, key) -> false;

    HashKeys(Fields slots) {
        this.slots = slots;
        sources = new HashSource(slots);
    }

    /// Whether objects of a class may find others by their hash codes.
    boolean isContainer(Class<?> type) {
        return lookups.get(type) != NONE;
    }

    /// Returns the identity of the container that an object is, or may be a part of; null if none is known.
    ObjectIdentity container(Object object, ObjectIdentity identity) {
        return isContainer(object.getClass()) ? identity : identity.container;
    }

    /// Returns the identity of the container that an object leads into with a reference; null if none is known, or the
    /// reference leads to no part of it.
    ObjectIdentity container(Object from, ObjectIdentity identity, Object part) {
        ObjectIdentity container = container(from, identity);
        Object whole = container == null ? null : container.get();
        return whole != null && mayBePart(whole.getClass(), part.getClass()) ? container : null;
    }

    /// Whether an object may be a part of a container: an array, or an object of a class beside one of the container's.
    private static boolean mayBePart(Class<?> container, Class<?> part) {
        if (part.isArray()) {
            return true;
        }
        for (Class<?> one = container; Persistable.class.isAssignableFrom(one); one = one.getSuperclass()) {
            if (one.getPackageName().equals(part.getPackageName())) {
                return true;
            }
        }
        return false;
    }

    /// Whether the hash code of an object may differ in each process, by its class.
    boolean mayDiffer(Object object) {
        return sources.mayDiffer(object);
    }

    /// Whether a container finds a key by a hash code that differs in each process.
    boolean losesKey(Object container, Object key) {
        return contains(container, key) && sources.differs(key);
    }

    private boolean contains(Object container, Object key) {
        try {
            return lookups.get(container.getClass()).contains(container, key);
        } catch (RuntimeException foreign) {
            // A key has been asked for its hash code when it was added: this is a part of the container.
            return false;
        }
    }

    private Lookup find(Class<?> type) {
        boolean isOrdered = List.class.isAssignableFrom(type)
                || Queue.class.isAssignableFrom(type)
                || SortedMap.class.isAssignableFrom(type)
                || SortedSet.class.isAssignableFrom(type);
        if (!Persistable.class.isAssignableFrom(type) || isOrdered || has(type, "indexOf", Object.class) != null) {
            return NONE;
        }
        if (Map.class.isAssignableFrom(type)) {
            return (container, key) -> ((Map<?, ?>) container).containsKey(key);
        }
        if (Collection.class.isAssignableFrom(type)) {
            return (container, key) -> ((Collection<?>) container).contains(key);
        }
        Method method = has(type, "containsKey", Object.class);
        if (method == null) {
            method = has(type, "contains", Object.class);
        }
        return method == null || method.getReturnType() != boolean.class ? NONE : by(method);
    }

    private static Method has(Class<?> type, String name, Class<?>... parameters) {
        try {
            return type.getMethod(name, parameters);
        } catch (NoSuchMethodException | LinkageError none) {
            return null;
        }
    }

    private Lookup by(Method method) {
        slots.open(method.getDeclaringClass());
        method.setAccessible(true);
        return (container, key) -> {
            try {
                return (boolean) method.invoke(container, key);
            } catch (IllegalAccessException e) {
                throw new AssertionError("the package was opened", e);
            } catch (InvocationTargetException e) {
                if (e.getCause() instanceof RuntimeException thrown) {
                    throw thrown;
                }
                throw new IllegalStateException(e.getCause());
            }
        };
    }
}
