package cedrat.persist.store;

import cedrat.persist.DeadlockException;
import cedrat.persist.GraphStore;
import cedrat.persist.GraphStoreException;
import cedrat.persist.PersistenceException;
import cedrat.persist.boot.Identity;
import cedrat.persist.boot.Persistable;
import cedrat.persist.codec.ArrayShape;
import cedrat.persist.codec.Cells;
import cedrat.persist.codec.Change;
import cedrat.persist.codec.ChangeWriter;
import cedrat.persist.codec.CommitBuffer;
import cedrat.persist.codec.IdentityEntry;
import cedrat.persist.codec.Layout;
import cedrat.persist.codec.ObjectIdentity;
import cedrat.persist.codec.PartIdentity;
import cedrat.persist.codec.RefusedException;
import cedrat.persist.codec.Shape;
import cedrat.persist.codec.Words;
import cedrat.persist.form.Form;
import cedrat.persist.form.FormShape;
import cedrat.persist.memory.Slot;
import cedrat.persist.record.Changes;
import cedrat.persist.record.Faces;
import cedrat.persist.record.TransactionLevel;
import cedrat.persist.record.UndoLog;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/// The end of a transaction that has changed persistent objects, or names that lead to objects (Transactions
/// for Java, §3.3.2).
///
/// It looks at what the transaction has stored to, and at what is reachable from there and was not persistent
/// before: found by a list, not by recursion, so that there may be any number of it.
///
/// - J3   Objects that become persistent are locked first, as by an assignment, so that no uncommitted values of
///        another transaction are stored. Strings and boxed values, which do not change, are not locked.
/// - J9   Of a changed object what has changed is stored, with its neighbours; nothing is compared or copied. What
///        collections have become made of is known as theirs afterwards, also if there was nothing to store.
///
/// **Threads:** that of the transaction. Others see what it makes persistent as persistent from when it is
/// locked on.
final class Commit extends ChangeWriter implements Changes {
    private static final String OF_ANOTHER =
            "it belongs to another store, or to an earlier opening of this one: look it up in this store, or copy it";
    private static final int CAPACITY = 4;
    private static final Object[] NOTHING = {};
    private static final int[] NO_NUMBERS = {};
    private static final Root[] NO_ROOTS = {};
    private static final long[] NOTHING_MADE = {};

    // Arrays, and no collections: those of `java.util` have barriers, which are many for what is done at each commit.
    private final Engine engine;
    private final TransactionLevel transaction;
    private Change[] changes = new Change[CAPACITY];
    private int changeCount;
    private Root[] roots = NO_ROOTS;

    /// Objects that become persistent, and the origin of the first reference seen to each: a new object, `~` a
    /// change, or `ROOTS +` a root.
    private Object[] fresh = NOTHING;
    private ObjectIdentity[] identities;
    private int[] parents;
    private int[] steps;
    private int count;
    /// Numbers, plus one, of the objects without a field for their identity, by their hash.
    private int[] attached = NO_NUMBERS;

    private int attachedCount;

    /// The identities of what was prepared, or null.
    private long[] prepared;

    /// The first of the roots, as a parent.
    private static final int ROOTS = Integer.MIN_VALUE;
    /// The object whose references are written.
    private int parent;

    /// Finds what was changed.
    Commit(Engine engine, TransactionLevel transaction) {
        super(CommitBuffer.take(transaction.top.context));
        this.engine = engine;
        this.transaction = transaction;
        UndoLog log = transaction.top.log;
        Object last = null;
        Change change = null;
        for (int entry = 0; entry < log.size(); entry++) {
            Object base = log.base(entry);
            if (base != last) {
                change = change(base);
                last = base;
            }
            if (change != null) {
                add(change, log, entry);
            }
        }
    }

    boolean isEmpty() {
        return changeCount == 0 && roots.length == 0;
    }

    // ---- what was changed

    private Change change(Object base) {
        if (base instanceof Persistable object) {
            boolean isOurs = object.cedrat$identity() instanceof ObjectIdentity identity
                    && identity.store == engine
                    && identity.id != 0;
            return isOurs ? change((ObjectIdentity) object.cedrat$identity(), base) : null;
        }
        if (base instanceof Root changed) {
            if (changed.engine == engine) {
                add(changed);
            }
            return null;
        }
        IdentityEntry known = base instanceof Class ? null : engine.entry(base);
        return known == null ? null : change(known.owner(), Engine.whole(known, base));
    }

