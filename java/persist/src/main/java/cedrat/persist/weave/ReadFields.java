package cedrat.persist.weave;

import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;

/// The fields that each woven class reads by methods of the weaver ([Accessors]). A class that is redefined must
/// get the same ones, and the virtual machine does not tell what it has.
///
/// **Threads:** any.
final class ReadFields {
    /// By class loaders, and by names in internal form. A class without such methods is not listed.
    private final Map<ClassLoader, Map<String, List<Accessors.Field>>> byLoader = new WeakHashMap<>();

    /// Notes the fields of a class, in the order of the methods.
    void put(ClassLoader loader, String name, List<Accessors.Field> fields) {
        if (!fields.isEmpty()) {
            classes(loader).put(name, fields);
        }
    }

    /// Returns the fields of a class.
    List<Accessors.Field> of(ClassLoader loader, String name) {
        return classes(loader).getOrDefault(name, List.of());
    }

    private synchronized Map<String, List<Accessors.Field>> classes(ClassLoader loader) {
        return byLoader.computeIfAbsent(loader, added -> new ConcurrentHashMap<>());
    }
}
