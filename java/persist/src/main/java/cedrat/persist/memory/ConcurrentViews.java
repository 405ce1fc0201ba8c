package cedrat.persist.memory;

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.Iterator;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ConcurrentSkipListSet;

/// Views, iterators and entries of the collections of `java.util.concurrent`.
///
/// **Threads:** any.
public final class ConcurrentViews {
    private static final String PACKAGE = "java.util.concurrent.";
    /// A view of a view of a part of a map.
    private static final int DEPTH_MAX = 4;
    /// Names of the fields that lead to the collection, which are final.
    private static final List<String> LINKS = List.of("map", "m", "base", "this$0");

    private static final long NONE = -1;

    private static final ClassValue<Long> LINK = new ClassValue<>() {
        @Override
        protected Long computeValue(Class<?> type) {
            return find(type);
        }
    };

    private ConcurrentViews() {}

    /// Returns the collection that an object is a view, an iterator or an entry of; the object if it is none.
    public static Object wholeOrSelf(Object object) {
        if (!object.getClass().getName().startsWith(PACKAGE)) {
            return object;
        }
        Object at = object;
        for (int depth = 0; depth < DEPTH_MAX && at != null; depth++) {
            long link = isPart(at) ? LINK.get(at.getClass()) : NONE;
            if (link == NONE) {
                return ConcurrentState.isKept(at) ? at : object;
            }
            at = Memory.getReference(at, link);
        }
        return object;
    }

    /// A set that is sorted may show a part of another one.
    private static boolean isPart(Object object) {
        return object instanceof ConcurrentSkipListSet
                ? !(ConcurrentState.inner(object) instanceof ConcurrentSkipListMap)
                : object.getClass().getName().indexOf('$') > 0;
    }

    /// Whether a removal by an iterator may do nothing: if the collection was restored since the iterator was made,
    /// the collection has other nodes.
    public static boolean losesRemoval(Object object, Object whole) {
        return object instanceof Iterator && whole instanceof Queue;
    }

    private static long find(Class<?> type) {
        for (Class<?> declaring = type; declaring != null; declaring = declaring.getSuperclass()) {
            for (Field field : declaring.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers())
                        && !field.getType().isPrimitive()
                        && LINKS.contains(field.getName())) {
                    return Memory.offset(field);
                }
            }
        }
        return NONE;
    }
}
