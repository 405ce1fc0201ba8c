package cedrat.persist.codec;

import cedrat.persist.StoreException;
import cedrat.persist.boot.Persistable;
import cedrat.persist.memory.Memory;
import cedrat.persist.memory.Slot;
import cedrat.persist.memory.StackTraces;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.function.Function;

/// Positions of the fields of a woven class's objects in their bytes: primitive ones in the data, the longest
/// first, otherwise those of a superclass first, in the order of the definitions; references behind them in
/// that order.
///
/// Objects that were stored by an older definition of their class have a layout of their own, whose fields
/// lead to those of the class as it is now.
///
/// **Threads:** any.
public final class Layout extends Shape {
    /// A field that is stored.
    ///
    /// @param member what the definition says of it
    /// @param slot   the field in memory, or null: it is there no more
    /// @param converter makes a value of the field from the stored one, or null: the types fit
    public record StoredField(StoredClass.Member member, Slot.Field slot, Function<Object, Object> converter) {
        public StoredField(StoredClass.Member member, Slot.Field slot) {
            this(member, slot, null);
        }

        /// The value of the field, made from the stored one.
        Object convert(Object stored) {
            Object value;
            try {
                value = converter.apply(stored);
            } catch (RuntimeException e) {
                throw new StoreException(
                        "cannot load the field " + slot.reflected
                                + ", because the function of StoreOptions.convertField has thrown " + e,
                        e);
            }
            if (!slot.accepts(value)) {
                throw new StoreException("cannot load the field " + slot.reflected
                        + ", because the function of StoreOptions.convertField has returned "
                        + (value == null
                                ? "null"
                                : "an object of " + value.getClass().getName())
                        + ": return a value of the type of the field");
            }
            return value;
        }
    }

    /// Returns the object of a reference in the store.
    public interface Resolver<E extends Exception> {
        Object resolve(long word) throws E;
    }

    /// A primitive field.
    private static final class Primitive {
        final StoredClass.Member member;
        final Slot.Field slot;
        final char kind;
        /// In the data.
        final int offset;
        /// In memory, or -1.
        final long memory;

        final char memoryKind;
        /// The field, if its value is converted; otherwise null.
        final StoredField converted;

        Primitive(StoredField field, int offset) {
            converted = field.converter == null ? null : field;
            member = field.member;
            slot = field.slot;
            kind = member.descriptor().charAt(0);
            this.offset = offset;
            Field reflected = slot == null ? null : slot.reflected;
            memory = reflected == null ? -1 : Memory.offset(reflected);
            memoryKind = reflected == null
                    ? kind
                    : reflected.getType().descriptorString().charAt(0);
        }
    }

    /// A reference field.
    private static final class Reference {
        final StoredClass.Member member;
        final Slot.Field slot;
        final long memory;
        final Class<?> type;
        /// As of a primitive field.
        final StoredField converted;

        Reference(StoredField field) {
            converted = field.converter == null ? null : field;
            member = field.member;
            slot = field.slot;
            memory = slot == null ? -1 : Memory.offset(slot.reflected);
            type = slot == null ? null : slot.reflected.getType();
        }
    }

    private final Class<?> type;
    private final StoredClass definition;
    private final List<StoredField> fields;
    private final Primitive[] primitives;
    private final Reference[] references;
    private final int dataLength;
    private volatile boolean isInitialized;
    /// The thread that initialises the class and loads objects of it meanwhile, or null.
    private volatile Thread initializing;
    /// The layout of the class as it is now.
    private final Layout current;
    /// By the number of a reference, its number in the current layout, or -1.
    private final int[] inCurrent;
    /// A superclass is one of the JDK, whose code assigns to the objects too.
    private final boolean extendsJdk;

    /// @param fields  those of the superclasses first
    /// @param current the layout of the class as it is now; null of that itself
    public Layout(Class<?> type, StoredClass definition, List<StoredField> fields, Layout current) {
        this.type = type;
        extendsJdk = extendsJdk(type);
        this.definition = definition;
        this.fields = List.copyOf(fields);
        this.current = current == null ? this : current;
        List<StoredField> sorted = new ArrayList<>();
        List<Reference> found = new ArrayList<>();
        for (StoredField field : fields) {
            if (field.member.isPrimitive()) {
                sorted.add(field);
            } else {
                found.add(new Reference(field));
            }
        }
        sorted.sort(Comparator.comparingInt(Layout::negativeLength));
        primitives = new Primitive[sorted.size()];
        int offset = 0;
        for (int i = 0; i < primitives.length; i++) {
            primitives[i] = new Primitive(sorted.get(i), offset);
            offset -= negativeLength(sorted.get(i));
        }
        dataLength = offset + 7 & -8;
        references = found.toArray(Reference[]::new);
        inCurrent = new int[references.length];
        for (int i = 0; i < references.length; i++) {
            inCurrent[i] = references[i].slot == null ? -1 : this.current.reference(references[i].slot);
        }
    }

