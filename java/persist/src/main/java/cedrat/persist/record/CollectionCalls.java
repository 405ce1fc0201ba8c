package cedrat.persist.record;

import java.util.Arrays;

/// Calls of methods that may change persistent collections of `java.util.concurrent`, one within the other, on one
/// thread in a transaction.
///
/// - These methods write to their collection after a function of the program has returned or thrown, without a
///   barrier. So a rollback of the whole transaction waits for the end of the outermost one.
///
/// **Threads:** its own.
final class CollectionCalls {
    private static final Object[] NONE = {};

    private Object[] collections = NONE;
    private int depth;

    int depth() {
        return depth;
    }

    /// A method of a collection is about to begin.
    void enter(Object collection) {
        if (depth == collections.length) {
            collections = Arrays.copyOf(collections, 2 * depth + 2);
        }
        collections[depth++] = collection;
    }

    /// A method of a collection has ended. If it did not [#enter], nothing happens.
    ///
    /// @return whether it was the outermost
    boolean leave(Object collection) {
        if (depth == 0 || collections[depth - 1] != collection) {
            return false;
        }
        truncate(depth - 1);
        return depth == 0;
    }

    /// Forgets the inner calls but so many: their ends are lost if the stack has overflowed there.
    void truncate(int mark) {
        while (depth > mark) {
            collections[--depth] = null;
        }
    }

    /// Whether one of so many outer calls is of a collection.
    boolean isOuter(Object collection, int mark) {
        for (int i = 0; i < mark; i++) {
            if (collections[i] == collection) {
                return true;
            }
        }
        return false;
    }
}
