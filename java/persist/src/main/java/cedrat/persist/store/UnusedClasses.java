package cedrat.persist.store;

import cedrat.persist.GraphStore;
import cedrat.persist.GraphStoreException;
import cedrat.persist.codec.Shape;
import cedrat.persist.codec.StoredClass;
import java.util.Arrays;

/// Classes of a store whose definitions nothing needs: no object has them, and no class extends them.
final class UnusedClasses {
    private UnusedClasses() {}

    /// Returns a definition, or null of a dropped class.
    static StoredClass parse(int number, byte[] definition) {
        return definition == null ? null : StoredClass.parse(number, definition);
    }

    /// Drops the definitions that a completed collection has found without objects, except superclasses of others.
    /// Their shapes stay, for references that were read before. They are defined again when an object is stored by
    /// them.
    ///
    /// @param definitions by number; null of those that were dropped
    static void drop(GraphStore.Collection collection, StoredClass[] definitions, Shape[] shapes)
            throws GraphStoreException {
        int[] unused;
        do {
            // A commit may use one of them meanwhile. Then none is dropped: others may be its superclasses.
            unused = withoutSuperclasses(collection.unusedClasses(), definitions);
        } while (unused.length != 0 && !collection.dropClasses(unused));
        for (int number : unused) {
            definitions[number - 1] = null;
            Shape shape = shapes[number - 1];
            if (shape != null && shape.number() == number) {
                shape.number(0);
            }
        }
    }

    private static int[] withoutSuperclasses(int[] unused, StoredClass[] definitions) {
        boolean[] isKept = new boolean[definitions.length];
        for (int i = 0; i < isKept.length; i++) {
            isKept[i] = definitions[i] != null;
        }
        for (int number : unused) {
            isKept[number - 1] = false;
        }
        // A superclass is defined before its subclasses.
        for (int i = isKept.length - 1; i >= 0; i--) {
            if (isKept[i] && definitions[i].superclass() != 0) {
                isKept[definitions[i].superclass() - 1] = true;
            }
        }
        return Arrays.stream(unused).filter(number -> !isKept[number - 1]).toArray();
    }

    /// Whether objects could be made of a class when it was defined. If its definition does not say so, it was made
    /// for an object of it, or for a subclass, which is defined next.
    static boolean mayHaveObjects(int number, StoredClass[] definitions) {
        int version = definitions[number - 1].version();
        if (version != StoredClass.UNSAID) {
            return version == StoredClass.CONCRETE;
        }
        for (StoredClass other : definitions) {
            if (other != null && other.superclass() == number) {
                return false;
            }
        }
        return true;
    }
}
