package cedrat.persist.form;

import cedrat.persist.boot.Persistable;
import cedrat.persist.codec.Words;
import cedrat.persist.memory.Fields;
import cedrat.persist.memory.Memory;
import cedrat.persist.memory.Slot;
import java.io.Serializable;
import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/// The constants of the program: values of static final fields that a class compares by `==`. They are stored as
/// references to their fields.
///
/// - A plain `Object` is one: it has nothing but its identity.
/// - So is an object that serialisation replaces by one of the process (`writeReplace`, `readResolve`), and one
///   whose fields are final and lead to nothing that changes. Any other object may be state of the program,
///   which is stored as such.
///
/// **Threads:** any.
public final class StaticFinals {
    private static final ClassValue<Boolean> REPLACED = new ClassValue<>() {
        @Override
        protected Boolean computeValue(Class<?> type) {
            for (Class<?> one = type; one != null && one.getClassLoader() != null; one = one.getSuperclass()) {
                if (hasReplacement(one)) {
                    return true;
                }
            }
            return false;
        }
    };

    private final Fields slots;
    private final Map<Object, Field> byValue = Collections.synchronizedMap(new IdentityHashMap<>());
    private final Set<Class<?>> known = ConcurrentHashMap.newKeySet();
    /// The classes of the constants.
    private final Set<Class<?>> classes = ConcurrentHashMap.newKeySet();

    StaticFinals(Fields slots) {
        this.slots = slots;
    }

    /// Returns the field of a constant, or null: the object is none.
    public Field find(Object value) {
        return hasConstants(value.getClass()) ? byValue.get(value) : null;
    }

    /// Whether an object of a class may be a constant.
    boolean hasConstants(Class<?> type) {
        if (Persistable.class.isAssignableFrom(type)) {
            add(type);
        }
        return classes.contains(type);
    }

    /// Adds the constants of a class, of its superclasses, and of the classes around them.
    public void add(Class<?> type) {
        if (known.contains(type)) {
            return;
        }
        for (Class<?> one = type; one != null && one.getClassLoader() != null; one = one.getSuperclass()) {
            addOwn(one);
            addOwn(one.getNestHost());
        }
        if (!Memory.isUninitialized(type)) {
            known.add(type);
        }
    }

    private void addOwn(Class<?> declaring) {
        if (known.contains(declaring) || Memory.isUninitialized(declaring)) {
            return;
        }
        for (Field field : declaring.getDeclaredFields()) {
            int modifiers = field.getModifiers();
            if (!Modifier.isStatic(modifiers)
                    || !Modifier.isFinal(modifiers)
                    || field.getType().isPrimitive()) {
                continue;
            }
            Object value = slots.slot(field).readReference(null);
            if (value != null && isConstant(value)) {
                byValue.putIfAbsent(value, field);
                classes.add(value.getClass());
            }
        }
    }

    private boolean isConstant(Object value) {
        if (value.getClass() == Object.class) {
            return true;
        }
        if (!(value instanceof Persistable)
                || value instanceof Enum
                || value.getClass().isHidden()) {
            return false;
        }
        return value instanceof Serializable && replacesItself(value.getClass()) || isImmutable(value);
    }

    /// Whether serialisation puts another object in the place of one of a class.
    public static boolean replacesItself(Class<?> type) {
        return REPLACED.get(type);
    }

    private static boolean hasReplacement(Class<?> declaring) {
        for (String name : new String[] {"readResolve", "writeReplace"}) {
            try {
                declaring.getDeclaredMethod(name);
                return true;
            } catch (NoSuchMethodException | LinkageError none) {
                continue;
            }
        }
        return false;
    }

    private boolean isImmutable(Object value) {
        for (Class<?> one = value.getClass(); one != null && one.getClassLoader() != null; one = one.getSuperclass()) {
            for (Field field : one.getDeclaredFields()) {
                int modifiers = field.getModifiers();
                if (Modifier.isStatic(modifiers) || field.getType() == cedrat.persist.boot.Identity.class) {
                    continue;
                }
                boolean isUnchanging = Modifier.isFinal(modifiers) && isScalar(value, field);
                if (!isUnchanging && !Modifier.isTransient(modifiers)) {
                    return false;
                }
            }
        }
        return true;
    }

    private boolean isScalar(Object value, Field field) {
        if (field.getType().isPrimitive()) {
            return true;
        }
        Slot.Field slot = slots.slot(field);
        Object held = slot.readReference(value);
        return held == null
                || held instanceof String
                || held instanceof Enum
                || held instanceof Class
                || Words.ofBox(held) != 0
                || held.getClass().isArray() && Array.getLength(held) == 0
                || byValue.containsKey(held);
    }
}