    private static boolean extendsJdk(Class<?> type) {
        Class<?> superclass = type;
        while (superclass != null && superclass.getClassLoader() != null) {
            superclass = superclass.getSuperclass();
        }
        return superclass != null && superclass != Object.class;
    }

    /// Gives an object its identity. Barriers in classes of the JDK find persistent objects by their hash codes only.
    public void identify(Object object, ObjectIdentity identity) {
        if (extendsJdk) {
            System.identityHashCode(object);
        }
        ((Persistable) object).cedrat$identity(identity);
    }

    private static int negativeLength(StoredField field) {
        return -ArrayShape.length(field.member.descriptor().charAt(0));
    }

    public Class<?> type() {
        return type;
    }

    public Layout current() {
        return current;
    }

    /// In the order of the definitions, those of the superclasses first.
    public List<StoredField> fields() {
        return fields;
    }

    @Override
    public StoredClass definition() {
        return definition;
    }

    // ---- fields

    public int referenceCount() {
        return references.length;
    }

    /// The number of a reference field, or -1: it does not last.
    public int reference(Slot.Field slot) {
        for (int i = 0; i < references.length; i++) {
            if (references[i].slot == slot) {
                return i;
            }
        }
        return -1;
    }

    public Object get(Object object, int reference) {
        return Memory.getReference(object, references[reference].memory);
    }

    /// @throws StoreException if the field cannot have that value
    public void put(Object object, int reference, Object value) {
        Reference field = references[reference];
        if (value != null && !field.type.isInstance(value)) {
            throw new StoreException("cannot load the field " + field.slot.reflected + ": the store has an "
                    + "object of " + value.getClass().getName() + " in it; give the field a type that can hold it");
        }
        Memory.putReference(object, field.memory, value);
    }

    /// Where a field lies, counted from the object's first byte, and how long it is: `offset << 8 | length`.
    /// -1: it does not last.
    public long place(Slot.Field slot) {
        if (slot.isReference()) {
            int reference = reference(slot);
            return reference < 0 ? -1 : (long) referenceOffset(reference) << 8 | Long.BYTES;
        }
        for (Primitive field : primitives) {
            if (field.slot == slot) {
                return (long) (CommitBuffer.OBJECT_HEADER + field.offset) << 8 | ArrayShape.length(field.kind);
            }
        }
        return -1;
    }

    private int referenceOffset(int reference) {
        return CommitBuffer.OBJECT_HEADER + dataLength + reference * Long.BYTES;
    }

    // ---- bytes

    @Override
    public void write(Object object, ObjectWriter out) {
        if (object instanceof Throwable thrown) {
            StackTraces.fill(thrown);
        }
        ObjectIdentity identity = (ObjectIdentity) ((Persistable) object).cedrat$identity();
        for (Primitive field : primitives) {
            out.buffer.putBits(field.kind, Memory.getBits(object, field.memory, field.memoryKind));
        }
        out.endData();
        for (int i = 0; i < references.length; i++) {
            writeReference(object, identity, i, out);
        }
    }

    /// A reader may load a pending field just now.
    private void writeReference(Object object, ObjectIdentity identity, int reference, ObjectWriter out) {
        out.step = reference;
        Object value = get(object, reference);
        if (value != null) {
            // It is locked, so that it is not unloaded.
            out.reference(value);
            return;
        }
        long word = 0;
        synchronized (identity) {
            value = get(object, reference);
            if (value == null) {
                word = identity.word(reference);
            }
        }
        if (word != 0) {
            out.word(word);
        } else {
            out.reference(value);
        }
    }

