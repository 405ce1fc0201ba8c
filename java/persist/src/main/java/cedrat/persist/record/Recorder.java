package cedrat.persist.record;

import cedrat.persist.DeadlockException;
import cedrat.persist.Transaction;
import cedrat.persist.boot.Barrier;
import cedrat.persist.boot.Handler;
import cedrat.persist.boot.Identity;
import cedrat.persist.boot.Persistable;
import cedrat.persist.lock.Locks;
import cedrat.persist.memory.Fields;
import cedrat.persist.memory.NestedArrays;
import cedrat.persist.memory.Slot;
import java.lang.reflect.Array;
import java.util.AbstractMap;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Predicate;
import java.util.function.Supplier;

/// Handler of the barriers of woven code, before assignments and at reads, while a transaction lives or a store is
/// open.
///
/// - The first store of a transaction to an object takes its write lock, which is held to the end of the
///   top-level transaction. Otherwise a rollback would overwrite what another transaction has written.
///
/// A thread that is in no transaction may not assign to a locked object: it has no place in a wait queue. It gets an
/// exception.
///
/// **Threads:** any.
public final class Recorder implements Handler {
    private static volatile Recorder installed;

    private final ThreadLocal<Context> contexts = ThreadLocal.withInitial(Context::new);
    private final Locks locks = new Locks();
    private final Callers callers;
    final UnguardedFields unguarded;
    private final Fields fields;
    private final List<Persistent> stores = new CopyOnWriteArrayList<>();
    private final ClosedStoreObjects left = new ClosedStoreObjects();

    public final Unwoven unwoven;
    public final Transactions transactions;
    public final BranchTransactions branches;
    public final UnseenStores unseen;
    public final ReadLocks reads;

    /// @param locksReads whether reads are woven so that they can lock
    /// @param isOutside  whether what a class of the program changes belongs to no transaction
    public Recorder(Fields fields, boolean locksReads, Predicate<Class<?>> isOutside) {
        this.fields = fields;
        callers = new Callers(isOutside);
        unguarded = new UnguardedFields(callers);
        unwoven = new Unwoven(locksReads);
        transactions = new Transactions(unwoven, contexts, locks, stores);
        branches = new BranchTransactions(transactions, contexts, locks);
        unseen = new UnseenStores(this, contexts, fields, callers, stores);
        reads = new ReadLocks(contexts, transactions);
    }

    /// Makes it that of the process.
    public void install() {
        Barrier.install(this, fields::add);
        installed = this;
    }

    /// Returns that of the process; there is none before the agent is loaded.
    public static Recorder get() {
        return installed;
    }

    public Fields fields() {
        return fields;
    }

    // ---- stores of persistent objects

    /// A store is open: stores to its objects outside of transactions are refused from here on.
    public void opened(Persistent store) {
        stores.add(store);
        Barrier.storeOpened();
        reads.opened(store);
    }

    /// Returns the list for what a store had that is about to be closed: from here on transactions do not change it.
    public ClosedStoreObjects leave() {
        left.lookThrough();
        return left;
    }

    /// Whether an array or an object of the JDK was persistent in a store that is closed.
    boolean isLeft(Object object) {
        return left.has(object);
    }

    /// A store is closed. What it had was said by [#leave] before.
    public void closed(Persistent store) {
        reads.closed(store);
        if (stores.remove(store)) {
            Barrier.storeClosed();
        }
    }

    /// Runs work of the store itself: barriers let this thread's reads and assignments pass.
    public <T> T unrecorded(Supplier<T> work) {
        return contexts.get().unrecorded(work);
    }

    /// As that, of work that may fail otherwise.
    public <T, E extends Exception> T unrecordedCall(Transaction.PlainCall<T, E> work) throws E {
        return contexts.get().unrecordedCall(work);
    }

    /// Runs a function of the program for an object that was loaded.
    void hook(Runnable work) {
        contexts.get().hook(work);
    }

