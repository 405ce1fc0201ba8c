package cedrat.persist.form;

import cedrat.persist.codec.Cells;
import cedrat.persist.codec.Change;
import cedrat.persist.codec.ChangeWriter;
import cedrat.persist.codec.CommitBuffer;
import cedrat.persist.codec.PartIdentity;
import cedrat.persist.memory.Slot;
import cedrat.persist.record.UndoLog;
import java.util.Arrays;
import java.util.Comparator;
import java.util.IdentityHashMap;
import java.util.Map;

/// Changes of a transaction to a collection that is made of nodes.
///
/// The undo log has the assignments to older nodes, to the array by which they are found, and to the
/// collection. Nodes that have come or gone are found from there: whatever led to one that has gone was stored
/// to, or has gone itself; whatever leads to one that has come was stored to, or has come itself. That holds of an
/// array that is known as the collection's, of which the log has the assignments. After each commit the
/// array is known; if it is unknown, because it is new, all nodes are examined.
///
/// - It writes only the cells of entries that were added or removed, or have another key, value or
///   successor.
///
/// **Threads:** that of the commit.
final class CellChange implements Runnable {
    /// Cost of one more patch beside its references, in bytes.
    private static final int PATCH = 24;
    /// So few cells may be free whatever the collection has.
    private static final int FREE_MIN = 16;

    /// A node that may have come, gone, or changed.
    private static final class Candidate {
        final Object node;
        /// Its cell by the last commit, or -1.
        int before = -1;
        /// Its cell by this one, or -1.
        int cell = -1;
        /// Values of its fields when the transaction began, or null: they are unchanged.
        Object[] old;
        /// Its identity as a part, or null.
        PartIdentity part;

        Candidate(Object node) {
            this.node = node;
        }
    }

    /// A cell that is to be written; without a node if it is free from now on.
    private record Written(int cell, Object node) {}

    private final NodeForm form;
    private final Nodes nodes;
    private final Change change;
    private final Cells cells;
    private final ChangeWriter out;
    private final Object inner;
    private final Object[] table;
    private final boolean isTableNew;

    private final Map<Object, Candidate> candidates = new IdentityHashMap<>();
    private Candidate[] list = new Candidate[16];
    private int listCount;

    private Written[] written = new Written[16];
    private int writtenCount;
    /// Cells that become free, of which the first are given to what has come.
    private int[] freed = new int[8];

    private int freedCount;
    private int freedTaken;
    private int freeTaken;
    private int count;
    private int first;

    CellChange(NodeForm form, Change change, Cells cells, ChangeWriter out) {
        this.form = form;
        this.change = change;
        this.cells = cells;
        this.out = out;
        nodes = form.nodes;
        inner = form.inner(change.object);
        table = nodes.table(inner);
        isTableNew = table != null && part(table) == null;
        count = cells.count();
    }

    /// Returns the identity of a node or the table as a part of the stored collection, or null.
    private PartIdentity part(Object object) {
        return out.partOf(object) instanceof PartIdentity part && part.cells == cells ? part : null;
    }

    // ---- finding

    /// @return false if the whole is to be written
    boolean find(UndoLog log) {
        for (int entry : change.entries()) {
            if (!look(log, entry)) {
                return false;
            }
        }
        if (isTableNew) {
            nodes.forEach(inner, this::addIfNew);
        }
        for (int i = 0; i < listCount; i++) {
            follow(list[i]);
        }
        place();
        choose();
        int size = form.size(change.object);
        long bytes = (long) writtenCount * (PATCH + form.width * Long.BYTES);
        int free = count - size;
        return bytes < (long) size * form.width * Long.BYTES && free <= Math.max(FREE_MIN, size);
    }

    /// Says which nodes have gone, as far as they were found.
    void leave() {
        for (int i = 0; i < listCount; i++) {
            Candidate candidate = list[i];
            if (candidate.cell < 0 && candidate.part != null) {
                out.leave(candidate.part);
            }
        }
    }

    private boolean look(UndoLog log, int entry) {
        Object base = log.base(entry);
        Slot slot = log.slot(entry);
        Object old = log.value(entry);
        if (slot == Slot.ELEMENT || slot == Slot.ELEMENTS) {
            addNodes(old);
            if (base == table) {
                int from = log.index(entry);
                int length = slot == Slot.ELEMENT ? 1 : (int) log.bits(entry);
                for (int i = from; i < from + length; i++) {
                    addNodes(table[i]);
                }
            }
            return true;
        }
        if (!(slot instanceof Slot.Fields fields)) {
            return false;
        }
        addNodes(old);
        if (nodes.isNode(base)) {
            Candidate candidate = add(base);
            if (candidate.old == null) {
                candidate.old = (Object[]) old;
            }
        } else {
            addNodes(fields.read(base));
        }
        return true;
    }

    private void addNodes(Object value) {
        if (value instanceof Object[] values) {
            for (Object one : values) {
                if (nodes.isNode(one)) {
                    add(one);
                }
            }
        } else if (nodes.isNode(value)) {
            add(value);
        }
    }

    private void addIfNew(Object node) {
        if (part(node) == null) {
            add(node);
        }
    }

    private Candidate add(Object node) {
        Candidate known = candidates.get(node);
        if (known != null) {
            return known;
        }
        Candidate candidate = new Candidate(node);
        candidates.put(node, candidate);
        if (listCount == list.length) {
            list = Arrays.copyOf(list, 2 * listCount);
        }
        list[listCount++] = candidate;
        return candidate;
    }

