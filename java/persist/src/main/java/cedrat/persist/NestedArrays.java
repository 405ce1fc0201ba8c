package cedrat.persist;

import java.util.function.Consumer;

/// An array, the arrays that are its elements, and so on.
final class NestedArrays {
    /// The way to an array from the outermost one, by which one is found that contains itself.
    private record Path(Object[] array, Path outer) {
        boolean leadsThrough(Object other) {
            Path at = this;
            while (at != null && at.array != other) {
                at = at.outer;
            }
            return at != null;
        }
    }

    private NestedArrays() {}

    /// Does something with each, and before its elements are looked at. As often as there are ways to it, as those do
    /// that show or compare such arrays.
    ///
    /// @param array or anything else, with which it is done too
    static void forEach(Object array, Consumer<Object> work) {
        forEach(array, null, work);
    }

    private static void forEach(Object array, Path outer, Consumer<Object> work) {
        work.accept(array);
        if (!(array instanceof Object[] elements)) {
            return;
        }
        Path path = new Path(elements, outer);
        for (Object element : elements) {
            if (element != null && element.getClass().isArray() && !path.leadsThrough(element)) {
                forEach(element, path, work);
            }
        }
    }
}
