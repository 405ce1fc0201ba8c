package cedrat.persist.form;

import cedrat.persist.codec.Cells;
import cedrat.persist.codec.Change;
import cedrat.persist.codec.ChangeWriter;
import cedrat.persist.codec.CommitBuffer;
import cedrat.persist.codec.ObjectBytes;
import cedrat.persist.codec.ObjectWriter;
import cedrat.persist.codec.Words;
import cedrat.persist.memory.Fields;
import cedrat.persist.record.UndoLog;
import java.util.function.Function;

/// The form of a collection that is made of nodes: its entries lie in [Cells], by which few entries are changed
/// with few bytes. As references, first the comparator, if the class has one; then the cells, each with a key or
/// an element, its value, if there is one, and the number of the next entry's cell, if the collection has an
/// order that does not come from its entries. A free cell has [Words#NO_ENTRY] first, and nulls.
///
/// As data, of collections with such an order, the cell of the first entry, and what else belongs to the class.
///
/// **Threads:** any.
public abstract class NodeForm extends Form {
    final Nodes nodes;
    final Fields slots;
    /// Number of references of a cell.
    final int width;
    /// Number of references before the cells.
    final int head;

    NodeForm(String name, Nodes nodes, Fields slots, boolean hasComparator) {
        super(name);
        this.nodes = nodes;
        this.slots = slots;
        width = 1 + (nodes.valueName == null ? 0 : 1) + (nodes.nextName == null ? 0 : 1);
        head = hasComparator ? 1 : 0;
    }

    final boolean isLinked() {
        return nodes.nextName != null;
    }

    /// The collection that has the nodes: of a set its map.
    Object inner(Object collection) {
        return collection;
    }

    /// Returns the number of entries.
    abstract int size(Object collection);

    /// Returns further data, for a Java collection with an order of its own.
    int flags(Object collection) {
        return 0;
    }

    Object comparator(Object collection) {
        return null;
    }

    /// Adds an entry to a collection that is loaded.
    abstract void add(Object collection, Object key, Object value);

    /// Makes an empty collection.
    abstract Object make(int flags);

    void setComparator(Object collection, Object[] references, ObjectBytes in) {}

    /// Where a cell begins, counted from the object's first byte.
    final long offset(int cell) {
        long data = isLinked() ? Long.BYTES : 0;
        return CommitBuffer.OBJECT_HEADER + data + (head + (long) cell * width) * Long.BYTES;
    }

    // ---- writing

    @Override
    void write(Object object, ObjectWriter out) {
        if (isLinked()) {
            out.buffer.putInt(size(object) == 0 ? -1 : 0);
            out.buffer.putInt(flags(object));
        }
        out.endData();
        if (head != 0) {
            out.reference(comparator(object));
        }
        int[] next = {0};
        int last = size(object) - 1;
        nodes.forEach(inner(object), node -> {
            int cell = next[0]++;
            write(node, cell == last ? -1 : cell + 1, out);
        });
    }

    /// @param next the cell of the next entry, or -1
    final void write(Object node, int next, ObjectWriter out) {
        out.reference(nodes.key(node));
        if (nodes.valueName != null) {
            out.reference(nodes.value(node));
        }
        if (isLinked()) {
            out.word(next < 0 ? 0 : Words.of(Words.INTEGER, next));
        }
    }

    final void writeFree(ObjectWriter out) {
        out.word(Words.of(Words.NO_ENTRY, 0));
        for (int i = 1; i < width; i++) {
            out.word(0);
        }
    }

    @Override
    public boolean writeChange(Change change, UndoLog log, ChangeWriter out) {
        if (!(change.identity.stored instanceof Cells cells)) {
            return false;
        }
        CellChange difference = new CellChange(this, change, cells, out);
        boolean isLess = difference.find(log);
        difference.leave();
        if (!isLess) {
            return false;
        }
        difference.write();
        change.written = difference;
        return true;
    }

    @Override
    public Object stored(Object object) {
        return new Cells(size(object));
    }

    @Override
    public void parts(Object object, PartVisitor parts) {
        Object inner = inner(object);
        if (inner != object) {
            parts.add(inner);
        }
        if (inner instanceof java.util.Map<?, ?> map) {
            CollectionForms.makeViews(map);
        }
        parts.addWithCells(nodes.table(inner));
        nodes.forEach(inner, parts::addEntry);
    }