    private Change change(ObjectIdentity identity, Object object) {
        if (identity.commit == this) {
            return changes[identity.mark];
        }
        if (changeCount == changes.length) {
            changes = Arrays.copyOf(changes, 2 * changeCount);
        }
        Change change = new Change(identity, object);
        identity.commit = this;
        identity.mark = changeCount;
        changes[changeCount++] = change;
        return change;
    }

    public void add(Root changed) {
        for (Root known : roots) {
            if (known == changed) {
                return;
            }
        }
        roots = Arrays.copyOf(roots, roots.length + 1);
        roots[roots.length - 1] = changed;
    }

    public static void add(Change change, UndoLog log, int entry) {
        Slot slot = log.slot(entry);
        int index = log.index(entry);
        switch (change.identity.shape) {
            case Layout layout -> addField(change, layout, slot);
            case ArrayShape array -> {
                if (slot == Slot.ELEMENT) {
                    change.add(index, index + 1);
                } else if (slot == Slot.ELEMENTS) {
                    change.add(index, index + (int) log.bits(entry));
                } else {
                    change.addWhole();
                }
            }
            default -> change.addEntry(entry);
        }
    }

    private static void addField(Change change, Layout layout, Slot slot) {
        if (!(slot instanceof Slot.Field field) || layout != layout.current()) {
            change.addWhole();
            return;
        }
        long place = layout.place(field);
        if (place >= 0) {
            int from = (int) (place >>> 8);
            change.add(from, from + (int) (place & 0xff));
        }
    }

    // ---- the whole of it

    @Override
    public void commit() {
        engine.check();
        boolean isStored = false;
        boolean isAsked = false;
        try {
            write();
            Faces faces = Faces.changed(transaction.top, engine);
            isAsked = buffer.size() != 0 || faces != null;
            GraphStore.Committed committed = isAsked ? append(faces) : null;
            isStored = true;
            // Collections may have new parts though nothing of them has to be stored.
            attach(committed == null ? NOTHING_MADE : committed.identities());
            if (committed != null) {
                engine.appended(committed.lsn());
            }
        } catch (GraphStoreException e) {
            if (e.isConflict()) {
                throw new DeadlockException();
            }
            throw engine.refused(e);
        } catch (RuntimeException | Error e) {
            if (isStored || isAsked) {
                // Memory is not as the store is, or may not be: of what the store was asked only it knows the outcome.
                throw engine.stop(e);
            }
            throw e;
        } finally {
            abandon();
            if (!isStored) {
                forget();
            }
            buffer.give(transaction.top.context);
        }
    }

    @Override
    public boolean prepare(byte[] branch) {
        engine.check();
        boolean isPrepared = false;
        boolean isAsked = false;
        try {
            write();
            if (buffer.size() != 0) {
                isAsked = true;
                prepared = engine.graph.prepare(buffer.bytes(), buffer.size(), branch);
                check(prepared.length);
                isPrepared = true;
            } else {
                attach(NOTHING_MADE);
            }
            return isPrepared;
        } catch (GraphStoreException e) {
            throw engine.refused(e);
        } catch (RuntimeException | Error e) {
            if (isAsked) {
                rollBackIfPrepared(branch, e);
            }
            throw e;
        } finally {
            if (!isPrepared) {
                rolledBack();
            }
        }
    }

    /// An error hides whether the store has prepared the branch, which is said to be rolled back.
    private void rollBackIfPrepared(byte[] branch, Throwable why) {
        try {
            for (byte[] name : engine.graph.inDoubt()) {
                if (Arrays.equals(name, branch)) {
                    engine.graph.rollbackPrepared(branch);
                }
            }
        } catch (GraphStoreException | RuntimeException | Error e) {
            // First of all: where memory has run out it may not suffice for the rest.
            PersistenceException stopped = engine.stop(why);
            // The virtual machine throws one instance again and again when memory has run out.
            if (e != why) {
                why.addSuppressed(e);
            }
            throw stopped;
        }
    }

    @Override
    public void committed() {
        transaction.top.endsHere(true);
        try {
            attach(prepared);
        } catch (RuntimeException | Error e) {
            // Memory is not as the store is.
            throw engine.stop(e);
        } finally {
            transaction.top.endsHere(false);
            abandon();
        }
    }