    /// The store of a persistent object, or null: of anything else.
    static Persistent storeOf(Object base) {
        return base instanceof Persistable object && object.cedrat$identity() instanceof StoredIdentity identity
                ? identity.store()
                : null;
    }

    @Override
    public Object readNull(Object base, int field) {
        return unrecorded(() -> readNull(base, fields.slot(field, base)));
    }

    private static Object readNull(Object base, Slot.Field field) {
        Persistent store = storeOf(base);
        return store == null ? null : store.readNull((Persistable) base, field);
    }

    @Override
    public Object readElement(Object[] table, int index) {
        Context context = contexts.get();
        boolean wasUnrecorded = context.isUnrecorded;
        context.isUnrecorded = true;
        try {
            for (Persistent store : stores) {
                Object value = store.readElement(table, index);
                if (value != null) {
                    return value;
                }
            }
            if (left.isUnloaded(table, index)) {
                throw new IllegalStateException(Persistent.CLOSED);
            }
            return table[index];
        } finally {
            context.isUnrecorded = wasUnrecorded;
        }
    }

    /// The lock keeps the bucket loaded. By its own barrier the method would lock the map when it has read the bucket.
    @Override
    public void beforePut(Object map, int hash) {
        Context context = contexts.get();
        TransactionLevel transaction = context.innermost;
        if (transaction == null || context.isUnrecorded || context.suspended != 0) {
            return;
        }
        context.isUnrecorded = true;
        try {
            for (Persistent store : stores) {
                if (store.isByPart(map)) {
                    lockToChangePart(transaction, map);
                    store.loadBucket(map, hash);
                }
            }
        } finally {
            context.isUnrecorded = false;
        }
    }

    @Override
    public void beforeRead(Object base) {
        if (storeOf(base) == null) {
            return;
        }
        Context context = contexts.get();
        // What stores and rollbacks read by handles, they read as it is.
        if (context.isUnrecorded && !context.isFilling) {
            return;
        }
        boolean wasUnrecorded = context.isUnrecorded;
        boolean wasFilling = context.isFilling;
        context.isUnrecorded = true;
        context.isFilling = false;
        try {
            storeOf(base).keepLoaded((Persistable) base);
            loadAll(base);
        } finally {
            context.isUnrecorded = wasUnrecorded;
            context.isFilling = wasFilling;
        }
    }

    /// A store calls methods of the program, from now on or no more: what they read is loaded, what they store is
    /// not remembered.
    ///
    /// @return whether it did before
    public boolean filling(boolean isFilling) {
        Context context = contexts.get();
        boolean wasFilling = context.isFilling;
        context.isFilling = isFilling;
        return wasFilling;
    }

    @Override
    public void refuseUnwoven(String why) {
        Context context = contexts.get();
        boolean isTransaction = context.innermost != null && !context.isUnrecorded && context.suspended == 0;
        if (isTransaction || !stores.isEmpty()) {
            throw new IllegalStateException(
                    "cannot run a method without barriers in a transaction, or while a store is open: " + why
                            + "; divide its long methods, or exclude it with the agent's argument if it uses no persistent object "
                            + "and its changes need no rollback");
        }
    }

    @Override
    public boolean isPersistent(Object object) {
        if (object instanceof Persistable) {
            return storeOf(object) != null;
        }
        Context context = contexts.get();
        return context.loading == 0 && unseen.isPersistent(context, object);
    }

    @Override
    public boolean isInTransaction() {
        return transactions.isInTransaction();
    }

    @Override
    public void copied(Object object, Object copy) {
        if (copy != object && copy instanceof Persistable other) {
            Identity identity = other.cedrat$identity();
            if (identity != null && object instanceof Persistable one && one.cedrat$identity() == identity) {
                other.cedrat$identity(null);
            }
        }
    }