    @Override
    String step(Object object, int reference) {
        if (reference < head) {
            return "comparator()";
        }
        int entry = (reference - head) / width;
        if (nodes.valueName == null) {
            return "[" + entry + "]";
        }
        return CollectionForms.step((java.util.Map<?, ?>) object, 2 * entry + (reference - head) % width);
    }

    @Override
    String storedStep(int reference) {
        if (reference < head) {
            return "comparator()";
        }
        return nodes.valueName != null && (reference - head) % width == 0 ? "a key" : super.storedStep(reference);
    }

    @Override
    int storedKey(int reference) {
        return nodes.valueName != null && reference >= head && (reference - head) % width == 1 ? reference - 1 : -1;
    }

    /// How one gets to what a node leads to.
    final String step(Object node, Function<Object, String> shown, int place) {
        if (nodes.valueName == null) {
            return "an element";
        }
        return place == 0 ? "a key" : "[" + shown.apply(nodes.key(node)) + "]";
    }

    // ---- reading

    @Override
    Object create(ObjectBytes in) {
        if (!isLinked()) {
            return make(0);
        }
        in.getInt();
        return make(in.getInt());
    }

    @Override
    Object fill(Object created, ObjectBytes in, Object[] references) {
        if ((references.length - head) % width != 0) {
            throw in.damaged("its last entry is not whole");
        }
        setComparator(created, references, in);
        int cells = (references.length - head) / width;
        if (isLinked()) {
            int count = 0;
            for (int cell = first(in); cell >= 0; cell = next(references, cell, in)) {
                if (cell >= cells || count++ == cells || isFree(references, cell)) {
                    throw in.damaged("its entries have no order");
                }
                add(created, references, cell);
            }
        } else {
            for (int cell = 0; cell < cells; cell++) {
                if (!isFree(references, cell)) {
                    add(created, references, cell);
                }
            }
        }
        return created;
    }

    private static int first(ObjectBytes in) {
        return (int) in.bits(0, 'I');
    }

    private void add(Object created, Object[] references, int cell) {
        int at = head + cell * width;
        add(created, references[at], nodes.valueName == null ? null : references[at + 1]);
    }

    private boolean isFree(Object[] references, int cell) {
        return references[head + cell * width] == Words.NOTHING;
    }

    private int next(Object[] references, int cell, ObjectBytes in) {
        Object next = references[head + (cell + 1) * width - 1];
        if (next != null && (!(next instanceof Integer number) || number < 0)) {
            throw in.damaged("an entry has none where the next one should be");
        }
        return next == null ? -1 : (Integer) next;
    }

    @Override
    public Object loaded(Object object, ObjectBytes in, Object[] references) {
        int count = (references.length - head) / width;
        Cells cells = new Cells(count);
        int used = 0;
        for (int cell = 0; cell < count; cell++) {
            if (isFree(references, cell)) {
                cells.addFree(cell);
            } else {
                used++;
            }
        }
        if (used != size(object)) {
            // Keys that were different are the same by now: the whole is written at the next change.
            return null;
        }
        int[] places = new int[used];
        if (isLinked()) {
            cells.first = first(in);
            int entry = 0;
            for (int cell = cells.first; cell >= 0; cell = next(references, cell, in)) {
                places[entry++] = cell;
            }
        } else if (!findPlaces(object, references, count, places)) {
            return null;
        }
        return new Placed(cells, places);
    }

    /// The cells of the entries, in the collection's order, by the keys themselves.
    private boolean findPlaces(Object object, Object[] references, int count, int[] places) {
        int[] byHash = new int[Integer.highestOneBit(Math.max(2, 2 * places.length)) << 1];
        for (int cell = 0; cell < count; cell++) {
            if (!isFree(references, cell)) {
                int at = System.identityHashCode(references[head + cell * width]) & byHash.length - 1;
                while (byHash[at] != 0) {
                    at = at + 1 & byHash.length - 1;
                }
                byHash[at] = cell + 1;
            }
        }
        int[] next = {0};
        boolean[] isKnown = {true};
        nodes.forEach(inner(object), node -> {
            Object key = nodes.key(node);
            int at = System.identityHashCode(key) & byHash.length - 1;
            while (byHash[at] != 0 && references[head + (byHash[at] - 1) * width] != key) {
                at = at + 1 & byHash.length - 1;
            }
            isKnown[0] &= byHash[at] != 0;
            places[next[0]++] = byHash[at] - 1;
        });
        return isKnown[0];
    }

    /// The loaded cells, and the places of their entries in the Java collection's order.
    public record Placed(Cells cells, int[] places) {}
}
