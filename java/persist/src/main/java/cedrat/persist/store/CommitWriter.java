package cedrat.persist.store;

import cedrat.persist.DeadlockException;
import cedrat.persist.GraphStoreException;
import cedrat.persist.StoreException;
import cedrat.persist.boot.Identity;
import cedrat.persist.boot.Persistable;
import cedrat.persist.codec.ArrayShape;
import cedrat.persist.codec.Cells;
import cedrat.persist.codec.Change;
import cedrat.persist.codec.ChangeWriter;
import cedrat.persist.codec.CommitBuffer;
import cedrat.persist.codec.EnumShape;
import cedrat.persist.codec.IdentityEntry;
import cedrat.persist.codec.Layout;
import cedrat.persist.codec.MapPart;
import cedrat.persist.codec.ObjectIdentity;
import cedrat.persist.codec.PartIdentity;
import cedrat.persist.codec.Parts;
import cedrat.persist.codec.RefusedException;
import cedrat.persist.codec.Shape;
import cedrat.persist.codec.Words;
import cedrat.persist.form.Form;
import cedrat.persist.form.FormShape;
import cedrat.persist.form.PartedForm;
import cedrat.persist.record.Changes;
import cedrat.persist.record.TransactionLevel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/// Writes what a transaction has changed, and what is reachable from there and was not persistent before: found by a
/// list, not by recursion, so that there may be any number of it.
///
/// - Objects that become persistent are locked first, as by an assignment, so that no uncommitted values of
///   another transaction are stored. Strings and boxed values, which do not change, are not locked.
///
/// **Threads:** that of the transaction.
final class CommitWriter extends ChangeWriter {
    private static final String OF_ANOTHER =
            "it belongs to another store, or to an earlier opening of this one: look it up in this store, or copy it";

    /// The first of the roots, as a parent: a new object's number, `~` that of a change, or `ROOTS +` that of a root.
    private static final int ROOTS = Integer.MIN_VALUE;

    /// The name of an object that is checked.
    private static final String CHECKED = "root";
    private final Engine engine;
    private final TransactionLevel transaction;
    private final Changes commit;
    private final ChangeSet changes;
    private final NewObjects made;
    final UndefinedClasses undefined;
    /// The constant that was referenced last, if its enum is not defined in the store yet.
    private Enum<?> undefinedConstant;
    /// Receives why objects cannot be stored, or null: the first one is thrown.
    private List<String> refusals;
    /// The object whose references are written.
    private int parent;

    /// @param commit marks the identities of changed and new objects
    CommitWriter(Engine engine, TransactionLevel transaction, Changes commit, ChangeSet changes, NewObjects made) {
        super(CommitBuffer.take(transaction.top.context));
        this.engine = engine;
        this.transaction = transaction;
        this.commit = commit;
        this.changes = changes;
        this.made = made;
        undefined = new UndefinedClasses(engine.schema, buffer);
    }

    /// Writes all, and finds what becomes persistent meanwhile. Then the definitions of classes are to be ended.
    void write() throws GraphStoreException {
        for (int i = 0; i < changes.size(); i++) {
            Change change = changes.get(i);
            lock(change.object);
            parent = ~i;
            write(change);
        }
        Root[] roots = changes.roots();
        for (int i = 0; i < roots.length; i++) {
            parent = ROOTS + i;
            write(roots[i]);
        }
        for (int i = 0; i < made.size(); i++) {
            parent = i;
            step = 0;
            buffer.beginNew();
            int from = buffer.size();
            writeObject(made.identity(i).shape, made.object(i));
            made.identity(i).bytes = buffer.size() - from;
            buffer.end();
        }
        transaction.top.checkBeforeStored();
        undefined.define();
    }

