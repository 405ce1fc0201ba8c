package cedrat.persist.memory;

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.List;

/// Objects that run over a collection of the JDK, or show a part of it, and compare its modification count with the
/// one that they have seen: iterators, spliterators, and some views.
///
/// - A rollback restores the modification count of a collection, and later changes may bring it to a value
///   that it had before the rollback. An iterator from that time would accept the collection, and could
///   unlink a node of a list that is no longer in it. So each object that was made within the part that is
///   rolled back, and has seen what is no longer there, gets a count that no collection has. The same holds
///   for an iterator of a list that moved when it was out of date already, as `forEachRemaining` does, and
///   is between nodes that are no neighbours. An iterator of an `ArrayDeque`, which counts no changes, gets
///   a position that no array has if the deque is restored.
///
/// **Threads:** any.
public final class Cursors {
    /// Collections begin at 0, and few are changed 2^32 times.
    private static final int NEVER = -1;

    private static final Class<?> LIST_ITERATOR = ofJdk("java.util.LinkedList$ListItr");
    private static final long LAST_NODE = Memory.offset(LIST_ITERATOR, "lastReturned");
    private static final long NEXT_NODE = Memory.offset(LIST_ITERATOR, "next");
    private static final long NODE_AFTER = Memory.offset(ofJdk("java.util.LinkedList$Node"), "next");

    private static final Class<?> DEQUE_ITERATOR = ofJdk("java.util.ArrayDeque$DeqIterator");
    private static final long DEQUE = Memory.offset(DEQUE_ITERATOR, "this$0");
    private static final long CURSOR = Memory.offset(DEQUE_ITERATOR, "cursor");
    private static final long LAST_PLACE = Memory.offset(DEQUE_ITERATOR, "lastRet");

    private static final String OF_COLLECTION = "modCount";
    private static final Cursors NONE = new Cursors(null, null, null);

    private static final ClassValue<Cursors> OF_CLASSES = new ClassValue<>() {
        @Override
        protected Cursors computeValue(Class<?> type) {
            return find(type);
        }
    };

    /// Field of the modification count that it has seen, or null: the class has none.
    private final Field seen;
    /// The fields that lead to the collection.
    private final List<Field> way;
    /// Field of the collection's own count.
    private final Field count;

    private Cursors(Field seen, List<Field> way, Field count) {
        this.seen = seen;
        this.way = way;
        this.count = count;
    }

    /// Invalidates an object: its creation is rolled back, and the collection that it may run over restored.
    public static void outdate(Object made) {
        Class<?> type = made.getClass();
        if (type.getClassLoader() == null && !type.isArray()) {
            OF_CLASSES.get(type).compare(made);
        }
    }

    /// The deque that an object runs over without counting its changes; or null.
    public static Object deque(Object made) {
        return DEQUE_ITERATOR.isInstance(made) ? Memory.getReference(made, DEQUE) : null;
    }

    /// That is about to be restored: the next step of what runs over it throws, and nothing can be removed.
    public static void outdateUncounted(Object made) {
        Memory.putBits(made, CURSOR, 'I', NEVER);
        Memory.putBits(made, LAST_PLACE, 'I', NEVER);
    }

    /// Whether objects of a class are such.
    static boolean are(Class<?> type) {
        return OF_CLASSES.get(type).seen != null;
    }

    private void compare(Object made) {
        if (seen == null) {
            return;
        }
        Object collection = made;
        for (Field field : way) {
            collection = Memory.getReference(collection, Memory.offset(field));
            if (collection == null) {
                return;
            }
        }
        if (count(made, seen) != count(collection, count) || LIST_ITERATOR.isInstance(made) && isMisplaced(made)) {
            Memory.putBits(made, Memory.offset(seen), 'I', NEVER);
        }
    }

    /// Whether an iterator of a list is not before or after the node that it was at last. It was at that, or at
    /// none, when it was up to date, and `forEachRemaining` makes one step more.
    private static boolean isMisplaced(Object iterator) {
        Object last = Memory.getReference(iterator, LAST_NODE);
        Object next = Memory.getReference(iterator, NEXT_NODE);
        return last != null && last != next && Memory.getReference(last, NODE_AFTER) != next;
    }

    private static Class<?> ofJdk(String name) {
        try {
            return Class.forName(name, false, null);
        } catch (ClassNotFoundException e) {
            throw new AssertionError(e);
        }
    }

    private static long count(Object base, Field field) {
        return Memory.getBits(base, Memory.offset(field), 'I');
    }

    private static Cursors find(Class<?> type) {
        if (!type.getPackageName().equals("java.util")) {
            return NONE;
        }
        Field seen = field(type, "expectedModCount");
        if (seen == null) {
            // A view that counts its elements once.
            seen = field(type, "sizeModCount");
        }
        Field root = field(type, "root");
        if (seen == null && root != null && field(root.getType(), OF_COLLECTION) != null) {
            // A part of a list, which is a list.
            seen = field(type, OF_COLLECTION);
        }
        return seen == null ? NONE : ofCollection(type, seen);
    }

    private static Cursors ofCollection(Class<?> type, Field seen) {
        for (Field field : references(type)) {
            Field count = field(field.getType(), OF_COLLECTION);
            if (count != null) {
                return new Cursors(seen, List.of(field), count);
            }
        }
        // Views of a part of a map lead to that part, and it to the map.
        for (Field outer : references(type)) {
            for (Field field : references(outer.getType())) {
                Field count = field(field.getType(), OF_COLLECTION);
                if (outer.isSynthetic() && count != null) {
                    return new Cursors(seen, List.of(outer, field), count);
                }
            }
        }
        return NONE;
    }

    private static List<Field> references(Class<?> type) {
        List<Field> found = new ArrayList<>();
        for (Class<?> declaring = type; declaring != null; declaring = declaring.getSuperclass()) {
            for (Field field : declaring.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers()) && !field.getType().isPrimitive()) {
                    found.add(field);
                }
            }
        }
        return found;
    }

    /// A field of a class or of one that it extends, or null.
    private static Field field(Class<?> type, String name) {
        for (Class<?> declaring = type; declaring != null; declaring = declaring.getSuperclass()) {
            for (Field field : declaring.getDeclaredFields()) {
                if (field.getName().equals(name)) {
                    return field;
                }
            }
        }
        return null;
    }
}
