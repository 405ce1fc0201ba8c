package cedrat.persist.codec;

import cedrat.persist.StoreException;

/// References as a store has them: a null, an identity, or a value that is no object of the store.
///
/// The top byte is the tag; the other 56 bits are an identity or the value (docs/formats/java-objects.md). A
/// boxed value that does not fit is an object.
///
/// **Threads:** any.
public final class Words {
    static final int BOOLEAN = 0x01;
    static final int BYTE = 0x02;
    static final int CHARACTER = 0x03;
    static final int SHORT = 0x04;
    public static final int INTEGER = 0x05;
    static final int LONG = 0x06;
    static final int FLOAT = 0x07;
    static final int DOUBLE = 0x08;
    /// A constant of an enum: the class's number and the constant's, 32 and 24 bits.
    public static final int CONSTANT = 0x09;
    /// One of the objects that each virtual machine has once.
    public static final int CANONICAL = 0x0a;
    /// A place of a collection where nothing is.
    public static final int NO_ENTRY = 0x0b;
    /// A text within the data of the object that has the reference: where it begins there.
    public static final int TEXT = 0x0c;
    /// A new object of the commit.
    public static final int NEW = 0xff;

    /// Value of an empty place.
    public static final Object NOTHING = new Object();

    private static final int TAG_SHIFT = 56;
    private static final long PAYLOAD = (1L << TAG_SHIFT) - 1;
    private static final int CONSTANT_BITS = 24;

    private Words() {}

    public static int tag(long word) {
        return (int) (word >>> TAG_SHIFT);
    }

    public static long payload(long word) {
        return word & PAYLOAD;
    }

    public static boolean isIdentity(long word) {
        return word != 0 && tag(word) == 0;
    }

    public static long of(int tag, long payload) {
        return (long) tag << TAG_SHIFT | payload & PAYLOAD;
    }

    /// An identity as people read it: page and slot.
    public static String show(long id) {
        return (id >>> 16) + ":" + (id & 0xffff);
    }

    public static long constant(int classNumber, int constant) {
        return of(CONSTANT, (long) classNumber << CONSTANT_BITS | constant);
    }

    public static int constantClass(long word) {
        return (int) (payload(word) >>> CONSTANT_BITS);
    }

    public static int constantNumber(long word) {
        return (int) word & (1 << CONSTANT_BITS) - 1;
    }

    public static boolean fitsConstant(int constant) {
        return constant < 1 << CONSTANT_BITS;
    }

    /// The word of a boxed value, or 0 if it has none.
    public static long ofBox(Object value) {
        return switch (value) {
            case Integer number -> of(INTEGER, number & 0xffff_ffffL);
            case Boolean bool -> of(BOOLEAN, bool ? 1 : 0);
            case Byte number -> of(BYTE, number & 0xffL);
            case Character character -> of(CHARACTER, character);
            case Short number -> of(SHORT, number & 0xffffL);
            case Float number -> of(FLOAT, Float.floatToRawIntBits(number) & 0xffff_ffffL);
            case Long number -> number << 8 >> 8 == number ? of(LONG, number) : 0;
            case Double number -> {
                long bits = Double.doubleToRawLongBits(number);
                yield (bits & 0xff) == 0 ? of(DOUBLE, bits >>> 8) : 0;
            }
            default -> 0;
        };
    }

    /// The boxed value of a word.
    ///
    /// @throws StoreException if it has another tag
    public static Object box(long word) {
        long payload = payload(word);
        return switch (tag(word)) {
            case BOOLEAN -> payload != 0;
            case BYTE -> (byte) payload;
            case CHARACTER -> (char) payload;
            case SHORT -> (short) payload;
            case INTEGER -> (int) payload;
            case LONG -> word << 8 >> 8;
            case FLOAT -> Float.intBitsToFloat((int) payload);
            case DOUBLE -> Double.longBitsToDouble(word << 8);
            case NO_ENTRY -> NOTHING;
            default ->
                throw new StoreException("the reference 0x" + Long.toHexString(word)
                        + " has a tag that this version of Cedrat does not know: use the version that has written it");
        };
    }
}
