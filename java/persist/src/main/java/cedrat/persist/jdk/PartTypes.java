package cedrat.persist.jdk;

/// The types of what collections of `java.util` are made of.
public final class PartTypes {
    private PartTypes() {}

    /// Whether a field of a collection, or of a node of one, leads to what the collection is made of, as the field's
    /// type says: to an array or a node.
    public static boolean mayBe(String descriptor) {
        return descriptor.startsWith("[") || isNode(descriptor);
    }

    /// Whether a type is that of nodes.
    public static boolean isNode(String descriptor) {
        return descriptor.startsWith("Ljava/util/")
                && (descriptor.endsWith("$Node;")
                        || descriptor.endsWith("$Entry;")
                        || descriptor.endsWith("$TreeNode;"))
                && descriptor.indexOf('/', "Ljava/util/".length()) < 0;
    }

    /// Whether the arrays of references that a class stores to have nodes as their elements. `HashMap` itself stores
    /// by a barrier of its own.
    public static boolean isOfTable(String internalName) {
        return internalName.equals("java/util/Hashtable") || internalName.equals("java/util/HashMap$TreeNode");
    }
}
