package cedrat.oracle.tables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.tables.AppendHistory.Entry;
import cedrat.oracle.tables.AppendHistory.Outcome;
import cedrat.oracle.tables.ListHistory.Operation;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/// Check of a history of lists by Elle's method: the final lists determine the order of all writes, and what each
/// transaction has read determines its place among them. A transaction with an unknown outcome has committed if a final
/// list contains an element of it. The oracle, its timestamps and its log are not used.
final class AppendCheck {
    private final Isolation isolation;
    private final Map<String, List<Long>> lists;
    /// Nodes of the graph, before those of moments.
    private final List<Entry> committed = new ArrayList<>();
    private final Map<Long, Integer> writers = new HashMap<>();
    private final Dependencies graph = new Dependencies();

    private AppendCheck(Isolation isolation, Map<String, List<Long>> lists) {
        this.isolation = isolation;
        this.lists = lists;
    }

    /// Fails if the history, after which the tables contain these lists, violates the isolation level or loses a
    /// committed write.
    static void check(AppendHistory history, Isolation isolation, Map<String, List<Long>> lists) {
        AppendCheck check = new AppendCheck(isolation, lists);
        check.findCommitted(history.entries());
        check.addWrites();
        for (int node = 0; node < check.committed.size(); node++) {
            check.addReads(node);
        }
        check.addTime();
        List<Integer> cycle = check.graph.cycle(isolation == Isolation.SNAPSHOT);
        assertTrue(cycle.isEmpty(), () -> isolation + " is violated by the cycle of\n" + check.describe(cycle));
    }

    private String describe(List<Integer> cycle) {
        StringBuilder text = new StringBuilder();
        cycle.stream().filter(node -> node < committed.size()).distinct().forEach(node -> text.append("  ")
                .append(committed.get(node))
                .append('\n'));
        return text.toString();
    }

    private static List<Operation> appends(Entry entry) {
        return entry.operations().stream().filter(each -> each.list() == null).toList();
    }

    private List<Long> list(String row) {
        return lists.getOrDefault(row, List.of());
    }

    private void findCommitted(List<Entry> entries) {
        Set<Long> kept = new HashSet<>();
        lists.forEach((row, list) -> list.forEach(
                element -> assertTrue(kept.add(element), () -> "row " + row + " contains " + element + " twice")));
        Set<Long> known = new HashSet<>();
        for (Entry entry : entries) {
            List<Operation> appends = appends(entry);
            appends.forEach(each -> known.add(each.element()));
            long count = appends.stream()
                    .filter(each -> list(each.row()).contains(each.element()))
                    .count();
            switch (entry.outcome()) {
                case OK -> assertEquals(appends.size(), count, () -> "a committed write is lost of " + entry);
                case FAIL -> assertEquals(0, count, () -> "an aborted write is kept of " + entry);
                case INFO -> assertTrue(count == 0 || count == appends.size(), () -> "a part is lost of " + entry);
            }
            if (entry.outcome() == Outcome.OK || count > 0) {
                committed.add(entry);
            }
        }
        assertTrue(known.containsAll(kept), "a list contains an element that no transaction has appended");
        for (int node = 0; node < committed.size(); node++) {
            for (Operation append : appends(committed.get(node))) {
                writers.put(append.element(), node);
            }
        }
        graph.grow(committed.size());
    }

    /// Adds the order of the writes of each row.
    private void addWrites() {
        lists.values().forEach(list -> {
            for (int index = 1; index < list.size(); index++) {
                graph.add(writers.get(list.get(index - 1)), writers.get(list.get(index)), false);
            }
        });
    }

    private void addReads(int reader) {
        Entry entry = committed.get(reader);
        for (Operation read : entry.operations()) {
            if (read.list() == null) {
                continue;
            }
            List<Long> list = list(read.row());
            int count = read.list().size();
            boolean isPrefix = count <= list.size() && read.list().equals(list.subList(0, count));
            assertTrue(isPrefix, () -> "row " + read.row() + " is " + list + " in the end, and not read by " + entry);
            if (count > 0) {
                graph.add(writers.get(list.get(count - 1)), reader, false);
            }
            if (count < list.size()) {
                graph.add(reader, writers.get(list.get(count)), true);
            }
        }
    }

    /// Adds the order of time: by a chain of moments, one for each end.
    private void addTime() {
        List<Integer> begun = new ArrayList<>();
        List<Integer> ended = new ArrayList<>();
        for (int node = 0; node < committed.size(); node++) {
            begun.add(node);
            if (committed.get(node).outcome() == Outcome.OK) {
                ended.add(node);
            }
        }
        begun.sort(Comparator.comparingLong(node -> committed.get(node).began()));
        ended.sort(Comparator.comparingLong(node -> committed.get(node).ended()));
        int next = 0;
        int moment = -1;
        for (int node : begun) {
            while (next < ended.size()
                    && committed.get(ended.get(next)).ended()
                            < committed.get(node).began()) {
                int later = graph.grow(1);
                graph.add(ended.get(next++), later, false);
                if (moment >= 0) {
                    graph.add(moment, later, false);
                }
                moment = later;
            }
            if (moment >= 0) {
                graph.add(moment, node, false);
            }
        }
    }

    /// Dependencies of transactions. An *anti-dependency* leads from a reader to the transaction that has overwritten
    /// what it read.
    static final class Dependencies {
        private record Edge(int to, boolean isAnti) {}

        private final List<List<Edge>> edges = new ArrayList<>();

        /// Adds nodes. Returns the first.
        int grow(int count) {
            int first = edges.size();
            for (int node = 0; node < count; node++) {
                edges.add(new ArrayList<>());
            }
            return first;
        }

        void add(Integer from, Integer to, boolean isAnti) {
            assertNotNull(from, "an element has a writer");
            assertNotNull(to, "an element has a writer");
            if (!from.equals(to)) {
                edges.get(from).add(new Edge(to, isAnti));
            }
        }

        /// Returns the nodes of a cycle; none if there is none.
        ///
        /// @param isSplit whether two anti-dependencies may not follow each other: snapshot isolation permits
        ///     cycles in which they do
        List<Integer> cycle(boolean isSplit) {
            int states = 2 * edges.size();
            byte[] colours = new byte[states];
            int[] at = new int[states];
            for (int root = 0; root < states; root += 2) {
                List<Integer> path = new ArrayList<>();
                if (colours[root] == 0) {
                    path.add(root);
                    colours[root] = 1;
                }
                while (!path.isEmpty()) {
                    int state = path.getLast();
                    List<Edge> out = edges.get(state / 2);
                    if (at[state] == out.size()) {
                        colours[state] = 2;
                        path.removeLast();
                        continue;
                    }
                    Edge edge = out.get(at[state]++);
                    if (isSplit && edge.isAnti && state % 2 == 1) {
                        continue;
                    }
                    int to = 2 * edge.to + (isSplit && edge.isAnti ? 1 : 0);
                    if (colours[to] == 1) {
                        return path.subList(path.indexOf(to), path.size()).stream()
                                .map(each -> each / 2)
                                .toList();
                    }
                    if (colours[to] == 0) {
                        colours[to] = 1;
                        path.add(to);
                    }
                }
            }
            return List.of();
        }
    }
}
