package cedrat.persist.store;

import cedrat.persist.GraphStoreException;
import cedrat.persist.codec.CommitBuffer;
import cedrat.persist.codec.RefusedException;
import cedrat.persist.codec.Shape;
import java.util.Arrays;

/// Offsets in the bytes of a commit that name classes which are not defined in the store yet. The classes are
/// defined when everything else is written, so that a refused object leaves no class in the store.
///
/// **Threads:** that of the transaction.
final class UndefinedClasses {
    private static final int CAPACITY = 8;
    private static final int[] NO_OFFSETS = {};
    private static final Object[] NOTHING = {};

    private final Schema schema;
    private final CommitBuffer buffer;
    private int[] offsets = NO_OFFSETS;
    /// For each offset, the shape of an object's class, or a constant of an enum.
    private Object[] named = NOTHING;

    private int count;

    UndefinedClasses(Schema schema, CommitBuffer buffer) {
        this.schema = schema;
        this.buffer = buffer;
    }

    /// Begins an object of a class.
    void beginObject(Shape shape) {
        if (shape.number() == 0) {
            add(buffer.size(), shape);
        }
        buffer.beginObject(shape.number());
    }

    /// The last eight bytes are the reference to a constant whose enum is not defined.
    void endReference(Enum<?> constant) {
        add(buffer.size() - Long.BYTES, constant);
    }

    private void add(int offset, Object what) {
        if (count == offsets.length) {
            int length = Math.max(CAPACITY, 2 * count);
            offsets = Arrays.copyOf(offsets, length);
            named = Arrays.copyOf(named, length);
        }
        offsets[count] = offset;
        named[count++] = what;
    }

    /// Defines the classes in the store, and writes their numbers at the offsets.
    void define() throws GraphStoreException {
        for (int i = 0; i < count; i++) {
            if (named[i] instanceof Enum<?> constant) {
                buffer.setLong(offsets[i], word(constant));
            } else {
                buffer.setInt(offsets[i], schema.number((Shape) named[i]));
            }
        }
    }

    private long word(Enum<?> constant) throws GraphStoreException {
        try {
            return schema.word(constant);
        } catch (RefusedException e) {
            throw new AssertionError("the constant was accepted when it was referenced", e);
        }
    }
}
