package cedrat.persist.memory;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/// Entries of maps that consist of no entries: the iterators of `IdentityHashMap` and `EnumMap` make them.
///
/// **Threads:** any.
public final class EntryViews {
    /// @param entry    the class of the entries
    /// @param iterator where an entry's iterator is
    /// @param map      where an iterator's map is
    private record Kind(Class<?> entry, long iterator, long map) {}

    private static final List<Kind> KINDS = kinds("java.util.IdentityHashMap", "java.util.EnumMap");

    private EntryViews() {}

    /// The map that an object is such an entry of, or the object.
    public static Object mapOrSelf(Object object) {
        if (object instanceof Map.Entry) {
            for (Kind kind : KINDS) {
                if (kind.entry.isInstance(object)) {
                    return Memory.getReference(Memory.getReference(object, kind.iterator), kind.map);
                }
            }
        }
        return object;
    }

    private static List<Kind> kinds(String... maps) {
        List<Kind> kinds = new ArrayList<>();
        for (String map : maps) {
            try {
                Class<?> iterator = Class.forName(map + "$EntryIterator", false, null);
                Class<?> entry = Class.forName(map + "$EntryIterator$Entry", false, null);
                kinds.add(new Kind(entry, Memory.offset(entry, "this$1"), Memory.offset(iterator, "this$0")));
            } catch (ClassNotFoundException e) {
                throw new AssertionError(e);
            }
        }
        return List.copyOf(kinds);
    }
}
