package cedrat.oracle.tables;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/// Before-images of the writes of a transaction since its first savepoint. They form a stack, whose lower part may
/// be in the temporary file. For one thread at a time.
final class UndoLog {
    /// The value of a cell before a write.
    static final class BeforeImage {
        final Table table;
        final Bytes row;
        final Column column;
        /// `null` if there was nothing.
        final Bytes before;

        BeforeImage(Table table, Bytes row, Column column, Bytes before) {
            this.table = table;
            this.row = row;
            this.column = column;
            this.before = before;
        }

        private long bytes() {
            return WrittenRow.bytes(column, before == null ? Bytes.EMPTY : before) + row.length();
        }
    }

    /// A part of the stack in the file.
    private static final class Chunk {
        final long at;
        final long length;
        final int count;

        Chunk(long at, long length, int count) {
            this.at = at;
            this.length = length;
            this.count = count;
        }
    }

    private final SpillFile file;
    private final ArrayDeque<Chunk> spilled = new ArrayDeque<>();
    private final Map<String, Table> tables = new HashMap<>();
    private final List<BeforeImage> newest = new ArrayList<>();
    private long newestBytes;
    private int size;

    UndoLog(SpillFile file) {
        this.file = file;
    }

    /// Returns the number of before-images.
    int size() {
        return size;
    }

    /// Returns the number of bytes in memory.
    long bytes() {
        return newestBytes;
    }

    void add(BeforeImage image) {
        newest.add(image);
        newestBytes += image.bytes();
        size++;
    }

    /// Removes the newest before-image, and returns it.
    BeforeImage removeLast() {
        if (newest.isEmpty()) {
            Chunk last = spilled.getLast();
            newest.addAll(file.read(last.at, last.length, in -> decode(in, last.count)));
            spilled.removeLast();
            newest.forEach(each -> newestBytes += each.bytes());
        }
        BeforeImage last = newest.remove(newest.size() - 1);
        newestBytes -= last.bytes();
        size--;
        return last;
    }

    /// Writes the before-images in memory to the file.
    void spill() {
        if (newest.isEmpty()) {
            return;
        }
        long at = file.append(this::encode);
        spilled.add(new Chunk(at, file.length() - at, newest.size()));
        newest.forEach(each -> tables.put(each.table.name(), each.table));
        newest.clear();
        newestBytes = 0;
    }

    private void encode(DataOutputStream out) throws IOException {
        for (BeforeImage each : newest) {
            SpillFile.write(out, Bytes.of(each.table.name()));
            SpillFile.write(out, each.row);
            SpillFile.write(out, each.column.family());
            SpillFile.write(out, each.column.qualifier());
            out.writeBoolean(each.before != null);
            if (each.before != null) {
                SpillFile.write(out, each.before);
            }
        }
    }

    private List<BeforeImage> decode(DataInputStream in, int count) throws IOException {
        List<BeforeImage> decoded = new ArrayList<>(count);
        for (int index = 0; index < count; index++) {
            Table table = tables.get(SpillFile.readBytes(in).toText());
            Bytes row = SpillFile.readBytes(in);
            Column column = new Column(SpillFile.readBytes(in), SpillFile.readBytes(in));
            decoded.add(new BeforeImage(table, row, column, in.readBoolean() ? SpillFile.readBytes(in) : null));
        }
        return decoded;
    }
}