    /// Writes what lies in a range, whose ends are ends of fields.
    public void writeRange(Object object, int from, int to, ObjectWriter out) {
        ObjectIdentity identity = (ObjectIdentity) ((Persistable) object).cedrat$identity();
        int at = from;
        for (Primitive field : primitives) {
            int offset = CommitBuffer.OBJECT_HEADER + field.offset;
            if (offset >= at && offset < to) {
                out.buffer.putBits(field.kind, Memory.getBits(object, field.memory, field.memoryKind));
                at = offset + ArrayShape.length(field.kind);
            }
        }
        while (at < Math.min(to, referenceOffset(0))) {
            out.buffer.putByte(0);
            at++;
        }
        for (int i = 0; i < references.length; i++) {
            if (referenceOffset(i) >= at && referenceOffset(i) < to) {
                writeReference(object, identity, i, out);
            }
        }
    }

    /// Whether [#create] would neither run the initialiser of the class nor wait for it.
    public boolean isInitialized() {
        if (!isInitialized && initializing != Thread.currentThread()) {
            if (Memory.isUninitialized(type)) {
                return false;
            }
            isInitialized = true;
            initializing = null;
        }
        return true;
    }

    /// Initialises the class. If this thread is doing so already, it goes on as if it had.
    public void initialize() {
        Memory.initialize(type);
        if (Memory.isUninitialized(type)) {
            initializing = Thread.currentThread();
        }
    }

    @Override
    public Object create(ObjectBytes in) {
        Object object = Memory.allocate(type);
        if (in.dataLength() != dataLength || in.referenceCount() != references.length) {
            throw in.damaged("its length differs from that of the fields of " + definition.name());
        }
        for (Primitive field : primitives) {
            if (field.converted != null) {
                Object stored = Slot.box(field.kind, in.bits(field.offset, field.kind));
                field.slot.load(object, field.converted.convert(stored));
            } else if (field.memory >= 0) {
                long bits = in.bits(field.offset, field.kind);
                Memory.putBits(object, field.memory, field.memoryKind, widen(field.kind, field.memoryKind, bits));
            }
        }
        return object;
    }

    /// Fills the primitive fields of an object that were references when it was stored.
    public <E extends Exception> void fillConverted(Object object, ObjectBytes in, Resolver<E> resolver) throws E {
        for (int i = 0; i < references.length; i++) {
            Reference field = references[i];
            if (field.converted != null && !field.slot.isReference()) {
                field.slot.load(object, field.converted.convert(resolver.resolve(in.reference(i))));
            }
        }
    }

    /// Whether a field was another reference when the object was stored, and is converted when it is read.
    ///
    /// @param reference in the current layout
    public boolean isConverted(int reference) {
        return converted(reference) != null;
    }

    private StoredField converted(int reference) {
        for (int i = 0; i < references.length; i++) {
            if (inCurrent[i] == reference) {
                return references[i].converted;
            }
        }
        return null;
    }

    /// The value of a field, from the stored object that its reference leads to.
    ///
    /// @param reference in the current layout
    public Object converted(int reference, Object stored) {
        StoredField field = converted(reference);
        return field == null || stored == null ? stored : field.convert(stored);
    }

    /// The field of a reference.
    public Slot.Field slot(int reference) {
        return references[reference].slot;
    }

    /// The references of an object, by their numbers in the current layout; null if all are null.
    public long[] words(ObjectBytes in) {
        long[] words = null;
        for (int i = 0; i < references.length; i++) {
            long word = in.reference(i);
            if (word != 0 && inCurrent[i] >= 0) {
                if (words == null) {
                    words = new long[current.references.length];
                }
                words[inCurrent[i]] = word;
            }
        }
        return words;
    }

    /// The bits of a value as another type has it.
    private static long widen(char from, char to, long bits) {
        if (from == to) {
            return bits;
        }
        if (from == 'F') {
            return Double.doubleToRawLongBits(Float.intBitsToFloat((int) bits));
        }
        return switch (to) {
            case 'F' -> Float.floatToRawIntBits(bits);
            case 'D' -> Double.doubleToRawLongBits(bits);
            default -> bits;
        };
    }

    /// Whether each value of a primitive type is one of another type, the same for all that one can see.
    public static boolean isWidening(char from, char to) {
        return switch (from) {
            case 'B' -> "SIJFD".indexOf(to) >= 0;
            case 'S', 'C' -> "IJFD".indexOf(to) >= 0;
            case 'I' -> "JD".indexOf(to) >= 0;
            case 'F' -> to == 'D';
            default -> false;
        };
    }

    @Override
    public Object fill(Object created, ObjectBytes in, Object[] all) {
        return created;
    }

    @Override
    public String step(Object object, int reference) {
        return references[reference].member.name();
    }
}
