package cedrat.persist.memory;

import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;
import java.util.function.Consumer;

/// An array, the arrays that are its elements, and so on.
public final class NestedArrays {
    private NestedArrays() {}

    /// Does something with each once, and before its elements are looked at. They may contain themselves.
    ///
    /// @param array or anything else, with which it is done too
    public static void forEach(Object array, Consumer<Object> work) {
        Set<Object> seen = Collections.newSetFromMap(new IdentityHashMap<>());
        seen.add(array);
        forEach(array, seen, work);
    }

    private static void forEach(Object array, Set<Object> seen, Consumer<Object> work) {
        work.accept(array);
        if (!(array instanceof Object[] elements)) {
            return;
        }
        for (Object element : elements) {
            if (element != null && element.getClass().isArray() && seen.add(element)) {
                forEach(element, seen, work);
            }
        }
    }
}