    /// Loads what is pending of an object, so that its fields are what a rollback has to restore.
    void loadAll(Object base) {
        Persistent store = storeOf(base);
        if (store != null) {
            for (Slot.Field reference : fields.references(base.getClass())) {
                if (reference.read(base) == null) {
                    store.readNull((Persistable) base, reference);
                }
            }
        }
    }

    /// Whether an array or an object of the JDK is persistent in another store than this one, or was in one that is
    /// closed.
    public boolean isOfAnother(Persistent store, Object object) {
        for (Persistent other : stores) {
            if (other != store && other.owner(object) != null) {
                return true;
            }
        }
        return isLeft(object);
    }

    /// A thread that is in no transaction is about to store to an object.
    ///
    /// @throws IllegalStateException if it is persistent
    void refuseIfPersistent(Context context, Object base) {
        context.isUnrecorded = true;
        try {
            if (base instanceof Persistable) {
                Persistent store = storeOf(base);
                // Of a closed store nothing is persistent any more, whether or not another one is open.
                if (store != null && stores.contains(store)) {
                    store.refuseStore(base);
                }
            } else if (!(base instanceof Class)) {
                for (Persistent store : stores) {
                    store.refuseStore(base);
                }
            }
        } finally {
            context.isUnrecorded = false;
        }
    }

    /// Returns the transaction of this thread.
    ///
    /// @throws IllegalStateException if it may not be used now
    public TransactionLevel current() {
        TransactionLevel transaction = contexts.get().innermost;
        transactions.check(transaction);
        return transaction;
    }

    @Override
    public void lockToRead(Object base) {
        reads.lock(base);
    }

    @Override
    public void lockDeeplyToRead(Object array) {
        NestedArrays.forEach(array, reads::lock);
    }

    // ---- stores

    /// Whether a thread that is in no transaction is about to assign to a persistent object of the program that
    /// is not locked. It may, to what is not stored with the object: a transient field, where the program
    /// keeps what it can compute again.
    private boolean isPersistentOutside(Context context, Object base) {
        boolean isOutside = context.innermost == null && context.suspended == 0;
        return (isOutside || context.isInHook)
                && !context.isUnrecorded
                && storeOf(base) != null
                && !locks.isLocked(base);
    }

    private static boolean isStored(Object base, Slot.Field field) {
        return !field.isTransient()
                || base instanceof Persistable object && storeOf(base).stores(object, field);
    }

    /// Whether the JDK's own fields of an object are those of [AbstractMap]: views that it makes when they are
    /// asked for, and which belong to no transaction, as memo fields do not.
    private static boolean isView(Object base) {
        Class<?> type = base.getClass();
        while (type.getClassLoader() != null) {
            type = type.getSuperclass();
        }
        return type == AbstractMap.class;
    }

    /// The transaction in which this thread is about to store to `base`, or null if nothing is to be
    /// remembered.
    TransactionLevel storing(Context context, Object base) {
        if (context.isUnrecorded) {
            return null;
        }
        if (context.suspended != 0) {
            // What class loaders store to arrays and collections is no store's business: a store that is asked
            // whether these are persistent may wait for a thread that waits for the class.
            if (base instanceof Persistable || context.loading == 0) {
                refuseIfPersistent(context, base);
            }
            return null;
        }
        TransactionLevel transaction = context.innermost;
        if (transaction == null) {
            if (locks.isLocked(base)) {
                throw new IllegalStateException("cannot change an object of "
                        + base.getClass().getTypeName() + " outside of a transaction, because a transaction has locked "
                        + "it: change it in a transaction, which waits for the lock");
            }
            refuseIfPersistent(context, base);
            return null;
        }
        TopLevel top = transaction.top;
        return top.made.has(top.isDoomed ? 0 : transaction.madeMark, base) ? null : transaction;
    }

