package cedrat.oracle.tables;

import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.StartTimestamp;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Collectors;

/// History of rows that hold lists: transactions read lists and append to them. So a black-box checker can
/// infer the order ([#write]); and since each element names the transaction that has appended it, the
/// white-box check can judge the same ([#check]). **Threads:** any may record.
public final class ListHistory {
    /// Column of the lists.
    public static final Column LIST = World.VALUE;

    /// Where histories lie that `./x test` has judged, each under what is expected of it.
    private static final Path FILES = Path.of("target/histories");

    /// An element is the start timestamp of its transaction, and which of its appends it is.
    private static final int APPENDS_MAX = 16;

    private final ConcurrentLinkedQueue<Event> events = new ConcurrentLinkedQueue<>();

    /// Nothing yet.
    public ListHistory() {}

    /// How far a transaction has got.
    public enum Kind {
        /// It is about to begin.
        INVOKE,
        /// It is about to commit.
        COMMITS,
        /// It has committed.
        OK,
        /// It has aborted.
        FAIL
    }

    /// Operation of a transaction on a row: it has read a list, or appended an element.
    ///
    /// @param list `null` if it has appended
    public record Operation(String row, List<Long> list, long element) {
        String json() {
            return list == null
                    ? "[\"append\",\"" + row + "\"," + element + "]"
                    : "[\"r\",\"" + row + "\",[" + text(list) + "]]";
        }

        @Override
        public String toString() {
            return list == null ? "a|" + row + "|" + element : "r|" + row + "|" + text(list);
        }

        static Operation parse(String text) {
            String[] words = text.split("\\|", -1);
            return words[0].equals("a")
                    ? new Operation(words[1], null, Long.parseLong(words[2]))
                    : new Operation(words[1], ListHistory.list(words[2]), 0);
        }
    }

    /// A moment of a transaction.
    ///
    /// @param at by the clock that all processes of the machine have, in nanoseconds
    /// @param process who has called; one transaction after the other
    public record Event(long at, int process, Kind kind, long start, long commit, List<Operation> done) {
        private static final String MARK = "event";

        private static Event now(int process, Kind kind, long start, long commit, List<Operation> done) {
            return new Event(System.nanoTime(), process, kind, start, commit, List.copyOf(done));
        }

        private String json() {
            return "{\"type\":\"" + kind.name().toLowerCase(java.util.Locale.ROOT) + "\",\"process\":" + process
                    + ",\"value\":["
                    + done.stream().map(Operation::json).collect(Collectors.joining(",")) + "]}";
        }

        /// In one line, for processes that record for others.
        @Override
        public String toString() {
            List<String> words = new ArrayList<>(
                    List.of(MARK, "" + at, "" + process, kind.name(), "" + start, "" + commit, "" + done.size()));
            done.forEach(each -> words.add(each.toString()));
            return String.join("\t", words);
        }

        /// Whether the line is one of these, and whole: who is killed may have written a part of it.
        private static boolean isWhole(String line) {
            String[] words = line.split("\t", -1);
            return words.length > 6 && words[0].equals(MARK) && words.length == 7 + Integer.parseInt(words[6]);
        }

        private static Event parse(String line) {
            String[] words = line.split("\t", -1);
            return new Event(
                    Long.parseLong(words[1]),
                    Integer.parseInt(words[2]),
                    Kind.valueOf(words[3]),
                    Long.parseLong(words[4]),
                    Long.parseLong(words[5]),
                    Arrays.stream(words, 7, words.length).map(Operation::parse).toList());
        }
    }

    /// Records one.
    public void add(Event event) {
        events.add(event);
    }

    /// Records what another process has written into its output. The last line of one that was killed may be
    /// a part of one: it has got to before that.
    public void addAll(Path output) throws IOException {
        String text = Files.readString(output);
        text.substring(0, text.lastIndexOf('\n') + 1)
                .lines()
                .filter(Event::isWhole)
                .map(Event::parse)
                .forEach(this::add);
    }

    /// Returns the number of transactions that this output reports as committed.
    public static long committed(Path output) throws IOException {
        return Files.readString(output)
                .lines()
                .filter(line -> line.contains("\t" + Kind.OK + "\t"))
                .count();
    }

    int size() {
        return events.size();
    }

    /// Resolves at the oracle the transactions with unknown outcome: those of clients that have died, or that got
    /// no answer. The oracle must still know them: they must not have been cleaned up before.
    public void resolve(OracleClient oracle) {
        Map<Long, Event> open = new HashMap<>();
        List<Event> all = ordered();
        all.stream().filter(each -> each.kind == Kind.COMMITS).forEach(each -> open.put(each.start, each));
        all.stream()
                .filter(each -> each.kind == Kind.OK || each.kind == Kind.FAIL)
                .forEach(each -> open.remove(each.start));
        for (Event each : open.values()) {
            if (each.done.stream().allMatch(operation -> operation.list != null)) {
                add(Event.now(each.process, Kind.FAIL, each.start, 0, each.done)); // its reads were never reported
                continue;
            }
            Outcome outcome = oracle.resolve(new StartTimestamp(each.start));
            switch (outcome.kind()) {
                case COMMITTED -> {
                    long commit = outcome.commitTimestamp().value();
                    add(Event.now(each.process, Kind.OK, each.start, commit, each.done));
                }
                case ABORTED -> add(Event.now(each.process, Kind.FAIL, each.start, 0, each.done));
                case OPEN, UNKNOWN -> throw new AssertionError("forgotten: " + each);
            }
        }
    }

