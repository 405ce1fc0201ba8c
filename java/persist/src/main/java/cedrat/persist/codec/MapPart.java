package cedrat.persist.codec;

/// A part of a map, or of a set that has its elements in a map: neighbouring buckets of its hash table. In the store it
/// is an object, to which the map leads. Programs never have it.
///
/// ```text
/// Written ──the commit is appended──▶ Loaded ◀──loads── (not in memory)
///                                     │    ▲                 ▲
///                                  unloads  loads            │
///                                     ▼    │                 │
///                                    Unloaded ──its nodes are collected
/// ```
///
/// **Threads:** as [Parts].
public final class MapPart {
    /// Its number in its map.
    public final int number;
    /// Whether its objects are keys and values, and not elements.
    public final boolean hasValues;
    /// The map or set, until the commit is appended that makes the part persistent; then null.
    public Object collection;
    /// The parts of its collection; null before that commit is appended.
    public Parts parts;
    /// Identity of the part itself.
    public ObjectIdentity identity;
    /// Identities of the nodes that it had when it was unloaded, in their order: the program may have some yet.
    public PartIdentity[] left = {};

    boolean isLoaded;
    /// The part that was unloaded after it.
    MapPart next;

    public MapPart(int number, boolean hasValues) {
        this.number = number;
        this.hasValues = hasValues;
    }

    /// Whether the program has none of the nodes that it had when it was unloaded.
    boolean isForgotten() {
        for (PartIdentity node : left) {
            if (!node.refersTo(null)) {
                return false;
            }
        }
        return true;
    }
}