    @Override
    public void rolledBack() {
        abandon();
        forget();
    }

    private GraphStore.Committed append(Faces faces) throws GraphStoreException {
        GraphStore.Committed committed = faces == null
                ? engine.graph.commit(buffer.bytes(), buffer.size())
                : faces.commit(buffer.bytes(), buffer.size());
        check(committed.identities().length);
        return committed;
    }

    private void check(int made) throws GraphStoreException {
        if (made != count) {
            throw new GraphStoreException(
                    "the store made " + made + " of the commit's " + count + " new objects: close it and open it again",
                    null,
                    true);
        }
    }

    private void write() throws GraphStoreException {
        try {
            for (int i = 0; i < changeCount; i++) {
                Change change = changes[i];
                lock(change.object);
                parent = ~i;
                write(change);
            }
            for (int i = 0; i < roots.length; i++) {
                parent = ROOTS + i;
                write(roots[i]);
            }
            for (int i = 0; i < count; i++) {
                parent = i;
                step = 0;
                buffer.beginNew();
                int from = buffer.size();
                writeObject(identities[i].shape, fresh[i]);
                identities[i].bytes = buffer.size() - from;
                buffer.end();
            }
            transaction.top.checkBeforeStored();
        } catch (RefusedByStore e) {
            throw e.refusal;
        }
    }

    private void writeObject(Shape shape, Object object) throws GraphStoreException {
        lockParts(shape, object);
        buffer.beginObject(engine.schema.number(shape));
        shape.write(object, this);
    }

