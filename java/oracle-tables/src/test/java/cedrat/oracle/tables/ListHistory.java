package cedrat.oracle.tables;

import static cedrat.oracle.tables.World.VALUE;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;

/// A history from which a black-box checker infers what happened: rows hold lists, transactions read them and
/// append to them. One line for each call and each answer, in the format of Jepsen's Elle. **Threads:** any
/// may record.
final class ListHistory {
    /// Where histories lie that `./x test` has judged, each under what is expected of it.
    private static final Path FILES = Path.of("target/histories");

    private final ConcurrentLinkedQueue<String> lines = new ConcurrentLinkedQueue<>();
    private final AtomicInteger elements = new AtomicInteger();

    /// An element that no list has.
    int element() {
        return elements.incrementAndGet();
    }

    int size() {
        return lines.size();
    }

    /// Writes it to where it is judged, once for each model that it is expected to satisfy, or with `not-`
    /// not to.
    void write(String name, String... expectations) throws IOException {
        for (String expectation : expectations) {
            Path folder = Files.createDirectories(FILES.resolve(expectation));
            Files.write(folder.resolve(name + ".jsonl"), lines);
        }
    }

    private static String text(List<Integer> list) {
        return list.stream().map(String::valueOf).collect(Collectors.joining(","));
    }

    /// What a transaction of one process does, recorded as it does it.
    final class Recorded implements AutoCloseable {
        private final int process;
        private final List<String> done = new ArrayList<>();
        final Transaction transaction;

        /// Begins one.
        Recorded(int process, TransactionManager manager, Isolation isolation) {
            this.process = process;
            lines.add(line("invoke", List.of()));
            transaction = manager.begin(isolation);
        }

        void read(Table table, String row) {
            noteRead(
                    table,
                    row,
                    list(transaction.get(table, Bytes.of(row), VALUE).orElse(Bytes.EMPTY)));
        }

        /// Reads all these rows by one scan.
        void scan(Table table, List<String> rows) {
            List<String> missing = new ArrayList<>(rows);
            try (Rows found = transaction.scan(table, Scan.ALL)) {
                while (found.hasNext()) {
                    Row row = found.next();
                    String key = row.key().toText();
                    missing.remove(key);
                    noteRead(table, key, list(row.get(VALUE).orElseThrow()));
                }
            }
            missing.forEach(row -> noteRead(table, row, List.of()));
        }

        void append(Table table, String row) {
            List<Integer> list =
                    list(transaction.get(table, Bytes.of(row), VALUE).orElse(Bytes.EMPTY));
            noteRead(table, row, list);
            int element = element();
            list.add(element);
            transaction.put(table, Bytes.of(row), VALUE, Bytes.of(text(list)));
            done.add("[\"append\",\"" + table.name() + "/" + row + "\"," + element + "]");
        }

        private void noteRead(Table table, String row, List<Integer> list) {
            done.add("[\"r\",\"" + table.name() + "/" + row + "\",[" + text(list) + "]]");
        }

        private static List<Integer> list(Bytes value) {
            List<Integer> list = new ArrayList<>();
            if (value.length() > 0) {
                for (String element : value.toText().split(",")) {
                    list.add(Integer.parseInt(element));
                }
            }
            return list;
        }

        /// Commits; returns whether it has committed.
        boolean commit() {
            try {
                transaction.commit();
            } catch (AbortedException aborted) {
                failed();
                return false;
            }
            lines.add(line("ok", done));
            return true;
        }

        /// It has aborted.
        void failed() {
            lines.add(line("fail", done));
        }

        @Override
        public void close() {
            transaction.close();
        }

        private String line(String type, List<String> operations) {
            return "{\"type\":\"" + type + "\",\"process\":" + process + ",\"value\":[" + String.join(",", operations)
                    + "]}";
        }
    }
}