    /// Looks at what a node leads to. One that has gone may lead to others that have; one that has come, or was
    /// stored to, may lead to others that have come.
    private void follow(Candidate candidate) {
        candidate.part = part(candidate.node);
        candidate.before = candidate.part == null ? -1 : candidate.part.cell;
        boolean isIn = nodes.contains(inner, candidate.node);
        candidate.cell = isIn ? Integer.MAX_VALUE : -1;
        if (isIn && candidate.before >= 0 && candidate.old == null) {
            return;
        }
        for (Object value : form.slots.slot(candidate.node.getClass()).read(candidate.node)) {
            if (nodes.isNode(value) && (!isIn || part(value) == null)) {
                add(value);
            }
        }
    }

    // ---- cells

    private void place() {
        for (int i = 0; i < listCount; i++) {
            Candidate candidate = list[i];
            if (candidate.cell < 0 && candidate.before >= 0) {
                if (freedCount == freed.length) {
                    freed = Arrays.copyOf(freed, 2 * freedCount);
                }
                freed[freedCount++] = candidate.before;
            }
        }
        for (int i = 0; i < listCount; i++) {
            Candidate candidate = list[i];
            if (candidate.cell >= 0) {
                candidate.cell = candidate.before >= 0 ? candidate.before : take();
            }
        }
    }

    private int take() {
        if (freedTaken < freedCount) {
            return freed[freedTaken++];
        }
        return freeTaken < cells.freeCount() ? cells.free(freeTaken++) : count++;
    }

    private void choose() {
        for (int i = freedTaken; i < freedCount; i++) {
            write(freed[i], null);
        }
        for (int i = 0; i < listCount; i++) {
            Candidate candidate = list[i];
            if (candidate.cell >= 0 && (candidate.before < 0 || isDifferent(candidate))) {
                write(candidate.cell, candidate.node);
            }
        }
        if (form.isLinked()) {
            Object node = nodes.first(inner);
            first = node == null ? -1 : cell(node);
        }
    }

    private void write(int cell, Object node) {
        if (writtenCount == written.length) {
            written = Arrays.copyOf(written, 2 * writtenCount);
        }
        written[writtenCount++] = new Written(cell, node);
    }

    private boolean isDifferent(Candidate candidate) {
        if (candidate.old == null) {
            return false;
        }
        Slot.Fields fields = form.slots.slot(candidate.node.getClass());
        Object node = candidate.node;
        return isDifferent(fields, nodes.keyName, candidate.old, nodes.key(node))
                || nodes.valueName != null && isDifferent(fields, nodes.valueName, candidate.old, nodes.value(node))
                || form.isLinked() && isDifferent(fields, nodes.nextName, candidate.old, nodes.next(node));
    }

    private static boolean isDifferent(Slot.Fields fields, String name, Object[] old, Object now) {
        int place = fields.place(name);
        return place >= 0 && old[place] != now;
    }

    /// The cell of a node that is in the collection.
    private int cell(Object node) {
        Candidate candidate = candidates.get(node);
        return candidate != null ? candidate.cell : part(node).cell;
    }

    // ---- writing

    void write() {
        lockParts();
        Arrays.sort(written, 0, writtenCount, Comparator.comparingInt(Written::cell));
        change.steps = this::step;
        int at = 0;
        while (at < writtenCount) {
            out.buffer.beginPatch(change.identity.id, form.offset(written[at].cell));
            int last;
            do {
                write(at);
                last = written[at++].cell;
            } while (at < writtenCount && written[at].cell == last + 1);
            out.buffer.end();
        }
        if (form.isLinked() && first != cells.first) {
            out.patchInt(change, CommitBuffer.OBJECT_HEADER, first);
        }
    }

    /// Locks the new parts: the commit has the locks of all that it writes, and new nodes have no identity yet.
    private void lockParts() {
        for (int i = 0; i < listCount; i++) {
            if (list[i].cell >= 0 && list[i].before < 0) {
                out.lockPart(list[i].node);
            }
        }
        if (isTableNew) {
            out.lockPart(table);
        }
    }

    private void write(int at) {
        out.step = at * form.width;
        Object node = written[at].node;
        if (node == null) {
            form.writeFree(out);
            return;
        }
        Object next = form.isLinked() ? nodes.next(node) : null;
        form.write(node, next == null ? -1 : cell(next), out);
    }

    /// How one gets to what was written.
    private String step(int reference) {
        return form.step(written[reference / form.width].node, CollectionForms::show, reference % form.width);
    }

    // ---- afterwards

    /// The commit is appended.
    @Override
    public void run() {
        cells.take(freeTaken, count);
        for (int i = freedTaken; i < freedCount; i++) {
            cells.addFree(freed[i]);
        }
        cells.first = first;
        for (int i = 0; i < listCount; i++) {
            Candidate candidate = list[i];
            if (candidate.cell < 0 && candidate.part != null) {
                candidate.part.cells = null;
            } else if (candidate.cell >= 0 && candidate.before < 0) {
                out.attachPart(change.identity, candidate.node, cells, candidate.cell);
            }
        }
        if (isTableNew) {
            out.attachPart(change.identity, table, cells, -1);
        }
    }
}
