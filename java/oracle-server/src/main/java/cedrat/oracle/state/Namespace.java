package cedrat.oracle.state;

import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/// A namespace that clients use.
///
/// @param number its number
/// @param mark of its newest sweep, 0 before its first one since the replay
/// @param sessions number of sessions that it ends with; 0 if it does not end with sessions
public record Namespace(long number, long mark, int sessions) {
    /// Returns the first of these namespaces and marks, at most `countMax`.
    static List<Namespace> first(Stream<Map.Entry<Long, Long>> marks, Map<Long, Integer> sessions, int countMax) {
        return marks.limit(countMax)
                .map(each -> new Namespace(each.getKey(), each.getValue(), sessions.getOrDefault(each.getKey(), 0)))
                .toList();
    }
}
