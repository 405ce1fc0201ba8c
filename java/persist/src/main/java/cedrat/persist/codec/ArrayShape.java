package cedrat.persist.codec;

import java.lang.reflect.Array;
import java.util.List;

/// Arrays: of a primitive type, `| length u32 | 0 u32 | elements |` as data; of references, references.
///
/// **Threads:** any.
public final class ArrayShape extends Shape {
    /// Offset of the first element of an array of a primitive type, from the object's first byte.
    static final int FIRST_ELEMENT = CommitBuffer.OBJECT_HEADER + 8;

    private final Class<?> component;
    private final String name;
    /// That of the elements' descriptor.
    private final char kind;

    /// @param name the class's name in the store
    public ArrayShape(Class<?> type, String name) {
        component = type.getComponentType();
        this.name = name;
        kind = component.descriptorString().charAt(0);
    }

    boolean isOfReferences() {
        return !component.isPrimitive();
    }

    @Override
    public boolean mayChange(Object array) {
        return Array.getLength(array) != 0;
    }

    @Override
    public StoredClass definition() {
        return new StoredClass(StoredClass.Kind.ARRAY, 0, 0, name, List.of());
    }

    /// Returns the number of bytes of an element.
    public int elementLength() {
        return length(kind);
    }

    static int length(char kind) {
        return switch (kind) {
            case 'I', 'F' -> 4;
            case 'S', 'C' -> 2;
            case 'B', 'Z' -> 1;
            default -> 8;
        };
    }

    /// Where an element lies, counted from the object's first byte.
    public long elementOffset(int index) {
        return isOfReferences()
                ? CommitBuffer.OBJECT_HEADER + 8L * index
                : FIRST_ELEMENT + (long) index * elementLength();
    }

    @Override
    public void write(Object object, ObjectWriter out) {
        if (object instanceof Object[] references) {
            out.endData();
            for (Object reference : references) {
                out.reference(reference);
            }
            return;
        }
        int length = Array.getLength(object);
        out.buffer.putInt(length);
        out.buffer.putInt(0);
        writeElements(object, 0, length, out.buffer);
        out.endData();
    }

    /// Elements of a primitive type.
    public void writeElements(Object array, int from, int length, CommitBuffer out) {
        if (array instanceof byte[] bytes) {
            out.putBytes(bytes, from, length);
            return;
        }
        for (int i = from; i < from + length; i++) {
            switch (array) {
                case int[] ints -> out.putInt(ints[i]);
                case long[] longs -> out.putLong(longs[i]);
                case char[] chars -> out.putShort(chars[i]);
                case double[] doubles -> out.putLong(Double.doubleToRawLongBits(doubles[i]));
                case boolean[] booleans -> out.putByte(booleans[i] ? 1 : 0);
                case short[] shorts -> out.putShort(shorts[i]);
                case float[] floats -> out.putInt(Float.floatToRawIntBits(floats[i]));
                default -> throw new AssertionError("no array: " + array.getClass());
            }
        }
    }

    @Override
    public Object create(ObjectBytes in) {
        if (isOfReferences()) {
            return Array.newInstance(component, in.referenceCount());
        }
        int length = in.getCount();
        if ((long) length * elementLength() > in.dataLength() - 8L) {
            throw in.damaged("it is too short for " + length + " elements");
        }
        return Array.newInstance(component, length);
    }

    @Override
    public Object fill(Object created, ObjectBytes in, Object[] references) {
        if (created instanceof Object[] array) {
            System.arraycopy(references, 0, array, 0, array.length);
            return array;
        }
        int length = Array.getLength(created);
        for (int i = 0; i < length; i++) {
            long bits = in.bits(8 + i * elementLength(), kind);
            switch (created) {
                case byte[] bytes -> bytes[i] = (byte) bits;
                case int[] ints -> ints[i] = (int) bits;
                case long[] longs -> longs[i] = bits;
                case char[] chars -> chars[i] = (char) bits;
                case double[] doubles -> doubles[i] = Double.longBitsToDouble(bits);
                case boolean[] booleans -> booleans[i] = bits != 0;
                case short[] shorts -> shorts[i] = (short) bits;
                case float[] floats -> floats[i] = Float.intBitsToFloat((int) bits);
                default -> throw new AssertionError("no array: " + created.getClass());
            }
        }
        return created;
    }

    @Override
    public String step(Object object, int reference) {
        return "[" + reference + "]";
    }
}