    /// J3: a transaction that has assigned to a new part of a Java collection did not know its owner.
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
        buffer.putBytes(name, 0, name.length);
        buffer.end();
    }

    private void write(Change change) throws GraphStoreException {
        ObjectIdentity identity = change.identity;
        Shape shape = identity.shape instanceof Layout layout ? layout.current() : identity.shape;
        if (!(identity.stored instanceof Cells)) {
            lockParts(shape, change.object);
        }
        boolean isDone = shape instanceof FormShape form && form.form.writeChange(change, transaction.top.log, this);
        if (isDone) {
            return;
        }
        if (change.isWhole() || shape instanceof FormShape) {
            buffer.beginPut(identity.id);
            step = 0;
            writeObject(shape, change.object);
            buffer.end();
        } else if (shape instanceof Layout layout) {
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

    /// Comes through methods that do not throw what it is made of.
    private static final class RefusedByStore extends RuntimeException {
        private static final long serialVersionUID = 1;

        @SuppressWarnings("serial")
        final GraphStoreException refusal;

        RefusedByStore(GraphStoreException refusal) {
            super(refusal);
            this.refusal = refusal;
        }
    }

    @Override
    public void reference(Object value) {
        buffer.putLong(word(value));
        step++;
    }

    private long word(Object value) {
        if (value == null) {
            return 0;
        }
        try {
            if (value instanceof Persistable object && !(value instanceof Enum)) {
                return persistable(object);
            }
            long word = engine.forms.word(value);
            if (word == 0 && value instanceof Enum<?> constant) {
                word = engine.schema.word(constant);
            }
            return word != 0 ? word : attached(value);
        } catch (RefusedException e) {
            throw refusal(value, e.getMessage());
        } catch (GraphStoreException e) {
            throw new RefusedByStore(e);
        }
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
        object.cedrat$identity(identities[number]);
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
        return identity.commit == this ? Words.of(Words.NEW, identity.mark) : 0;
    }

    private long attached(Object value) throws RefusedException {
        IdentityEntry known = engine.table.find(value);
        if (known instanceof ObjectIdentity identity) {
            return identity.id;
        }
        int number = findAttached(value);
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
        addAttached(value, number);
        return Words.of(Words.NEW, number);
    }

    /// @throws DeadlockException if this transaction has to give up
    private void lock(Object object) {
        if (!engine.recorder.transactions.acquire(transaction, object)) {
            throw new DeadlockException();
        }
    }

    public int add(Object object) throws RefusedException {
        Shape shape = engine.schema.of(object);
        if (count == 0) {
            fresh = new Object[CAPACITY];
            identities = new ObjectIdentity[CAPACITY];
            parents = new int[CAPACITY];
            steps = new int[CAPACITY];
        } else if (count == fresh.length) {
            fresh = Arrays.copyOf(fresh, 2 * count);
            identities = Arrays.copyOf(identities, 2 * count);
            parents = Arrays.copyOf(parents, 2 * count);
            steps = Arrays.copyOf(steps, 2 * count);
        }
        ObjectIdentity identity = new ObjectIdentity(engine, object, 0, shape);
        identity.commit = this;
        identity.mark = count;
        fresh[count] = object;
        identities[count] = identity;
        parents[count] = parent;
        steps[count] = step;
        return count++;
    }

    private int findAttached(Object object) {
        if (attachedCount == 0) {
            return -1;
        }
        int at = place(object);
        while (attached[at] != 0 && fresh[attached[at] - 1] != object) {
            at = at + 1 & attached.length - 1;
        }
        return attached[at] - 1;
    }

    private int place(Object object) {
        int hash = System.identityHashCode(object);
        return (hash ^ hash >>> 15) & attached.length - 1;
    }

    private void addAttached(Object object, int number) {
        if (2 * ++attachedCount > attached.length) {
            int[] old = attached;
            attached = new int[Math.max(CAPACITY, 2 * old.length)];
            for (int entry : old) {
                if (entry != 0) {
                    put(fresh[entry - 1], entry);
                }
            }
        }
        put(object, number + 1);
    }

    private void put(Object object, int entry) {
        int at = place(object);
        while (attached[at] != 0) {
            at = at + 1 & attached.length - 1;
        }
        attached[at] = entry;
    }

    // ---- what cannot be persistent

    private PersistenceException refusal(Object value, String why) {
        return refusal(path(parent, step), value, why);
    }

    private static PersistenceException refusal(String path, Object value, String why) {
        return new PersistenceException(
                path + " leads to an object of " + value.getClass().getName() + ", which cannot be persistent: " + why
                        + ". The transaction is rolled back");
    }

    @Override
    public RuntimeException refuse(String why) {
        return parent >= 0
                ? refusal(path(parents[parent], steps[parent]), fresh[parent], why)
                : refusal(path(parent, step), changes[~parent].object, why);
    }

    /// How one gets to a reference of a new object, a change or a root, as a program would write it.
    private String path(int from, int last) {
        List<String> path = new ArrayList<>();
        int at = from;
        int reference = last;
        while (at >= 0) {
            path.addFirst(identities[at].shape.step(fresh[at], reference));
            reference = steps[at];
            at = parents[at];
        }
        if (at < ROOTS + roots.length) {
            path.addFirst(roots[at - ROOTS].name);
        } else {
            Change change = changes[~at];
            path.addFirst(change.step(reference));
            String way = new Ways(engine).to(change.identity.id);
            path.addFirst(
                    way != null
                            ? way
                            : "an object of " + change.object.getClass().getName() + " ("
                                    + Words.show(change.identity.id) + ")");
        }
        path.removeIf(String::isEmpty);
        return String.join(" → ", path);
    }

    // ---- afterwards

    private void attach(long[] stored) {
        for (int i = 0; i < count; i++) {
            ObjectIdentity identity = identities[i];
            identity.id = stored[i];
            identity.commit = null;
            engine.table.add(identity);
            if (!(fresh[i] instanceof Persistable)) {
                engine.attach(identity, fresh[i]);
            }
            engine.loaded.add(identity);
        }
        for (int i = 0; i < changeCount; i++) {
            Change change = changes[i];
            if (change.isWhole() && change.identity.shape instanceof Layout layout) {
                change.identity.shape = layout.current();
            }
            engine.table.changed(change.identity.id);
            if (change.written != null) {
                change.written.run();
            } else {
                engine.attachParts(change.identity, change.object);
            }
        }
        for (Root changed : roots) {
            Object object = changed.object();
            if (object != null) {
                changed.set(stored(object), null);
            }
        }
    }

    /// The word of an object that is persistent by now.
    private long stored(Object object) {
        long word = word(object);
        return Words.tag(word) == Words.NEW ? identities[(int) Words.payload(word)].id : word;
    }

    @Override
    public void abandon() {
        for (int i = 0; i < changeCount; i++) {
            changes[i].identity.commit = null;
        }
    }

    /// Discards the identities of the objects that were to become persistent.
    private void forget() {
        for (int i = 0; i < count; i++) {
            if (fresh[i] instanceof Persistable object && object.cedrat$identity() == identities[i]) {
                object.cedrat$identity(null);
            }
        }
    }
}
