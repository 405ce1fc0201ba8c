package cedrat.oracle.tables;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;

/// History of transactions that read lists and append to them, as their clients know it. An outcome that its
/// client does not know stays unknown: the oracle is not asked, and no timestamp of it is recorded.
/// **Threads:** any may record.
final class AppendHistory {
    /// Folder of the histories that `./x test` judges, each in a folder with the name of what is expected of it.
    private static final Path FILES = Path.of("target/histories");

    /// Outcome of a transaction, as its client knows it.
    enum Outcome {
        OK,
        FAIL,
        /// It may have committed.
        INFO
    }

    /// A transaction.
    ///
    /// @param began a moment before it began, by [#now]
    /// @param ended a moment after it ended
    record Entry(
            int process,
            long began,
            long ended,
            AppendHistory.Outcome outcome,
            List<ListHistory.Operation> operations) {}

    private final ConcurrentLinkedQueue<Entry> entries = new ConcurrentLinkedQueue<>();
    private final AtomicLong clock = new AtomicLong();
    private final AtomicLong elements = new AtomicLong();

    /// Returns a moment: later than all that were returned before.
    long now() {
        return clock.incrementAndGet();
    }

    /// Returns an element that no list contains yet.
    long nextElement() {
        return elements.incrementAndGet();
    }

    /// Records one.
    void add(Entry entry) {
        entries.add(entry);
    }

    List<Entry> entries() {
        return List.copyOf(entries);
    }

    /// Returns the number of transactions with this outcome.
    long count(AppendHistory.Outcome outcome) {
        return entries.stream().filter(each -> each.outcome == outcome).count();
    }

    private record Line(long at, String json) {}

    /// Writes it to where it is judged as `expectation`, in the format of Jepsen's Elle. A process of an
    /// unknown outcome goes on under another number, as Elle demands.
    void write(String expectation, String name) throws IOException {
        List<Line> lines = new ArrayList<>();
        Map<Integer, Integer> numbers = new HashMap<>();
        int[] last = {0};
        entries.stream().sorted(Comparator.comparingLong(Entry::began)).forEach(each -> {
            int number = numbers.computeIfAbsent(each.process, none -> ++last[0]);
            lines.add(new Line(each.began, json("invoke", number, List.of())));
            lines.add(new Line(each.ended, json(each.outcome.name().toLowerCase(Locale.ROOT), number, judged(each))));
            if (each.outcome == Outcome.INFO) {
                numbers.remove(each.process);
            }
        });
        lines.sort(Comparator.comparingLong(Line::at));
        Path folder = Files.createDirectories(FILES.resolve(expectation));
        Files.write(
                folder.resolve(name + ".jsonl"), lines.stream().map(Line::json).toList());
    }

    /// Returns the operations that Elle judges: not the reads of an unknown outcome, which it would take for those of a
    /// committed transaction.
    private static List<ListHistory.Operation> judged(Entry entry) {
        return entry.outcome != Outcome.INFO
                ? entry.operations
                : entry.operations.stream().filter(each -> each.list() == null).toList();
    }

    private static String json(String type, int process, List<ListHistory.Operation> operations) {
        return "{\"type\":\"" + type + "\",\"process\":" + process + ",\"value\":["
                + operations.stream().map(ListHistory.Operation::json).collect(Collectors.joining(",")) + "]}";
    }
}
