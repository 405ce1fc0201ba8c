package cedrat.oracle.tables;

import cedrat.oracle.client.RowIds;
import cedrat.oracle.protocol.CommitKeys;
import cedrat.oracle.protocol.Protocol;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/// Which keys a serialisable transaction has read, where scans are checked; as few ranges as possible. For
/// one thread at a time.
final class ScannedRanges {
    /// By the name of the table.
    private final Map<String, List<KeyRange>> ranges = new TreeMap<>();

    void add(Table table, KeyRange range) {
        ranges.computeIfAbsent(table.name(), none -> new ArrayList<>()).add(range);
    }

    /// One key.
    void add(Table table, Bytes key) {
        add(table, new KeyRange(key, key.next()));
    }

    /// Adds all to what a commit carries. If they are more than it may carry, some become one with what lies
    /// between: the transaction may then abort for what it has not read, but not the other way round.
    void addTo(CommitKeys keys) {
        ranges.replaceAll((table, some) -> joined(some));
        long count = ranges.values().stream().mapToLong(List::size).sum();
        while (count > Protocol.RANGES_MAX) {
            Map.Entry<String, List<KeyRange>> most = ranges.entrySet().stream()
                    .max(Comparator.comparing(entry -> entry.getValue().size()))
                    .orElseThrow();
            if (most.getValue().size() == 1) {
                break; // of more tables than that: the oracle refuses it
            }
            count -= most.getValue().size() - 1;
            List<KeyRange> some = most.getValue();
            most.setValue(List.of(
                    new KeyRange(some.get(0).from(), some.get(some.size() - 1).to())));
        }
        ranges.forEach((table, some) -> some.forEach(range -> keys.scan(
                RowIds.ofTable(Bytes.of(table).raw()),
                range.from().raw(),
                range.to().raw())));
    }

    /// The same keys by ranges in ascending order that do not touch.
    private static List<KeyRange> joined(List<KeyRange> some) {
        List<KeyRange> sorted = new ArrayList<>(some);
        sorted.sort(Comparator.comparing(KeyRange::from));
        List<KeyRange> joined = new ArrayList<>();
        for (KeyRange range : sorted) {
            KeyRange last = joined.isEmpty() ? null : joined.get(joined.size() - 1);
            if (last == null || !last.isOpen() && last.to().compareTo(range.from()) < 0) {
                joined.add(range);
            } else if (!last.isOpen() && (range.isOpen() || range.to().compareTo(last.to()) > 0)) {
                joined.set(joined.size() - 1, new KeyRange(last.from(), range.to()));
            }
        }
        return joined;
    }
}