    void keep(TransactionLevel transaction, Object base, Slot.Field slot) {
        TopLevel top = transaction.top;
        if (top.log.has(transaction.logMark, base, slot, 0) || !unguarded.isKept(slot)) {
            return;
        }
        lockToChange(transaction, base);
        if (slot.isReference()) {
            Object value = slot.readReference(base);
            // A value that a rollback restores is loaded, so that the log need not record that it was pending.
            top.log.add(base, slot, 0, 0, value != null ? value : readNull(base, slot));
        } else {
            top.log.add(base, slot, 0, slot.readBits(base), null);
        }
    }

    /// Returns whether the JDK, infrastructure or an excluded class makes the change. Such a change belongs to no
    /// transaction. To be called for classes of the JDK only, and before a lock is taken: finding out their
    /// caller is not cheap.
    private boolean isFromOutside(Object base) {
        if (base instanceof Persistable || locks.isLocked(base)) {
            return false;
        }
        if (!(base instanceof Class)) {
            for (Persistent store : stores) {
                if (store.livingOwner(base) != null) {
                    return false;
                }
            }
            if (isLeft(base)) {
                return false;
            }
        }
        return callers.areOutside();
    }

    /// Takes the write lock of an object that a transaction is about to change, or of the persistent collection that
    /// it is a part of.
    void lockToChange(TransactionLevel transaction, Object base) {
        if (!(base instanceof Persistable || base instanceof Class)) {
            lockToChangePart(transaction, base);
            return;
        }
        Persistent store = storeOf(base);
        if (store != null) {
            store.check();
            transaction.top.changes(store);
        }
        transactions.lock(transaction, base, true);
        if (store != null) {
            awaitLettingGo(((Persistable) base).cedrat$identity());
        }
    }

    /// As that, of an array or an object of the JDK.
    private void lockToChangePart(TransactionLevel transaction, Object base) {
        if (lockOwner(transaction, base)) {
            return;
        }
        refuseIfLeft(base);
        if (locks.isSurelyWriter(transaction.top.owner, base)) {
            return;
        }
        transactions.lock(transaction, base, true);
        // The lock's last owner may have made it a part of a persistent object, whose store may be closed.
        if (!lockOwner(transaction, base)) {
            refuseIfLeft(base);
        }
    }

    /// @throws IllegalStateException if it was persistent in a store that is closed
    private void refuseIfLeft(Object base) {
        if (isLeft(base)) {
            throw new IllegalStateException(Persistent.CLOSED);
        }
    }

    /// @return false if it is not persistent
    private boolean lockOwner(TransactionLevel transaction, Object base) {
        for (Persistent open : stores) {
            Object owner = open.livingOwner(base);
            if (owner != null) {
                open.check();
                transaction.top.changes(open);
                transactions.lock(transaction, owner, true);
                open.awaitUnloading(owner);
            }
            // The lock's last owner may have taken it back: a change of it would be lost.
            if (transactions.takenBack() != transaction.top.began && open.isTakenBack(base, transaction.top)) {
                transactions.doom(transaction);
                throw takenBack(base);
            }
            if (owner != null) {
                return true;
            }
        }
        return false;
    }

    private static DeadlockException takenBack(Object part) {
        return new DeadlockException("because it was about to change an object of "
                + part.getClass().getTypeName()
                + " that another transaction has removed from a persistent collection");
    }

    /// Waits for threads that are unloading an object. These check under its identity's monitor whether it is locked.
    /// When this returns, no thread that has found it unlocked makes its fields pending any more.
    private static void awaitLettingGo(Identity identity) {
        synchronized (identity) {
            return;
        }
    }

