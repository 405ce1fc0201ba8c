package cedrat.persist.libraries;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;

/// The kinds of the matrix.
final class Kinds {
    private final List<Kind<?>> all = new ArrayList<>();
    private String library;
    private boolean hasEquals = true;

    private Kinds() {}

    /// All kinds.
    static List<Kind<?>> all() {
        Kinds kinds = new Kinds();
        CommonsKinds.addTo(kinds);
        GuavaKinds.addTo(kinds);
        EclipseKinds.addTo(kinds);
        PrimitiveKinds.addTo(kinds);
        ScalaKinds.addTo(kinds);
        PersistentKinds.addTo(kinds);
        ValueKinds.addTo(kinds);
        DocumentKinds.addTo(kinds);
        GraphKinds.addTo(kinds);
        return Collections.unmodifiableList(kinds.all);
    }

    /// Sets the library of the kinds that follow.
    Kinds of(String name) {
        library = name;
        hasEquals = true;
        return this;
    }

    /// Does not compare objects of the kinds that follow by `equals`, which counts its calls for the whole process: a
    /// transaction refuses that.
    Kinds withoutEquals() {
        hasEquals = false;
        return this;
    }

    /// Adds a kind of object that changes itself.
    <T> Kinds mutable(String name, Supplier<T> make, Consumer<T> change, Function<? super T, String> show) {
        return value(
                name,
                make,
                object -> {
                    change.accept(object);
                    return object;
                },
                show);
    }

    /// Adds a kind of object of which another one is made.
    <T> Kinds value(String name, Supplier<T> make, UnaryOperator<T> change, Function<? super T, String> show) {
        all.add(new Kind<>(library, name, make, change, show, hasEquals));
        return this;
    }
}
