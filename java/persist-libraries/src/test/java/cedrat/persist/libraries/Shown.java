package cedrat.persist.libraries;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/// Renderings of objects, which also look up what the objects contain.
final class Shown {
    private Shown() {}

    /// The entries of a map, sorted, and whether each key leads to its value.
    static String map(Map<?, ?> map) {
        List<String> entries = new ArrayList<>();
        for (Map.Entry<?, ?> entry : map.entrySet()) {
            boolean isFound = map.containsKey(entry.getKey())
                    && Objects.equals(map.get(entry.getKey()), entry.getValue())
                    && map.keySet().contains(entry.getKey())
                    && map.values().contains(entry.getValue());
            entries.add(text(entry.getKey()) + "=" + text(entry.getValue()) + (isFound ? "" : " is not found"));
        }
        entries.sort(null);
        return map.size() + " " + entries;
    }

    /// The elements of a collection, sorted, and whether it contains each.
    static String set(Collection<?> set) {
        List<String> elements = new ArrayList<>();
        for (Object element : set) {
            elements.add(text(element) + (set.contains(element) ? "" : " is not found"));
        }
        elements.sort(null);
        return set.size() + " " + elements;
    }

    /// The elements of a collection in their order.
    static String list(Collection<?> list) {
        return list.size() + " " + elements(list);
    }

    /// The elements in their order.
    static String elements(Iterable<?> elements) {
        List<String> found = new ArrayList<>();
        for (Iterator<?> at = elements.iterator(); at.hasNext(); ) {
            found.add(text(at.next()));
        }
        return found.toString();
    }

    /// An element, without its identity.
    static String text(Object element) {
        return element != null && element.getClass() == Object.class ? "an object" : String.valueOf(element);
    }
}