    @Override
    public void beforeField(Object base, int field) {
        Context context = contexts.get();
        if (base == null || context.isUnrecorded) {
            return;
        }
        if (fields.mayBeMemo(field) && slot(context, field, base).isMemo) {
            return;
        }
        if (isPersistentOutside(context, base) && !isStored(base, slot(context, field, base))) {
            return;
        }
        // A static field may be stored to by way of a subclass, and what is locked is the class that declares
        // it.
        Object home = base instanceof Class ? slot(context, field, base).home(base) : base;
        TransactionLevel transaction = storing(context, home);
        if (transaction == null) {
            return;
        }
        context.isUnrecorded = true;
        try {
            // No other code of the JDK assigns to a static field here.
            if (home instanceof Class<?> type && type.getClassLoader() == null && isFromOutside(home)) {
                return;
            }
            keep(transaction, home, fields.slot(field, base));
        } finally {
            context.isUnrecorded = false;
        }
    }

    @Override
    public void beforeFields(Object base) {
        beforeFieldsInJdk(contexts.get(), base);
    }

    /// Code of the JDK is about to assign to fields of an object. Of [AbstractMap] these are views.
    private void beforeFieldsInJdk(Context context, Object base) {
        // What is null is an exception that is not persistent.
        if (base != null && !(base instanceof Persistable && isView(base))) {
            keepFields(context, base);
        }
    }

    /// Keeps all fields of an object of which any may be assigned, by whatever code.
    void keepFields(Context context, Object base) {
        TransactionLevel transaction = storing(context, base);
        if (transaction == null) {
            return;
        }
        context.isUnrecorded = true;
        try {
            Slot.Fields slot = fields.slot(base.getClass());
            if (!transaction.top.log.has(transaction.logMark, base, slot, 0)
                    && !isFromOutside(base)
                    && unguarded.areKept(transaction, base, slot)) {
                lockToChange(transaction, base);
                loadAll(base);
                transaction.top.log.add(base, slot, 0, 0, slot.read(base));
            }
        } finally {
            context.isUnrecorded = false;
        }
    }

    @Override
    public void beforeLink(Object base, Object part) {
        Context context = contexts.get();
        beforeFieldsInJdk(context, base);
        if (part != null) {
            link(context, base, part);
        }
    }

    @Override
    public void beforeLinkInTable(Object array, int index, Object part) {
        beforeElement(array, index, true);
        if (part != null) {
            link(contexts.get(), array, part);
        }
    }

    /// - An object that a transaction adds to a persistent collection is known as a part before others can
    ///   find it: they wait for the collection's lock, which the transaction has.
    private static void link(Context context, Object base, Object part) {
        TransactionLevel transaction = context.innermost;
        if (transaction == null || context.isUnrecorded || context.suspended != 0) {
            return;
        }
        TopLevel top = transaction.top;
        // A transaction without persistent changes has changed no persistent Java collection.
        if (top.changed().length == 0 || top.isDoomed || !top.made.has(0, part)) {
            return;
        }
        context.isUnrecorded = true;
        try {
            for (Persistent store : top.changed()) {
                store.adds(base, part, top);
            }
        } finally {
            context.isUnrecorded = false;
        }
    }

    /// A rollback takes the mark back that a method leaves which throws; outside of transactions the JDK's own does as
    /// it does without barriers.
    @Override
    public void beforeMark(Object base) {
        if (contexts.get().innermost != null) {
            beforeFields(base);
        }
    }

    private Slot.Field slot(Context context, int field, Object base) {
        context.isUnrecorded = true;
        try {
            return fields.slot(field, base);
        } finally {
            context.isUnrecorded = false;
        }
    }

    @Override
    public void beforeElement(Object array, int index) {
        beforeElement(array, index, false);
    }

    @Override
    public void beforeElementInJdk(Object array, int index) {
        beforeElement(array, index, true);
    }

    private void beforeElement(Object array, int index, boolean isInJdk) {
        if (array == null) {
            return;
        }
        Context context = contexts.get();
        TransactionLevel transaction = storing(context, array);
        if (transaction == null || index < 0 || index >= Array.getLength(array)) {
            return;
        }
        context.isUnrecorded = true;
        try {
            UndoLog log = transaction.top.log;
            if (!log.has(transaction.logMark, array, Slot.ELEMENT, index) && !(isInJdk && isFromOutside(array))) {
                lockToChange(transaction, array);
                Object value = array instanceof Object[] references ? element(references, index) : null;
                log.add(array, Slot.ELEMENT, index, Slot.bitsOfElement(array, index), value);
            }
        } finally {
            context.isUnrecorded = false;
        }
    }