    /// Writes an object, and all that is reachable from it, for nothing but to find what cannot be stored.
    ///
    /// @return why, a line each
    List<String> check(Object root) {
        refusals = new ArrayList<>();
        parent = ROOTS;
        word(root);
        for (int i = 0; i < made.size(); i++) {
            parent = i;
            step = 0;
            buffer.beginNew();
            try {
                writeObject(made.identity(i).shape, made.object(i));
            } catch (StoreException e) {
                report(e);
            }
            buffer.clear();
        }
        return refusals;
    }

    private void writeObject(Shape shape, Object object) {
        lockParts(shape, object);
        undefined.beginObject(shape);
        if (shape instanceof Layout layout) {
            engine.forms.constants.add(layout.type());
        }
        shape.write(object, this);
    }

    /// Locks the parts of a Java collection: a transaction that has assigned to one of them did not know
    /// its owner.
    private void lockParts(Shape shape, Object object) {
        if (!(shape instanceof FormShape collection)) {
            return;
        }
        collection.form.parts(object, new Form.PartVisitor() {
            @Override
            public void add(Object part) {
                lockPart(part);
            }

            @Override
            public void addWithCells(Object part) {
                lockPart(part);
            }

            @Override
            public void addEntry(Object part) {
                lockPart(part);
            }
        });
    }

    @Override
    public void lockPart(Object part) {
        if (Engine.mayBeAttached(part) && engine.entry(part) == null) {
            lock(part);
        }
    }

    private void write(Root changed) {
        Object object = changed.object();
        long word = object == null ? changed.word() : word(object);
        byte[] name = changed.name.getBytes(StandardCharsets.UTF_8);
        buffer.beginRoot(word);
        endReference();
        buffer.putBytes(name, 0, name.length);
        buffer.end();
    }

    private void write(Change change) {
        ObjectIdentity identity = change.identity;
        engine.convertFields(change.object, identity);
        Shape shape = current(change);
        if (!(identity.stored instanceof Cells || identity.stored instanceof Parts)) {
            lockParts(shape, change.object);
        }
        boolean isAsBefore = shape == identity.shape;
        if (isAsBefore && shape instanceof FormShape form && form.form.writeChange(change, transaction.top.log, this)) {
            return;
        }
        if (isAsBefore && identity.stored instanceof Parts) {
            // A key may have come that a large map cannot have, or the table has grown.
            shape = anew(change);
        }
        if (change.isWhole() || shape instanceof FormShape) {
            buffer.beginPut(identity.id);
            step = 0;
            writeObject(shape, change.object);
            buffer.end();
        } else if (shape instanceof Layout layout) {
            engine.forms.constants.add(layout.type());
            int ranges = change.merge(GAP);
            for (int i = 0; i < ranges; i++) {
                buffer.beginPatch(identity.id, change.from(i));
                layout.writeRange(change.object, change.from(i), change.to(i), this);
                buffer.end();
            }
        } else if (shape instanceof ArrayShape array) {
            int ranges = change.merge(GAP / array.elementLength());
            for (int i = 0; i < ranges; i++) {
                buffer.beginPatch(identity.id, array.elementOffset(change.from(i)));
                writeElements(array, change.object, change.from(i), change.to(i));
                buffer.end();
            }
        }
    }

    /// How a changed object is stored from now on.
    private Shape current(Change change) {
        ObjectIdentity identity = change.identity;
        if (identity.shape instanceof Layout layout) {
            return layout.current();
        }
        PartedForm parted = engine.forms.parted(change.object.getClass());
        boolean isGrown = parted != null
                && !(identity.stored instanceof Parts)
                && parted.isReached(change.object, identity.stored);
        return isGrown ? anew(change) : identity.shape;
    }

    private Shape anew(Change change) {
        change.shape = shapeOf(change.object);
        return change.shape;
    }

    private Shape shapeOf(Object collection) {
        try {
            return engine.schema.of(collection);
        } catch (RefusedException e) {
            throw new AssertionError("each collection that is stored has a form", e);
        }
    }

    @Override
    public void load(Parts parts, int number) {
        engine.parts.load(parts, number);
    }

