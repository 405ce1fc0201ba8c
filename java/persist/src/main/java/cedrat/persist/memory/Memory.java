package cedrat.persist.memory;

import cedrat.persist.StoreException;
import java.lang.reflect.Field;
import jdk.internal.misc.Unsafe;

/// Objects that are made without a constructor, and fields that are written although they are final: the only
/// room that touches memory behind the language's back.
///
/// Sound because
///
/// 1. offsets come from [#offset], and are used with objects of the class that declares the field, and the
///    type of that field only: `Layout`, [Slot.Field], [Cursors] and the forms of the JDK's classes pair them;
/// 2. a reference that is put into a field was tested to be an instance of the field's type;
/// 3. an object becomes visible to others behind a fence, or by a lock;
/// 4. what the just-in-time compiler trusts to be constant, a field of a record, is only ever null and then
///    something: code that has taken it for null asks again, see `Barrier.readNull`.
///
/// **Threads:** any.
public final class Memory {
    private static final Unsafe UNSAFE = Unsafe.getUnsafe();

    private Memory() {}

    /// An object with zeros in all fields. Its class is initialised before.
    public static Object allocate(Class<?> type) {
        try {
            return UNSAFE.allocateInstance(type);
        } catch (InstantiationException e) {
            throw new StoreException(
                    "cannot load an object of " + type + ", because it is abstract: make it concrete", e);
        }
    }

    /// Whether making an object of a class would run its initialiser, or wait for it; also if this thread runs it.
    public static boolean isUninitialized(Class<?> type) {
        return UNSAFE.shouldBeInitialized(type);
    }

    public static void initialize(Class<?> type) {
        UNSAFE.ensureClassInitialized(type);
    }

    public static long offset(Field field) {
        return UNSAFE.objectFieldOffset(field);
    }

    /// The offset of a field of a class of the JDK.
    public static long offset(Class<?> type, String name) {
        return UNSAFE.objectFieldOffset(type, name);
    }

    public static Object getReference(Object base, long offset) {
        return UNSAFE.getReferenceAcquire(base, offset);
    }

    public static void putReference(Object base, long offset, Object value) {
        UNSAFE.putReferenceRelease(base, offset, value);
    }

    public static void publish() {
        UNSAFE.storeFence();
    }

    /// A primitive field's value as bits, of which as many count as the type has.
    public static long getBits(Object base, long offset, char kind) {
        return switch (kind) {
            case 'J', 'D' -> UNSAFE.getLong(base, offset);
            case 'I', 'F' -> UNSAFE.getInt(base, offset);
            case 'S', 'C' -> UNSAFE.getShort(base, offset);
            default -> UNSAFE.getByte(base, offset);
        };
    }

    public static void putBits(Object base, long offset, char kind, long bits) {
        switch (kind) {
            case 'J', 'D' -> UNSAFE.putLong(base, offset, bits);
            case 'I', 'F' -> UNSAFE.putInt(base, offset, (int) bits);
            case 'S', 'C' -> UNSAFE.putShort(base, offset, (short) bits);
            case 'Z' -> UNSAFE.putByte(base, offset, (byte) (bits & 1));
            default -> UNSAFE.putByte(base, offset, (byte) bits);
        }
    }
}