    /// The element that a rollback restores, which is loaded if it is not.
    private Object element(Object[] array, int index) {
        return Barrier.element(array, index, array[index]);
    }

    @Override
    public void beforeElements(Object array, int from, int length) {
        beforeElements(array, from, length, false);
    }

    @Override
    public void beforeElementsInJdk(Object array, int from, int length) {
        beforeElements(array, from, length, true);
    }

    private void beforeElements(Object array, int from, int length, boolean isInJdk) {
        if (array == null || !array.getClass().isArray() || length <= 0) {
            return;
        }
        Context context = contexts.get();
        TransactionLevel transaction = storing(context, array);
        if (transaction == null || from < 0 || from > Array.getLength(array) - length) {
            return;
        }
        context.isUnrecorded = true;
        try {
            if (isInJdk && isFromOutside(array)) {
                return;
            }
            keepElements(transaction, array, from, length);
        } finally {
            context.isUnrecorded = false;
        }
    }

    void keepElements(TransactionLevel transaction, Object array, int from, int length) {
        UndoLog log = transaction.top.log;
        if (!log.hasElements(transaction.logMark, array, from, length)) {
            lockToChange(transaction, array);
            Object old = Array.newInstance(array.getClass().getComponentType(), length);
            System.arraycopy(array, from, old, 0, length);
            log.add(array, Slot.ELEMENTS, from, length, old);
        }
    }

    // ---- stores that no barrier sees

    @Override
    public void beforeArgument(Object argument) {
        unseen.beforeArgument(argument);
    }

    @Override
    public void beforeArgumentInJdk(Object argument) {
        if (argument != null && argument.getClass().isArray()) {
            beforeElements(argument, 0, Array.getLength(argument), true);
        } else if (argument instanceof Map || argument instanceof Collection) {
            // By its own class, one of `java.util.concurrent`.
            unseen.beforeChangeInJdk(argument);
        } else {
            unseen.beforeArgument(argument);
        }
    }

    @Override
    public void afterChange(Object collection) {
        transactions.afterChange(collection);
    }

    @Override
    public void beforeCall(Object receiver, String method) {
        unseen.beforeCall(receiver, method);
    }

    @Override
    public void beforeInherited(Object receiver, String method, Object argument) {
        unseen.beforeInherited(receiver, method, argument);
    }

    @Override
    public void beforeStatic(String method) {
        unseen.beforeStatic(method);
    }

    @Override
    public void beforeHandle(Object handle, Object base) {
        unseen.beforeHandle(handle, base);
    }

    @Override
    public void beforeInvoke(Object method, Object receiver, Object arguments) {
        unseen.beforeInvoke(method, receiver, arguments);
    }

    @Override
    public void beforeReflection(Object field, Object receiver) {
        unseen.beforeReflection(field, receiver);
    }

    // ---- what belongs to no transaction, or needs no record

    @Override
    public void made(Object object) {
        Context context = contexts.get();
        TransactionLevel transaction = context.innermost;
        if (object != null && transaction != null && !context.isUnrecorded && context.suspended == 0) {
            transaction.top.made.add(object, transaction);
        }
    }

    @Override
    public void suspend() {
        contexts.get().suspended++;
    }

    @Override
    public void resume() {
        contexts.get().suspended--;
    }

    @Override
    public void suspendLoading() {
        Context context = contexts.get();
        context.suspended++;
        context.loading++;
    }

    @Override
    public void resumeLoading() {
        Context context = contexts.get();
        context.suspended--;
        context.loading--;
    }
}