    /// In the order of time. What happened at the same moment was under way together.
    private List<Event> ordered() {
        List<Event> all = new ArrayList<>(events);
        all.sort(Comparator.comparingLong(Event::at).thenComparing(Event::kind));
        return all;
    }

    /// Writes it to where it is judged, once for each model that it is expected to satisfy, or with `not-`
    /// not to: one line for each call and each answer, in the format of Jepsen's Elle.
    public void write(String name, String... expectations) throws IOException {
        List<String> lines = ordered().stream()
                .filter(each -> each.kind != Kind.COMMITS)
                .map(Event::json)
                .toList();
        for (String expectation : expectations) {
            Path folder = Files.createDirectories(FILES.resolve(expectation));
            Files.write(folder.resolve(name + ".jsonl"), lines);
        }
    }

    /// Fails if it is not snapshot isolation, by the oracle's timestamps.
    public void check() {
        History history = new History();
        Map<Integer, Long> begun = new HashMap<>();
        for (Event each : ordered()) {
            switch (each.kind) {
                case INVOKE -> begun.put(each.process, each.at);
                case COMMITS -> {}
                case OK, FAIL -> history.add(transaction(each, begun.get(each.process)));
            }
        }
        assertTrue(history.committed() > 0);
        history.check();
    }

    private static History.Transaction transaction(Event event, long begunAt) {
        Set<String> writes = new HashSet<>();
        Map<String, Long> reads = new HashMap<>();
        for (Operation each : event.done) {
            if (each.list == null) {
                writes.add(each.row);
            } else if (!writes.contains(each.row)) {
                reads.put(each.row, each.list.isEmpty() ? History.NOTHING : each.list.getLast() / APPENDS_MAX);
            }
        }
        return new History.Transaction(begunAt, event.at, event.start, event.commit, writes, reads);
    }

    private static String text(List<Long> list) {
        return list.stream().map(String::valueOf).collect(Collectors.joining(","));
    }

    private static List<Long> list(String text) {
        List<Long> list = new ArrayList<>();
        if (!text.isEmpty()) {
            for (String element : text.split(",")) {
                list.add(Long.parseLong(element));
            }
        }
        return list;
    }

    /// Returns the elements of a stored list.
    static List<Long> list(Bytes stored) {
        return list(stored.toText());
    }

    /// Returns a list with one more element, as it is stored.
    static Bytes bytes(List<Long> list, long element) {
        List<Long> longer = new ArrayList<>(list);
        longer.add(element);
        return Bytes.of(text(longer));
    }

    /// Receives the recorded operations.
    @FunctionalInterface
    public interface Recorder {
        /// Of each.
        void add(Event event);
    }

    /// Transaction of one process that records its operations.
    public static final class Recorded implements AutoCloseable {
        private final Recorder recorder;
        private final int process;
        private final List<Operation> done = new ArrayList<>();
        private int appends;
        final Transaction transaction;

        /// Begins one.
        public Recorded(Recorder recorder, int process, TransactionManager manager, Isolation isolation) {
            this.recorder = recorder;
            this.process = process;
            recorder.add(Event.now(process, Kind.INVOKE, 0, 0, List.of()));
            transaction = manager.begin(isolation);
        }

        /// Reads a row.
        public void read(Table table, String row) {
            noteRead(table, row, see(table, row));
        }

        /// Reads all these rows by one scan of a range in which there are no others.
        public void scan(Table table, KeyRange range, List<String> rows) {
            List<String> missing = new ArrayList<>(rows);
            try (Rows found = transaction.scan(table, Scan.ALL.withRange(range))) {
                while (found.hasNext()) {
                    Row row = found.next();
                    String key = row.key().toText();
                    missing.remove(key);
                    noteRead(table, key, list(row.get(LIST).orElseThrow().toText()));
                }
            }
            missing.forEach(row -> noteRead(table, row, List.of()));
        }

        /// Appends to a row, which it reads for that.
        public void append(Table table, String row) {
            List<Long> list = see(table, row);
            noteRead(table, row, list);
            long element = transaction.start().value() * APPENDS_MAX + appends++;
            assertTrue(appends < APPENDS_MAX);
            list.add(element);
            transaction.put(table, Bytes.of(row), LIST, Bytes.of(text(list)));
            done.add(new Operation(name(table, row), null, element));
        }

        private List<Long> see(Table table, String row) {
            return list(transaction
                    .get(table, Bytes.of(row), LIST)
                    .orElse(Bytes.EMPTY)
                    .toText());
        }

        private void noteRead(Table table, String row, List<Long> list) {
            done.add(new Operation(name(table, row), List.copyOf(list), 0));
        }

        private static String name(Table table, String row) {
            return table.name() + "/" + row;
        }

        /// Commits; returns whether it has committed. An unknown outcome has to be resolved later
        /// ([ListHistory#resolve]).
        public boolean commit() {
            long start = transaction.start().value();
            recorder.add(Event.now(process, Kind.COMMITS, start, 0, done));
            try {
                long commit = transaction.commit().value();
                recorder.add(Event.now(process, Kind.OK, start, commit, done));
                return true;
            } catch (OutcomeUnknownException later) {
                return false;
            } catch (AbortedException | TableException aborted) {
                failed();
                return false;
            }
        }

        /// Records that it has only read, under snapshot isolation: whatever the oracle would say, it used what it saw.
        public void recordRead() {
            long start = transaction.start().value();
            recorder.add(Event.now(process, Kind.OK, start, start, done));
        }

        /// It has aborted.
        public void failed() {
            recorder.add(Event.now(process, Kind.FAIL, transaction.start().value(), 0, done));
        }

        @Override
        public void close() {
            transaction.close();
        }
    }
}
