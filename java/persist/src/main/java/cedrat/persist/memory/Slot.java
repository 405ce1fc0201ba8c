package cedrat.persist.memory;

import java.lang.invoke.MethodType;
import java.lang.invoke.VarHandle;
import java.lang.reflect.Modifier;
import java.util.Map;
import java.util.Properties;

/// A kind of place whose old value an `UndoLog` keeps, and how the value is put back.
///
/// Values of primitive types are kept as bits, so that keeping one allocates nothing.
public abstract class Slot {
    /// Puts an old value back.
    ///
    /// @param base  the object, array or class
    /// @param index the element of an array
    /// @param bits  a primitive value
    /// @param value a reference, or several values
    public abstract void restore(Object base, int index, long bits, Object value);

    /// The bits of a boxed primitive value.
    static long bits(Object boxed) {
        return switch (boxed) {
            case Boolean value -> value ? 1 : 0;
            case Character value -> value;
            case Float value -> Float.floatToRawIntBits(value);
            case Double value -> Double.doubleToRawLongBits(value);
            case Number value -> value.longValue();
            case null, default -> 0;
        };
    }

    /// A primitive value, boxed.
    public static Object box(char kind, long bits) {
        return switch (kind) {
            case 'Z' -> bits != 0;
            case 'B' -> (byte) bits;
            case 'C' -> (char) bits;
            case 'S' -> (short) bits;
            case 'I' -> (int) bits;
            case 'J' -> bits;
            case 'F' -> Float.intBitsToFloat((int) bits);
            default -> Double.longBitsToDouble(bits);
        };
    }

    /// The bits of an element of an array of a primitive type.
    public static long bitsOfElement(Object array, int index) {
        return switch (array) {
            case int[] ints -> ints[index];
            case long[] longs -> longs[index];
            case byte[] bytes -> bytes[index];
            case char[] chars -> chars[index];
            case double[] doubles -> Double.doubleToRawLongBits(doubles[index]);
            case boolean[] booleans -> booleans[index] ? 1 : 0;
            case short[] shorts -> shorts[index];
            case float[] floats -> Float.floatToRawIntBits(floats[index]);
            default -> 0;
        };
    }

    /// An element of an array.
    public static final Slot ELEMENT = new Slot() {
        @Override
        public void restore(Object base, int index, long bits, Object value) {
            switch (base) {
                case Object[] array -> array[index] = value;
                case int[] array -> array[index] = (int) bits;
                case long[] array -> array[index] = bits;
                case byte[] array -> array[index] = (byte) bits;
                case char[] array -> array[index] = (char) bits;
                case double[] array -> array[index] = Double.longBitsToDouble(bits);
                case boolean[] array -> array[index] = bits != 0;
                case short[] array -> array[index] = (short) bits;
                case float[] array -> array[index] = Float.intBitsToFloat((int) bits);
                default -> throw new AssertionError("no array: " + base.getClass());
            }
        }
    };

    /// Elements of an array from an index on, as many as the array of their old values has.
    public static final Slot ELEMENTS = new Slot() {
        @Override
        public void restore(Object base, int index, long bits, Object value) {
            System.arraycopy(value, 0, base, index, (int) bits);
        }
    };

    /// Content of a string builder.
    public static final Slot TEXT = new Slot() {
        @Override
        public void restore(Object base, int index, long bits, Object value) {
            if (base instanceof StringBuilder builder) {
                builder.setLength(0);
                builder.append((String) value);
            } else {
                StringBuffer buffer = (StringBuffer) base;
                buffer.setLength(0);
                buffer.append((String) value);
            }
        }
    };

    /// Content of [Properties], without their defaults.
    public static final Slot PROPERTIES = new Slot() {
        @Override
        public void restore(Object base, int index, long bits, Object value) {
            Properties properties = (Properties) base;
            properties.clear();
            properties.putAll((Map<?, ?>) value);
        }
    };

    /// State of a collection of `java.util.concurrent`, or of an adder.
    public static final Slot CONCURRENT = new Slot() {
        @Override
        public void restore(Object base, int index, long bits, Object value) {
            ((ConcurrentState) value).restore(base);
        }
    };

    /// The fields of an object that may change, all at once.
    public static final class Fields extends Slot {
        private final Field[] fields;

        Fields(Field[] fields) {
            this.fields = fields;
        }

        /// Returns the first field to which code without barriers may assign, or null.
        public Field unguarded() {
            for (Field field : fields) {
                if (!field.hasBarriers) {
                    return field;
                }
            }
            return null;
        }

        /// Where a field is among them, or -1: it does not change.
        public int place(String name) {
            for (int i = 0; i < fields.length; i++) {
                if (fields[i].reflected.getName().equals(name)) {
                    return i;
                }
            }
            return -1;
        }

        /// Their values, boxed.
        public Object[] read(Object base) {
            Object[] values = new Object[fields.length];
            for (int i = 0; i < values.length; i++) {
                values[i] = fields[i].read(base);
            }
            return values;
        }

