package cedrat.oracle.state;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.LongStream;

/// The namespaces of an oracle. For one thread at a time.
final class Namespaces {
    /// The mark of the newest sweep of each; 0 before its first sweep since the replay.
    private final TreeMap<Long, Long> marks = new TreeMap<>();
    /// For each that ends with its sessions, the number of sessions.
    private final Map<Long, Integer> sessions = new HashMap<>();

    int size() {
        return marks.size();
    }

    void clear() {
        marks.clear();
        sessions.clear();
    }

    /// Adds one that lasts, if it is missing.
    void add(long namespace) {
        marks.putIfAbsent(namespace, 0L);
    }

    void remove(long namespace) {
        marks.remove(namespace);
    }

    /// Returns whether it is there, or may be added.
    boolean accepts(long namespace) {
        int unnamed = marks.containsKey(StatusOracle.UNNAMED) ? 1 : 0;
        return marks.containsKey(namespace)
                || namespace == StatusOracle.UNNAMED
                || marks.size() - unnamed < StatusOracle.NAMESPACES_MAX;
    }

    /// Adds an accepted one that lasts. Returns whether that is news: it was missing, or ended with its sessions.
    boolean use(long namespace) {
        boolean isNew = !marks.containsKey(namespace);
        add(namespace);
        return sessions.remove(namespace) != null || isNew;
    }

    /// Adds a session to an accepted one that ends with its sessions.
    void useWhileOpen(long namespace) {
        if (!marks.containsKey(namespace)) {
            add(namespace);
            sessions.put(namespace, 0);
        }
        sessions.computeIfPresent(namespace, (same, count) -> count + 1);
    }

    /// Takes a session from one that ends with its sessions.
    void release(long namespace) {
        Integer count = sessions.computeIfPresent(namespace, (same, before) -> before - 1);
        if (count != null && count == 0) {
            sessions.remove(namespace);
            marks.remove(namespace);
        }
    }

    /// Removes one that lasts. Returns whether it was there.
    boolean retire(long namespace) {
        return !sessions.containsKey(namespace) && marks.remove(namespace) != null;
    }

    void swept(long namespace, long mark) {
        marks.computeIfPresent(namespace, (same, before) -> Math.max(before, mark));
    }

    /// Returns the lowest of all marks, or `otherwise` if there is no namespace.
    long lowestMark(long otherwise) {
        return marks.values().stream().mapToLong(Long::longValue).min().orElse(otherwise);
    }

    /// Returns those that last, in ascending order.
    LongStream lasting() {
        return marks.keySet().stream()
                .filter(namespace -> !sessions.containsKey(namespace))
                .mapToLong(Long::longValue);
    }

    /// Returns some in ascending order, at most `countMax`, from this one on.
    List<Namespace> from(long first, int countMax) {
        return Namespace.first(marks.tailMap(first, true).entrySet().stream(), sessions, countMax);
    }

    /// Returns those with the lowest marks, at most `countMax`.
    List<Namespace> leastSwept(int countMax) {
        return Namespace.first(marks.entrySet().stream().sorted(Map.Entry.comparingByValue()), sessions, countMax);
    }
}
