package cedrat.persist.codec;

/// Writer of a commit: whole objects, or patches of them.
///
/// **Threads:** one at a time.
public abstract class ChangeWriter extends ObjectWriter {
    /// Cost of one more entry: a smaller gap is better written than left out.
    public static final int GAP = 24;

    public ChangeWriter(CommitBuffer buffer) {
        super(buffer);
    }

    /// Locks what is going to be a part, until it is known as one.
    public abstract void lockPart(Object part);

    /// Returns the identity of an object without a field for it, or null.
    public abstract IdentityEntry partOf(Object object);

    /// An entry is none of its collection any more if this is committed.
    public abstract void leave(PartIdentity part);

    /// Lets a new part of a collection be found.
    public abstract void attachPart(ObjectIdentity owner, Object part, Cells cells, int cell);

    /// Loads a part of a Java collection, which this transaction has locked.
    public abstract void load(Parts parts, int number);

    /// Writes a part that is stored as a whole. Its first reference has the number of the next one.
    public abstract void putPart(long identity, MapPart part);

    /// Patches references of an object: those from a place on, counted from its first reference.
    ///
    /// @param at        the offset of the first reference in the object
    /// @param head      how many references of the object do not come from there
    /// @param elements  where the others come from
    /// @param size      how many count; those behind are null
    public void patchReferences(Change change, int at, int head, Object[] elements, int size) {
        int ranges = change.merge(GAP / Long.BYTES);
        for (int range = 0; range < ranges; range++) {
            int from = change.from(range);
            buffer.beginPatch(change.identity.id, at + (long) (head + from) * Long.BYTES);
            step = head + from;
            for (int i = from; i < change.to(range); i++) {
                reference(i < size ? elements[i] : null);
            }
            buffer.end();
        }
    }

    /// Patches eight bytes of an object.
    public void patchInts(Change change, int at, int one, int other) {
        buffer.beginPatch(change.identity.id, at);
        buffer.putInt(one);
        buffer.putInt(other);
        buffer.end();
    }

    /// Patches four bytes of an object.
    public void patchInt(Change change, int at, int value) {
        buffer.beginPatch(change.identity.id, at);
        buffer.putInt(value);
        buffer.end();
    }
}
