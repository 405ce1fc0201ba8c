package cedrat.oracle.tables;

import java.util.Arrays;

/// How values are stored: behind a byte that says what they are, so that every value is possible, the empty
/// one too.
///
/// A transactional delete is a value like any other: it is invisible until its transaction commits,
/// conflicts, and is pruned. A delete of the store's would be none of these.
final class Values {
    /// The cell was deleted.
    static final Bytes DELETED = Bytes.of(new byte[] {0});

    private static final byte PRESENT = 1;

    private Values() {}

    static Bytes stored(Bytes value) {
        byte[] bytes = new byte[value.length() + 1];
        bytes[0] = PRESENT;
        System.arraycopy(value.raw(), 0, bytes, 1, value.length());
        return Bytes.own(bytes);
    }

    static boolean isDeleted(Bytes stored) {
        return stored.equals(DELETED);
    }

    /// @throws IllegalStateException if a transaction has not written this
    static Bytes value(Bytes stored) {
        if (stored.length() == 0 || stored.at(0) != PRESENT) {
            throw new IllegalStateException("invalid value " + stored
                    + ": no transaction has written it; let only transactions write to the table");
        }
        return Bytes.own(Arrays.copyOfRange(stored.raw(), 1, stored.length()));
    }
}
