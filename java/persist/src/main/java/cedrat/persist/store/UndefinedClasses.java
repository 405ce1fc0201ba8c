package cedrat.persist.store;

import cedrat.persist.GraphStoreException;
import cedrat.persist.codec.CommitBuffer;
import cedrat.persist.codec.RefusedException;
import cedrat.persist.codec.Shape;
import java.util.Arrays;

/// Offsets in the bytes of a commit that name classes which are not defined in the store yet. The commit defines them
/// too, when everything else is written: other commits that define classes wait from then on.
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
    private boolean isDefining;

    UndefinedClasses(Schema schema, CommitBuffer buffer) {
        this.schema = schema;
        this.buffer = buffer;
    }

    /// Begins an object of a class.
    void beginObject(Shape shape) {
        // Read once: a garbage collection may drop the class meanwhile.
        int number = shape.number();
        if (number == 0) {
            add(buffer.size(), shape);
        }
        buffer.beginObject(number);
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

    /// Writes the definitions of the classes, and their numbers at the offsets. [#end] is to follow.
    void define() throws GraphStoreException {
        if (count == 0) {
            return;
        }
        schema.beginDefinitions();
        isDefining = true;
        for (int i = 0; i < count; i++) {
            if (named[i] instanceof Enum<?> constant) {
                buffer.setLong(offsets[i], word(constant));
            } else {
                buffer.setInt(offsets[i], schema.number((Shape) named[i], buffer));
            }
        }
    }

    /// The store has committed the definitions, or refused them. May be called again.
    void end(boolean isStored) {
        if (isDefining) {
            isDefining = false;
            schema.endDefinitions(isStored);
        }
    }

    private long word(Enum<?> constant) {
        try {
            return schema.word(constant, buffer);
        } catch (RefusedException e) {
            throw new AssertionError("the constant was accepted when it was referenced", e);
        }
    }
}
