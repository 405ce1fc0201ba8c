package cedrat.persist.libraries;

import java.util.function.Function;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;

/// A kind of object of a library.
///
/// @param library the library
/// @param name    the kind's name, unique
/// @param make    makes an object of it, an equal one each time and in each process
/// @param change  changes the object, or returns another one
/// @param show    renders the object by its public methods
/// @param hasEquals whether an object may be compared with its copy by `equals`
record Kind<T>(
        String library,
        String name,
        Supplier<T> make,
        UnaryOperator<T> change,
        Function<? super T, String> show,
        boolean hasEquals) {
    /// Renders an object of the kind.
    @SuppressWarnings("unchecked")
    String shown(Object object) {
        return show.apply((T) object);
    }

    /// Changes an object of the kind.
    @SuppressWarnings("unchecked")
    Object changed(Object object) {
        return change.apply((T) object);
    }
}
