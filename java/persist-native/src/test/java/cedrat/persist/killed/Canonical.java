package cedrat.persist.killed;

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/// A graph as text: equal for graphs of the same form, in which the same objects are shared.
///
/// Objects are numbered as they are met. Hash tables without an order are written in that of their keys.
final class Canonical {
    private final IdentityHashMap<Object, Integer> numbers = new IdentityHashMap<>();
    private final ArrayDeque<Object> waiting = new ArrayDeque<>();
    private final StringBuilder text = new StringBuilder();

    private Canonical() {}

    static String of(Object root) {
        Canonical canonical = new Canonical();
        canonical.refer(root);
        for (Object next; (next = canonical.waiting.poll()) != null; ) {
            canonical.text.append("\n#").append(canonical.numbers.get(next)).append(' ');
            canonical.describe(next);
        }
        return canonical.text.toString();
    }

    private void refer(Object object) {
        if (isValue(object)) {
            text.append(object == null ? "" : object.getClass().getSimpleName())
                    .append('=')
                    .append(object instanceof Character letter ? (int) letter : object)
                    .append(' ');
            return;
        }
        if (object instanceof Enum<?> constant) {
            text.append(constant.name()).append(' ');
            return;
        }
        Integer number = numbers.get(object);
        if (number == null) {
            number = numbers.size();
            numbers.put(object, number);
            waiting.add(object);
        }
        text.append('#').append(number).append(' ');
    }

    /// Of strings too only what they say is looked at: a literal is another object after a restart.
    private static boolean isValue(Object object) {
        return object == null
                || object instanceof Number
                || object instanceof Boolean
                || object instanceof Character
                || object instanceof String;
    }

    private void describe(Object object) {
        text.append(object.getClass().getName()).append(": ");
        switch (object) {
            case Map<?, ?> map -> {
                Map<?, ?> ordered = map instanceof LinkedHashMap ? map : new TreeMap<>(map);
                ordered.forEach((key, value) -> {
                    text.append(key).append("->");
                    refer(value);
                });
            }
            case Collection<?> collection -> collection.forEach(this::refer);
            case Note note -> {
                refer(note.number());
                refer(note.next());
            }
            default -> {
                if (object.getClass().isArray()) {
                    for (int i = 0; i < Array.getLength(object); i++) {
                        refer(Array.get(object, i));
                    }
                } else {
                    fields(object);
                }
            }
        }
    }

    private void fields(Object object) {
        List<Class<?>> ancestors = new ArrayList<>();
        for (Class<?> type = object.getClass(); type != Object.class; type = type.getSuperclass()) {
            ancestors.add(type);
        }
        for (Class<?> type : ancestors.reversed()) {
            for (Field field : type.getDeclaredFields()) {
                if (field.isSynthetic() || Modifier.isStatic(field.getModifiers())) {
                    continue;
                }
                try {
                    field.setAccessible(true);
                    text.append(field.getName()).append(':');
                    refer(field.get(object));
                } catch (ReflectiveOperationException e) {
                    throw new AssertionError(e);
                }
            }
        }
    }
}