    @Override
    public void putPart(long identity, MapPart part) {
        buffer.beginPut(identity);
        Shape shape = shapeOf(part);
        undefined.beginObject(shape);
        shape.write(part, this);
        buffer.end();
    }

    @Override
    public IdentityEntry partOf(Object object) {
        return engine.table.find(object);
    }

    @Override
    public void leave(PartIdentity part) {
        NewParts.of(transaction.top).leave(part, null);
    }

    @Override
    public void attachPart(ObjectIdentity owner, Object part, Cells cells, int cell) {
        engine.attachPart(owner, part, cells, cell);
    }

    private void writeElements(ArrayShape shape, Object array, int from, int to) {
        if (!(array instanceof Object[] references)) {
            shape.writeElements(array, from, to - from, buffer);
            return;
        }
        step = from;
        for (int i = from; i < to; i++) {
            reference(references[i]);
        }
    }

    // ---- references

    @Override
    public void reference(Object value) {
        buffer.putLong(word(value));
        endReference();
        if (value != null && !isRoot(parent)) {
            checkKey(value);
        }
        step++;
    }

    /// Refuses a key by which a container of a library would find nothing in another process: its table is stored as it
    /// is. Those of `java.util` are made anew.
    private void checkKey(Object value) {
        Object from = parent >= 0 ? made.object(parent) : changes.get(~parent).object;
        if (!(from instanceof Persistable || from.getClass().isArray()) || !engine.keys.mayDiffer(value)) {
            return;
        }
        ObjectIdentity identity = parent >= 0 ? made.identity(parent) : changes.get(~parent).identity;
        ObjectIdentity container = engine.keys.container(from, identity);
        Object whole = container == null ? null : container.get();
        if (whole != null) {
            checkKey(whole, value);
        }
    }

    private void checkKey(Object container, Object value) {
        if (engine.keys.losesKey(container, value)) {
            report(refusal(
                    value,
                    "its hash code differs in each process, and an object of "
                            + container.getClass().getName()
                            + " finds it by that: use a collection of java.util, or a key "
                            + "whose hashCode depends on values only"));
        }
    }

    private void endReference() {
        if (undefinedConstant != null) {
            undefined.endReference(undefinedConstant);
            undefinedConstant = null;
        }
    }

    private long word(Object value) {
        if (value == null) {
            return 0;
        }
        try {
            if (value instanceof Persistable object && !(value instanceof Enum)) {
                boolean hasOwnForm = object.cedrat$identity() == null
                        && engine.forms.mayHaveOwnForm(value.getClass())
                        && (engine.table.find(value) != null || engine.schema.hasOwnForm(value));
                return hasOwnForm ? attached(value) : persistable(object);
            }
            long word = engine.forms.word(value);
            if (word == 0 && value instanceof Enum<?> constant) {
                word = constant(constant);
            }
            return word != 0 ? word : attached(value);
        } catch (RefusedException e) {
            report(refusal(value, e.getMessage()));
            return 0;
        }
    }

    /// Returns the word of a constant, or a placeholder if its enum is not defined in the store yet.
    private long constant(Enum<?> constant) throws RefusedException {
        EnumShape shape = engine.schema.shape(constant);
        // Read once: a garbage collection may drop the class meanwhile.
        int number = shape.number();
        if (number == 0) {
            undefinedConstant = constant;
        }
        return Words.constant(Math.max(1, number), shape.find(constant));
    }

    private long persistable(Persistable object) throws RefusedException {
        long word = known(object);
        if (word == 0) {
            lock(object);
            // Another commit may have made it persistent, while this one waited for the lock.
            word = known(object);
        }
        if (word != 0) {
            return word;
        }
        int number = add(object);
        ObjectIdentity identity = made.identity(number);
        ((Layout) identity.shape).identify(object, identity);
        return Words.of(Words.NEW, number);
    }

