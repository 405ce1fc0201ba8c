package cedrat.persist.form;

import cedrat.persist.boot.Barrier;
import cedrat.persist.codec.Cells;
import cedrat.persist.codec.Change;
import cedrat.persist.codec.ChangeWriter;
import cedrat.persist.codec.CommitBuffer;
import cedrat.persist.codec.MapPart;
import cedrat.persist.codec.ObjectBytes;
import cedrat.persist.codec.ObjectWriter;
import cedrat.persist.codec.PartIdentity;
import cedrat.persist.codec.Parts;
import cedrat.persist.memory.Memory;
import cedrat.persist.record.UndoLog;
import java.util.AbstractCollection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.function.Consumer;

/// The form of a large `HashMap` or `HashSet`, which is loaded and stored by part: each [part][PartForm] is an object
/// of its own, with the entries of neighbouring buckets. So the bucket of a key has to be the same in each process.
///
/// As data the number of entries, that of buckets, and [HashNodes#CHECK]; as references the parts, or nulls.
///
/// - Where the check is another one, another version of the JDK has stored the map: it is loaded as a whole, and its
///   keys are put into new buckets.
///
/// **Threads:** any.
public final class PartedForm extends Form {
    private static final int DATA = 16;
    private static final int BUCKETS_MIN = Barrier.PARTED_BUCKETS_MIN;
    private static final int BUCKETS_MAX = 1 << 30;

    private final boolean hasValues;
    private final PartForm part;
    private final Nodes nodes;

    PartedForm(String name, PartForm part, boolean hasValues, Nodes nodes) {
        super(name);
        this.part = part;
        this.hasValues = hasValues;
        this.nodes = nodes;
    }

    private Object inner(Object collection) {
        return hasValues ? collection : HashNodes.map(collection);
    }

    /// The table of a collection.
    public Object[] table(Object collection) {
        return HashNodes.table(inner(collection));
    }

    private int size(Object collection) {
        return ((HashMap<?, ?>) inner(collection)).size();
    }

    /// Whether a collection, of which all is loaded, is stored by this form.
    boolean suits(Object collection) {
        Object[] table = table(collection);
        if (table == null || table.length < BUCKETS_MIN) {
            return false;
        }
        boolean[] isSuited = {true};
        for (int part = 0; part < Parts.count(table.length) && isSuited[0]; part++) {
            forEach(table, part, node -> isSuited[0] &= HashNodes.isLasting(HashNodes.key(node)));
        }
        return isSuited[0];
    }

    /// Whether a collection that is stored in cells is to be stored by this form from now on.
    ///
    /// @param stored its cells, or null
    public boolean isReached(Object collection, Object stored) {
        Object[] table = table(collection);
        int buckets = table == null ? 0 : table.length;
        if (buckets < BUCKETS_MIN || stored instanceof Cells cells && cells.buckets == buckets) {
            return false;
        }
        boolean isSuited = suits(collection);
        if (!isSuited && stored instanceof Cells cells) {
            // It is looked at again when the table has grown, and not at each change.
            cells.buckets = buckets;
        }
        return isSuited;
    }

    private static void forEach(Object[] table, int part, Consumer<Object> visitor) {
        HashNodes.forEach(table, Parts.first(part), Math.min(table.length, Parts.first(part + 1)), visitor);
    }

    private static boolean isEmpty(Object[] table, int part) {
        boolean isEmpty = true;
        for (int bucket = Parts.first(part); bucket < Math.min(table.length, Parts.first(part + 1)); bucket++) {
            isEmpty &= table[bucket] == null;
        }
        return isEmpty;
    }

    // ---- writing

    @Override
    void write(Object collection, ObjectWriter out) {
        Object[] table = table(collection);
        out.buffer.putInt(size(collection));
        out.buffer.putInt(table.length);
        out.buffer.putInt(HashNodes.CHECK);
        out.endData();
        for (int number = 0; number < Parts.count(table.length); number++) {
            if (isEmpty(table, number)) {
                out.reference(null);
            } else {
                MapPart part = new MapPart(number, hasValues);
                part.collection = collection;
                out.reference(part);
            }
        }
    }

    @Override
    public boolean writeChange(Change change, UndoLog log, ChangeWriter out) {
        if (!(change.identity.stored instanceof Parts parts)) {
            return false;
        }
        Object[] table = table(change.object);
        boolean isStored = table != null
                && table.length == parts.buckets
                && out.partOf(table) instanceof PartIdentity identity
                && identity.owner() == change.identity;
        if (isStored && new PartChange(this, change, parts, table, out).write(log)) {
            return true;
        }
        for (int number = 0; number < parts.words.length; number++) {
            out.load(parts, number);
        }
        return false;
    }

    Nodes nodes() {
        return nodes;
    }

    Object innerOf(Object collection) {
        return inner(collection);
    }

    PartForm part() {
        return part;
    }

    int sizeOf(Object collection) {
        return size(collection);
    }

    static int sizeOffset() {
        return CommitBuffer.OBJECT_HEADER;
    }

    static long referenceOffset(int number) {
        return CommitBuffer.OBJECT_HEADER + DATA + (long) number * Long.BYTES;
    }

