package cedrat.persist.form;

import cedrat.persist.codec.Change;
import cedrat.persist.codec.ChangeWriter;
import cedrat.persist.codec.MapPart;
import cedrat.persist.codec.PartIdentity;
import cedrat.persist.codec.Parts;
import cedrat.persist.memory.Slot;
import cedrat.persist.record.UndoLog;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;

/// Changes of a transaction to a collection that is stored by part. A part is written as a whole if one of its buckets
/// or nodes was assigned to: whatever comes or goes, the bucket or the node before it was.
///
/// **Threads:** that of the commit.
final class PartChange implements Runnable {
    private final PartedForm form;
    private final Change change;
    private final Parts parts;
    private final Object[] table;
    private final ChangeWriter out;
    private final BitSet changed = new BitSet();
    /// Parts that were written, and the number of the first reference of each.
    private final List<MapPart> written = new ArrayList<>();

    private final List<Integer> steps = new ArrayList<>();
    /// Nodes that may have gone.
    private final Set<Object> older = Collections.newSetFromMap(new IdentityHashMap<>());

    private int size;

    PartChange(PartedForm form, Change change, Parts parts, Object[] table, ChangeWriter out) {
        this.form = form;
        this.change = change;
        this.parts = parts;
        this.table = table;
        this.out = out;
    }

    /// @return false if the collection is to be written as a whole
    boolean write(UndoLog log) {
        for (int entry : change.entries()) {
            find(log, entry);
        }
        for (int number = changed.nextSetBit(0); number >= 0; number = changed.nextSetBit(number + 1)) {
            out.load(parts, number);
        }
        leave();
        if (!isLasting()) {
            return false;
        }
        size = form.sizeOf(change.object);
        if (size != parts.size) {
            out.patchInt(change, PartedForm.sizeOffset(), size);
        }
        change.steps = this::step;
        for (int number = changed.nextSetBit(0); number >= 0; number = changed.nextSetBit(number + 1)) {
            write(number);
        }
        change.written = this;
        return true;
    }

    private void find(UndoLog log, int entry) {
        Object base = log.base(entry);
        Slot slot = log.slot(entry);
        if (base == table) {
            int from = log.index(entry);
            int length = slot == Slot.ELEMENTS ? (int) log.bits(entry) : 1;
            changed.set(Parts.part(from), Parts.part(from + length - 1) + 1);
        } else if (HashNodes.isNode(base)) {
            changed.set(Parts.part(HashNodes.hash(base) & table.length - 1));
        }
        if (log.value(entry) instanceof Object[] values) {
            for (Object value : values) {
                addOlder(value);
            }
        } else {
            addOlder(log.value(entry));
        }
    }

    private void addOlder(Object value) {
        if (HashNodes.isNode(value)) {
            older.add(value);
        }
    }

    /// Says which nodes have gone. One that has gone may lead to others that have.
    private void leave() {
        for (Object first : older.toArray()) {
            Object node = first;
            while (node != null && !form.nodes().contains(form.innerOf(change.object), node)) {
                if (out.partOf(node) instanceof PartIdentity part && part.owner() == change.identity) {
                    out.leave(part);
                }
                Object next = HashNodes.next(node);
                node = next != null && older.add(next) ? next : null;
            }
        }
    }

    private boolean isLasting() {
        boolean[] isLasting = {true};
        changed.stream().forEach(number -> {
            int to = Math.min(table.length, Parts.first(number + 1));
            HashNodes.forEach(
                    table, Parts.first(number), to, node -> isLasting[0] &= HashNodes.isLasting(HashNodes.key(node)));
        });
        return isLasting[0];
    }

    private void write(int number) {
        HashNodes.forEach(table, Parts.first(number), Math.min(table.length, Parts.first(number + 1)), out::lockPart);
        MapPart part = parts.get(number);
        if (parts.words[number] != 0) {
            out.step = steps.isEmpty() ? 0 : out.step;
            written.add(part);
            steps.add(out.step);
            out.putPart(parts.words[number], part);
            return;
        }
        part = new MapPart(number, parts.hasValues);
        part.collection = change.object;
        int step = out.step;
        out.buffer.beginPatch(change.identity.id, PartedForm.referenceOffset(number));
        // Its own path leads on from the collection.
        out.step = -1;
        out.reference(part);
        out.buffer.end();
        out.step = step;
        written.add(part);
        steps.add(step);
    }

    /// How one gets to what was written.
    private String step(int reference) {
        if (reference < 0) {
            return "";
        }
        int at = written.size() - 1;
        while (at > 0 && steps.get(at) > reference) {
            at--;
        }
        return form.part().step(written.get(at), reference - steps.get(at));
    }

    /// The commit is appended.
    @Override
    public void run() {
        parts.size = size;
        for (MapPart part : written) {
            for (Object node : PartForm.nodes(part)) {
                out.attachPart(change.identity, node, null, -1);
            }
        }
    }
}
