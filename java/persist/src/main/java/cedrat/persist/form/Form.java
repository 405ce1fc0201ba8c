package cedrat.persist.form;

import cedrat.persist.codec.Change;
import cedrat.persist.codec.ChangeWriter;
import cedrat.persist.codec.ObjectBytes;
import cedrat.persist.codec.ObjectWriter;
import cedrat.persist.record.UndoLog;

/// The logical form of a class of the JDK: what its objects mean, not the fields that this version of it has
/// (docs/formats/java-objects.md). Hash tables are made anew when they are loaded, because hashes differ
/// from run to run.
///
/// **Threads:** any.
public abstract class Form {
    /// Its name in the store; with [#version], never used for anything else.
    public final String name;

    final int version = 1;
    /// Whether its objects do not change, and lead to no others. Set by [Forms].
    boolean isConstant;

    Form(String name) {
        this.name = name;
    }

    /// Whether anything can be stored to its objects themselves, and not only to what they lead to.
    boolean mayChange() {
        return !isConstant;
    }

    /// Writes an object: its data, [ObjectWriter#endData], its references.
    abstract void write(Object object, ObjectWriter out);

    /// Writes what has changed of an object as patches, if that is less than the whole of it.
    ///
    /// @param log what was overwritten of its parts stands at `change.entries()`
    /// @return false if it is to be written as a whole
    public boolean writeChange(Change change, UndoLog log, ChangeWriter out) {
        return false;
    }

    /// Returns the state to keep of an object that was stored as a whole just now, or null.
    public Object stored(Object object) {
        return null;
    }

    /// As [#stored], of an object that was loaded just now. Null: it is to be stored as a whole next time.
    ///
    /// @param references as they were given to [#fill]
    public Object loaded(Object object, ObjectBytes in, Object[] references) {
        return stored(object);
    }

    /// Whether an object is filled without what it refers to: that is loaded when it is needed.
    public boolean isByPart(ObjectBytes in) {
        return false;
    }

    /// The object, empty, before what it refers to is there. Null if it cannot be without that.
    Object create(ObjectBytes in) {
        return null;
    }

    /// Fills what [#create] has made, or makes the object. May call methods of the program, as `hashCode`.
    abstract Object fill(Object created, ObjectBytes in, Object[] references);

    /// How one gets to a reference of an object, as a program would write it.
    String step(Object object, int reference) {
        return "[" + reference + "]";
    }

    /// As [#step], of an object's bytes in the store: of most forms they do not tell.
    String storedStep(int reference) {
        return "[…]";
    }

    /// If a reference is that of a map to a value, the number of the one to its key; otherwise -1.
    int storedKey(int reference) {
        return -1;
    }

    /// Shows the objects and arrays of the JDK's own that an object is made of: what is stored to one of them
    /// is stored to the object.
    public void parts(Object object, PartVisitor parts) {}

    /// Takes the parts of an object.
    public interface PartVisitor {
        /// A part, which may be null.
        void add(Object part);

        /// A part that is another one whenever the whole is stored anew, or null.
        void addWithCells(Object part);

        /// The part that is the next entry.
        void addEntry(Object part);
    }
}