    @Override
    public Object stored(Object collection) {
        Object[] table = table(collection);
        Parts parts = new Parts(table.length, size(collection), hasValues);
        for (int number = 0; number < parts.words.length; number++) {
            parts.loaded(new MapPart(number, hasValues));
        }
        Barrier.loadsParts();
        return parts;
    }

    @Override
    public void parts(Object collection, PartVisitor visitor) {
        frame(collection, visitor);
        Object[] table = table(collection);
        HashNodes.forEach(table, 0, table.length, visitor::addEntry);
    }

    /// As [#parts], without its nodes.
    public void frame(Object collection, PartVisitor visitor) {
        Object inner = inner(collection);
        if (inner != collection) {
            visitor.add(inner);
            HashNodes.setValues(inner, new OfSet(collection));
        }
        CollectionForms.makeViews((Map<?, ?>) inner);
        visitor.add(table(collection));
    }

    /// View of the values of the map of a set, which sets do not use: by it the map leads to its set. An iterator has
    /// the map alone, and could load nothing without the set.
    private static final class OfSet extends AbstractCollection<Object> {
        @SuppressWarnings("unused") // it is there to be reachable
        private final Object set;

        OfSet(Object set) {
            this.set = set;
        }

        @Override
        public Iterator<Object> iterator() {
            return Collections.emptyIterator();
        }

        @Override
        public int size() {
            return 0;
        }
    }

    @Override
    String step(Object collection, int reference) {
        return "";
    }

    @Override
    String storedStep(int reference) {
        return "";
    }

    // ---- reading

    @Override
    public boolean isByPart(ObjectBytes in) {
        ObjectBytes data = in.copy();
        data.getInt();
        int buckets = data.getInt();
        boolean isTable = buckets >= BUCKETS_MIN && buckets <= BUCKETS_MAX && Integer.bitCount(buckets) == 1;
        if (!isTable || in.referenceCount() != Parts.count(buckets)) {
            throw in.damaged("it has " + in.referenceCount() + " parts of " + buckets + " buckets");
        }
        return data.getInt() == HashNodes.CHECK;
    }

    @Override
    Object create(ObjectBytes in) {
        return hasValues ? new HashMap<>() : new HashSet<>();
    }

    @Override
    @SuppressWarnings("unchecked")
    Object fill(Object created, ObjectBytes in, Object[] references) {
        if (isByPart(in)) {
            int size = in.getCount();
            HashNodes.setTable(inner(created), HashNodes.newTable(in.getCount()), size);
            return created;
        }
        HashMap<Object, Object> map = (HashMap<Object, Object>) inner(created);
        for (Object one : references) {
            Object[] entries = one == null ? new Object[0] : (Object[]) one;
            for (int i = 0; i < entries.length; i += part.width()) {
                map.put(entries[i], hasValues ? entries[i + 1] : HashNodes.PRESENT);
            }
        }
        return created;
    }

    @Override
    public Object loaded(Object collection, ObjectBytes in, Object[] references) {
        if (!isByPart(in)) {
            return null;
        }
        ObjectBytes data = in.copy();
        int size = data.getInt();
        Parts parts = new Parts(data.getInt(), size, hasValues);
        for (int number = 0; number < parts.words.length; number++) {
            parts.words[number] = in.reference(number);
        }
        Barrier.loadsParts();
        return parts;
    }

    /// Puts entries that were read into the buckets of their part. A thread that finds one of the buckets finds all of
    /// its chain.
    ///
    /// @param references keys and values in turn, or elements
    /// @param visitor    gets each node before it is in its bucket
    /// @return false if a key does not belong into the part
    public boolean install(Object[] table, MapPart part, Object[] references, Consumer<Object> visitor) {
        int from = Parts.first(part.number);
        Object[] firsts = new Object[Math.min(table.length, Parts.first(part.number + 1)) - from];
        Object[] lasts = new Object[firsts.length];
        int count = references.length / this.part.width();
        for (int i = 0; i < count; i++) {
            Object key = references[i * this.part.width()];
            int bucket = (HashNodes.hashOf(key) & table.length - 1) - from;
            if (bucket < 0 || bucket >= firsts.length) {
                return false;
            }
            Object node = part.left.length == count ? left(part.left[i], key) : null;
            if (node == null) {
                node = HashNodes.newNode(key, hasValues ? references[2 * i + 1] : HashNodes.PRESENT);
            }
            visitor.accept(node);
            if (lasts[bucket] == null) {
                firsts[bucket] = node;
            } else if (HashNodes.next(lasts[bucket]) != node) {
                HashNodes.setNext(lasts[bucket], node);
            }
            lasts[bucket] = node;
        }
        Memory.publish();
        System.arraycopy(firsts, 0, table, from, firsts.length);
        return true;
    }

    /// A node that the program has yet, of a part that was unloaded.
    private static Object left(PartIdentity identity, Object key) {
        Object node = identity.get();
        return node != null && java.util.Objects.equals(HashNodes.key(node), key) ? node : null;
    }

    /// Takes the nodes of a part out of its buckets.
    ///
    /// @return the nodes, in their order
    public Object[] takeOut(Object collection, MapPart part) {
        Object[] all = PartForm.nodes(part).toArray();
        Object[] table = table(collection);
        int from = Parts.first(part.number);
        java.util.Arrays.fill(table, from, Math.min(table.length, Parts.first(part.number + 1)), null);
        return all;
    }
}