    /// The word of an object that is persistent or will be by this commit; 0 of one that is not.
    private long known(Persistable object) throws RefusedException {
        Identity known = object.cedrat$identity();
        if (known == null) {
            return 0;
        }
        if (!(known instanceof ObjectIdentity identity)) {
            throw new RefusedException(OF_ANOTHER);
        }
        if (identity.store != engine) {
            // An object that another commit is about to make persistent has no owner yet.
            if (identity.id == 0 && !engine.recorder.transactions.isWriter(transaction, object)) {
                return 0;
            }
            throw new RefusedException(OF_ANOTHER);
        }
        if (identity.id != 0) {
            return identity.id;
        }
        return identity.commit == commit ? Words.of(Words.NEW, identity.mark) : 0;
    }

    private long attached(Object value) throws RefusedException {
        IdentityEntry known = engine.table.find(value);
        if (known instanceof ObjectIdentity identity) {
            return identity.id;
        }
        int number = made.findAttached(value);
        if (number >= 0) {
            return Words.of(Words.NEW, number);
        }
        if (!engine.schema.of(value).isConstant()) {
            lock(value);
            if (engine.recorder.isOfAnother(engine, value)) {
                throw new RefusedException(OF_ANOTHER);
            }
            known = engine.table.find(value);
            if (known instanceof ObjectIdentity identity) {
                return identity.id;
            }
        }
        number = add(value);
        made.addAttached(value, number);
        return Words.of(Words.NEW, number);
    }

    /// @throws DeadlockException if this transaction has to give up
    private void lock(Object object) {
        if (!engine.recorder.transactions.acquire(transaction, object)) {
            throw new DeadlockException();
        }
    }

    private int add(Object object) throws RefusedException {
        int number = made.add(engine, object, engine.schema.of(object), commit, parent, step);
        if (!isRoot(parent)) {
            Object from = parent >= 0 ? made.object(parent) : changes.get(~parent).object;
            ObjectIdentity origin = parent >= 0 ? made.identity(parent) : changes.get(~parent).identity;
            made.identity(number).container = engine.keys.container(from, origin, object);
        }
        return number;
    }

    /// The word of an object that is persistent by now.
    long stored(Object object) {
        long word = word(object);
        return Words.tag(word) == Words.NEW ? made.identity((int) Words.payload(word)).id : word;
    }

    // ---- what cannot be persistent

    private StoreException refusal(Object value, String why) {
        return refusal(path(parent, step), value, why);
    }

    private StoreException refusal(String path, Object value, String why) {
        return new StoreException(
                path + " leads to an object of " + value.getClass().getName() + ", which cannot be persistent: " + why
                        + (refusals == null ? ". The transaction is rolled back" : ""));
    }

    private void report(StoreException refusal) {
        if (refusals == null) {
            throw refusal;
        }
        refusals.add(refusal.getMessage());
    }

    @Override
    public RuntimeException refuse(String why) {
        return parent >= 0
                ? refusal(path(made.parent(parent), made.step(parent)), made.object(parent), why)
                : refusal(path(parent, step), changes.get(~parent).object, why);
    }

    private boolean isRoot(int from) {
        return from < ROOTS + Math.max(1, changes.roots().length);
    }

    /// How one gets to a reference of a new object, a change or a root, as a program would write it.
    private String path(int from, int last) {
        List<String> path = new ArrayList<>();
        int at = from;
        int reference = last;
        while (at >= 0) {
            path.addFirst(made.identity(at).shape.step(made.object(at), reference));
            reference = made.step(at);
            at = made.parent(at);
        }
        if (isRoot(at)) {
            path.addFirst(refusals == null ? changes.roots()[at - ROOTS].name : CHECKED);
        } else {
            Change change = changes.get(~at);
            path.addFirst(change.step(reference));
            String fromRoot = new RootPaths(engine).to(change.identity.id);
            path.addFirst(
                    fromRoot != null
                            ? fromRoot
                            : "an object of " + change.object.getClass().getName() + " ("
                                    + Words.show(change.identity.id) + ")");
        }
        path.removeIf(String::isEmpty);
        return String.join(" → ", path);
    }
}