        @Override
        public void restore(Object base, int index, long bits, Object value) {
            Object[] values = (Object[]) value;
            for (int i = 0; i < values.length; i++) {
                fields[i].restore(base, 0, bits(values[i]), values[i]);
            }
        }
    }

    /// A field, of an object or a class.
    public static final class Field extends Slot {
        /// The field itself.
        public final java.lang.reflect.Field reflected;
        /// Whether it is one of [MemoFields].
        public final boolean isMemo;
        /// Whether all code that assigns to it has barriers.
        public final boolean hasBarriers;

        private final VarHandle handle;
        /// The class that declares a static field, otherwise null.
        private final Class<?> owner;
        private final char kind;
        /// Where a final field lies in its objects, which handles do not write; otherwise -1.
        private final long offset;

        Field(
                java.lang.reflect.Field reflected,
                VarHandle handle,
                Class<?> owner,
                boolean isMemo,
                boolean hasBarriers) {
            this.reflected = reflected;
            this.isMemo = isMemo;
            this.hasBarriers = hasBarriers;
            this.handle = handle;
            this.owner = owner;
            kind = handle.varType().isPrimitive()
                    ? handle.varType().descriptorString().charAt(0)
                    : 'L';
            offset = owner == null && Modifier.isFinal(reflected.getModifiers()) ? Memory.offset(reflected) : -1;
        }

        /// Returns the class of the field: assignments to static fields may name a subclass.
        public Object home(Object base) {
            return owner == null ? base : owner;
        }

        public boolean isTransient() {
            return Modifier.isTransient(reflected.getModifiers());
        }

        public boolean isReference() {
            return kind == 'L';
        }

        /// The value of a field that is a reference.
        public Object readReference(Object base) {
            return owner == null ? handle.getVolatile(base) : handle.getVolatile();
        }

        /// The value of a field that is none.
        public long readBits(Object base) {
            return owner == null ? bitsOfField(base) : bits(handle.getVolatile());
        }

        private long bitsOfField(Object base) {
            return switch (kind) {
                case 'I' -> (int) handle.getVolatile(base);
                case 'J' -> (long) handle.getVolatile(base);
                case 'Z' -> (boolean) handle.getVolatile(base) ? 1 : 0;
                case 'B' -> (byte) handle.getVolatile(base);
                case 'C' -> (char) handle.getVolatile(base);
                case 'S' -> (short) handle.getVolatile(base);
                case 'F' -> Float.floatToRawIntBits((float) handle.getVolatile(base));
                default -> Double.doubleToRawLongBits((double) handle.getVolatile(base));
            };
        }

        /// The field's value, boxed.
        public Object read(Object base) {
            return owner == null ? handle.getVolatile(base) : handle.getVolatile();
        }

        @Override
        public void restore(Object base, int index, long bits, Object value) {
            // The mode of access fits volatile fields, and does no harm to others.
            if (offset >= 0) {
                restoreFinal(base, bits, value);
            } else if (owner == null) {
                restoreField(base, bits, value);
            } else {
                restoreStatic(bits, value);
            }
        }

        /// Restores a final field that was assigned by reflection.
        private void restoreFinal(Object base, long bits, Object value) {
            if (kind == 'L') {
                Memory.putReference(base, offset, value);
            } else {
                Memory.putBits(base, offset, kind, bits);
            }
        }

        /// Whether the field can have a value, boxed if the field is primitive.
        public boolean accepts(Object value) {
            return value == null
                    ? isReference()
                    : MethodType.methodType(handle.varType())
                            .wrap()
                            .returnType()
                            .isInstance(value);
        }

        /// Gives the field of an object that was made without a constructor its value.
        public void load(Object base, Object value) {
            restore(base, 0, bits(value), value);
        }

        private void restoreField(Object base, long bits, Object value) {
            switch (kind) {
                case 'L' -> handle.setVolatile(base, value);
                case 'I' -> handle.setVolatile(base, (int) bits);
                case 'J' -> handle.setVolatile(base, bits);
                case 'Z' -> handle.setVolatile(base, bits != 0);
                case 'B' -> handle.setVolatile(base, (byte) bits);
                case 'C' -> handle.setVolatile(base, (char) bits);
                case 'S' -> handle.setVolatile(base, (short) bits);
                case 'F' -> handle.setVolatile(base, Float.intBitsToFloat((int) bits));
                default -> handle.setVolatile(base, Double.longBitsToDouble(bits));
            }
        }

        private void restoreStatic(long bits, Object value) {
            switch (kind) {
                case 'L' -> handle.setVolatile(value);
                case 'I' -> handle.setVolatile((int) bits);
                case 'J' -> handle.setVolatile(bits);
                case 'Z' -> handle.setVolatile(bits != 0);
                case 'B' -> handle.setVolatile((byte) bits);
                case 'C' -> handle.setVolatile((char) bits);
                case 'S' -> handle.setVolatile((short) bits);
                case 'F' -> handle.setVolatile(Float.intBitsToFloat((int) bits));
                default -> handle.setVolatile(Double.longBitsToDouble(bits));
            }
        }
    }
}
