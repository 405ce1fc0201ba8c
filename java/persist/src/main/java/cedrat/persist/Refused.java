package cedrat.persist;

import java.util.Properties;

/// Classes that change without write barriers, so that a rollback would miss it.
final class Refused {
    private Refused() {}

    /// The class because of which an object of `type` is refused in a transaction, or null.
    ///
    /// Class loading and much else in the JDK uses the collections of `java.util.concurrent`, in whatever
    /// thread comes by, so they have no barriers. `Properties` keeps its entries in one of them.
    static Class<?> ancestor(Class<?> type) {
        for (Class<?> ancestor = type; ancestor != null; ancestor = ancestor.getSuperclass()) {
            if (ancestor == Properties.class || ancestor.getName().startsWith("java.util.concurrent.")) {
                return ancestor;
            }
        }
        return null;
    }
}
