package cedrat.persist.boot;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import jdk.internal.vm.annotation.DontInline;
import jdk.internal.vm.annotation.ReservedStackAccess;

/// The static methods that woven code calls before each store, and where it has read a null. It lies on the
/// boot class path, because classes of `java.util` are woven too.
///
/// The guard is read plainly and updated atomically. A thread that begins a transaction, or opens a
/// store, sees its own update; what other threads may miss for a moment is a lock that was taken just now, or
/// that a store was opened just now, by which they would be refused a store outside of any transaction. An
/// object that a store has made persistent, or has loaded, comes to another thread behind that update.
///
/// While no transaction lives and no store is open each of the methods for stores is a comparison of a static
/// field with zero; the just-in-time compiler sees that field at each store, and tests it once where it can.
/// A `volatile` field, a `ThreadLocal` or a `SwitchPoint` would cost more in loops.
///
/// Otherwise an assignment by a thread without a transaction passes without a call if its object is neither persistent
/// nor locked. The object's [Header] shows that of nearly all objects, and a table shows which threads have a
/// transaction.
public final class Barrier {
    private static final VarHandle LIVE;
    /// Amount that an open store adds to the guard: more than there are transactions.
    private static final int STORE = 1 << 20;

    /// Amount added to the guard while a store is open whose reads take locks. It makes the guard negative, so a
    /// read compares one field with zero as long as there is no such store.
    private static final int LOCKING = Integer.MIN_VALUE;

    /// Number of live top-level transactions of this process, plus [#STORE] for each open store, plus [#LOCKING] if
    /// reads of one of these stores take locks.
    private static int live;
    /// Number of open stores whose reads take locks.
    private static int locking;

    /// Numbers of live transactions by the low bits of the identifiers of their threads. Other threads than these find
    /// 0, or seldom the number of another. The compiler keeps the number out of loops that assign to arrays of
    /// other types, and `short` is the rarest.
    private static final short[] THREADS = new short[1 << 12];

    private static final VarHandle THREAD;

    /// Numbers of locked objects by the low bits of their identity hash codes.
    private static final int[] LOCKS = new int[1 << 12];

    private static final VarHandle LOCK;

    /// Number of buckets from which on a hash table may be loaded by part.
    public static final int PARTED_BUCKETS_MIN = 1 << 12;

    /// Whether a hash table was ever loaded by part. Read plainly: a table comes to another thread behind its update.
    private static boolean hasParts;

    private static volatile Handler handler;
    private static FieldNumbers numbers;
    /// Whether code that was woven by a build has run before there was a handler.
    private static boolean hasRunUnhandled;

    static {
        try {
            LIVE = MethodHandles.lookup().findStaticVarHandle(Barrier.class, "live", int.class);
            THREAD = MethodHandles.arrayElementVarHandle(short[].class);
            LOCK = MethodHandles.arrayElementVarHandle(int[].class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private Barrier() {}

    /// Installs the handler.
    ///
    /// @throws IllegalStateException if there is one: two would know nothing of each other's transactions. Or if
    ///                               woven code has run without one: its fields have no numbers
    public static synchronized void install(Handler handler, FieldNumbers numbers) {
        if (Barrier.handler != null) {
            throw new IllegalStateException(
                    "the agent is loaded already: name it once, by -javaagent or in the manifest of the executable jar");
        }
        if (hasRunUnhandled) {
            throw new IllegalStateException(
                    "cannot load the agent: classes that a build has woven have run without it. "
                            + "Start Java with -javaagent:persist.jar, or with the agent in the manifest of the executable jar");
        }
        Barrier.numbers = numbers;
        Barrier.handler = handler;
    }

    /// Whether there is a handler. Without one no transaction begins and no store is open, and there never will be one.
    private static boolean isHandled() {
        return handler != null || isHandledLater();
    }

    private static synchronized boolean isHandledLater() {
        hasRunUnhandled = handler == null;
        return handler != null;
    }

    /// Bootstrap method of the dynamic constants by which a class that a build has woven names its fields.
    ///
    /// @param lookup   of the class with the constant
    /// @param name     the name of the field
    /// @param type     of the constant
    /// @param owner    the binary name of the class that the instruction names
    /// @param isStatic 1 for a static field, otherwise 0
    public static int number(MethodHandles.Lookup lookup, String name, Class<?> type, String owner, int isStatic) {
        return isHandled() ? numbers.add(owner, name, isStatic != 0) : 0;
    }

    /// The hash code of a constant of an enum, in place of the identity hash code that differs in each process.
    public static int hash(Object constant) {
        int hash = ((Enum<?>) constant).name().hashCode();
        // Zero is what the constant has before it is asked.
        return hash == 0 ? 1 : hash;
    }

    /// Returns whether several threads evaluate a stream. In a transaction only its own thread does: changes of others
    /// would not be rolled back.
    public static boolean isParallel(boolean mayBe) {
        return mayBe && ((live & STORE - 1) == 0 || !handler.isInTransaction());
    }

    /// A top-level transaction begins.
    public static void opened() {
        LIVE.getAndAdd(1);
    }

    /// A top-level transaction has ended.
    public static void closed() {
        LIVE.getAndAdd(-1);
    }

    /// Runs work that must not be broken off: where the stack ends within it, it continues in a part of the
    /// stack that the virtual machine reserves for such methods, one page long.
    ///
    /// @throws StackOverflowError if it has used that part, also if it has ended normally
    @DontInline
    @ReservedStackAccess
    public static void unbroken(Runnable work) {
        work.run();
    }

    /// Makes nested calls, so many that the stack suffices for a later call of [#unbroken] by the same caller.
    ///
    /// @return the sum of the calls
    @DontInline
    public static int probe(int calls) {
        return calls == 0 ? 0 : probe(calls - 1) + 1;
    }

    /// Notes that this thread has a transaction from now on.
    ///
    /// @return the argument of [#left]
    public static int entered() {
        int thread = thisThread();
        THREAD.getAndAdd(THREADS, thread, (short) 1);
        return thread;
    }

    /// Notes that a thread no longer has a transaction. On any thread.
    ///
    /// @param thread the result of [#entered]
    public static void left(int thread) {
        THREAD.getAndAdd(THREADS, thread, (short) -1);
    }

    private static int thisThread() {
        return (int) Thread.currentThread().threadId() & THREADS.length - 1;
    }

    /// Whether this thread may have a transaction.
    private static boolean mayBeInside() {
        return (live & STORE - 1) != 0 && THREADS[thisThread()] != 0;
    }

    /// Notes that an object is locked from now on. One thread at a time. A thread that needs to see it is synchronised
    /// with the caller by other means.
    public static void locked(Object object) {
        int lock = lockOf(object);
        LOCK.setRelease(LOCKS, lock, LOCKS[lock] + 1);
    }

    /// Notes that an object is no longer locked. One thread at a time.
    public static void unlocked(Object object) {
        int lock = lockOf(object);
        LOCK.setRelease(LOCKS, lock, LOCKS[lock] - 1);
    }

    /// Whether an object may be locked.
    public static boolean mayBeLocked(Object object) {
        return LOCKS[lockOf(object)] != 0;
    }

    private static int lockOf(Object object) {
        return System.identityHashCode(object) & LOCKS.length - 1;
    }

    /// A store of persistent objects is open.
    public static void storeOpened() {
        LIVE.getAndAdd(STORE);
    }

    /// It is closed.
    public static void storeClosed() {
        LIVE.getAndAdd(-STORE);
    }

    /// Notes that a store was opened whose reads take locks.
    public static synchronized void lockingOpened() {
        if (locking++ == 0) {
            LIVE.getAndAdd(LOCKING);
        }
    }

    /// Notes that such a store was closed.
    public static synchronized void lockingClosed() {
        if (--locking == 0) {
            LIVE.getAndAdd(LOCKING);
        }
    }

    /// Called before a field of an object, or an element of an array, is read by code with barriers of read locks.
    public static void lockToRead(Object base) {
        if (live < 0 && mayBeInside()) {
            handler.lockToRead(base);
        }
    }

    /// As that, of an array whose elements, should they be arrays, are read too, however deep.
    public static void lockDeeplyToRead(Object array) {
        if (live < 0 && mayBeInside()) {
            handler.lockDeeplyToRead(array);
        }
    }

    /// A hash table is about to be loaded by part, or will be: its empty buckets may only be unloaded.
    public static void loadsParts() {
        hasParts = true;
    }

    /// Returns an element of the table of a `HashMap`, which is loaded if it is not.
    ///
    /// @param value what the table has there
    public static Object element(Object[] table, int index, Object value) {
        return value == null && hasParts && table.length >= PARTED_BUCKETS_MIN ? readElement(table, index) : value;
    }

    @DontInline
    private static Object readElement(Object[] table, int index) {
        return Header.mayHaveHash(table) ? handler.readElement(table, index) : table[index];
    }

    /// Called before the method by which all entries are added to a `HashMap`: the bucket of the hash stays loaded
    /// until the transaction ends. With a test at its read, or a call at its beginning, the method would be too
    /// long for inlining.
    public static void beforePut(Object map, int hash) {
        if (hasParts && Header.mayHaveHash(map) && mayBeInside()) {
            handler.beforePut(map, hash);
        }
    }

    /// In place of null, where a reference field of a persistent object has turned out to be null: it may only
    /// not be loaded yet.
    ///
    /// It stays a call in all code: it is seldom made, and stands in every read of a reference. The virtual machine
    /// knows of one handler, so the quick one of its compilers would put all of the handler's method there.
    ///
    /// @return the field's value
    @DontInline
    public static Object readNull(Object base, int field) {
        return handler.readNull(base, field);
    }

    /// Returns the value of a reference field, for code of a redefined class, which cannot get a method for the read.
    ///
    /// @param value what the field has, null if it is only not loaded
    public static Object read(Object base, Object value, int field) {
        boolean isRead = value != null || !(base instanceof Persistable object) || object.cedrat$identity() == null;
        return isRead ? value : handler.readNull(base, field);
    }

    /// Before fields of an object are read where the weaver does not see which.
    public static void beforeRead(Object base) {
        if (isStoreOpen()) {
            handler.beforeRead(base);
        }
    }

    /// After a call of `clone`: a copy of a persistent object is an object of its own.
    public static void copied(Object object, Object copy) {
        if (isStoreOpen()) {
            handler.copied(object, copy);
        }
    }

    /// Before a store to a field. What it has in it, the slow path reads itself: an instruction that read it
    /// here would check for null in place of the store, which needs no instruction for that.
    ///
    /// @param base the object, or the class of a static field
    public static void beforeField(Object base, int field) {
        if (live != 0 && concernsObject(base)) {
            handler.beforeField(base, field);
        }
    }

    /// Returns an object if it is persistent, and otherwise null, which the barriers let pass. In infrastructure the
    /// barriers of assignments get that.
    public static Object ifPersistent(Object base) {
        return base != null && isStoreOpen() && mayBePersistent(base) && handler.isPersistent(base) ? base : null;
    }

    private static boolean mayBePersistent(Object base) {
        return Header.mayHaveHash(base) || isPersistent(base);
    }

    private static boolean isStoreOpen() {
        return (live & ~LOCKING) >= STORE;
    }

    // Each of these is short enough for the compiler to put it into its caller, however seldom that is called.

    /// Whether an assignment to a field of an object of the program, or to a static field, may concern a transaction or
    /// a store.
    ///
    /// @param base the object, or the class of a static field
    private static boolean concernsObject(Object base) {
        return isPersistent(base) || (live & STORE - 1) != 0 && concernsTransaction(base);
    }

    /// Whether an object of a woven class is persistent.
    private static boolean isPersistent(Object base) {
        return base instanceof Persistable object && object.cedrat$identity() != null;
    }

    /// A static field may be named by a subclass of the class that declares it, which is locked.
    private static boolean concernsTransaction(Object base) {
        return mayBeInside() || base instanceof Class || base != null && Header.mayHaveHash(base) && mayBeLocked(base);
    }

    /// Whether an assignment to an array, or to an object of the JDK, may concern a transaction or a store. Persistent
    /// ones have an identity hash code.
    private static boolean concernsPart(Object base) {
        return mayBeInside() || base != null && Header.mayHaveHash(base);
    }

    /// Whether a change of any object may concern a transaction or a store.
    private static boolean concernsAny(Object base) {
        return concernsPart(base) || isPersistent(base);
    }

    /// Before a store to a field of the JDK, whichever it is: five bytes, see the weaver.
    public static void beforeFields(Object base) {
        if (live != 0 && concernsPart(base)) {
            handler.beforeFields(base);
        }
    }

    /// As that, of a field that leads to what a collection is made of. Four bytes.
    public static void beforeLink(Object base, Object part) {
        if (live != 0 && concernsPart(base)) {
            handler.beforeLink(base, part);
        }
    }

    /// As that, where the JDK marks an object while it only looks at it.
    public static void beforeMark(Object base) {
        if (live != 0 && concernsPart(base)) {
            handler.beforeMark(base);
        }
    }

    /// Before a store to an array.
    public static void beforeElement(Object array, int index) {
        if (live != 0 && concernsPart(array)) {
            handler.beforeElement(array, index);
        }
    }

    /// As [#beforeElement], in a class of the JDK.
    public static void beforeElementInJdk(Object array, int index) {
        if (live != 0 && concernsPart(array)) {
            handler.beforeElementInJdk(array, index);
        }
    }

    /// As that, of an array whose elements are what a collection is made of.
    public static void beforeLinkInTable(Object array, int index, Object part) {
        if (live != 0 && concernsPart(array)) {
            handler.beforeLinkInTable(array, index, part);
        }
    }

    /// In place of a store to an array of references, in `java.util.HashMap`.
    public static void store(Object[] array, int index, Object value) {
        if (live != 0 && concernsPart(array)) {
            handler.beforeLinkInTable(array, index, value);
        }
        array[index] = value;
    }

    /// In place of [System#arraycopy].
    public static void arraycopy(Object from, int fromIndex, Object to, int toIndex, int length) {
        if (live != 0 && concernsPart(to)) {
            handler.beforeElements(to, toIndex, length);
        }
        System.arraycopy(from, fromIndex, to, toIndex, length);
    }

    /// As [#arraycopy], in a class of the JDK.
    public static void arraycopyInJdk(Object from, int fromIndex, Object to, int toIndex, int length) {
        if (live != 0 && concernsPart(to)) {
            handler.beforeElementsInJdk(to, toIndex, length);
        }
        System.arraycopy(from, fromIndex, to, toIndex, length);
    }

    /// As [#arraycopy], of code that was woven with read locks.
    public static void lockAndArraycopy(Object from, int fromIndex, Object to, int toIndex, int length) {
        lockToRead(from);
        arraycopy(from, fromIndex, to, toIndex, length);
    }

    /// As [#lockAndArraycopy], in a class of the JDK.
    public static void lockAndArraycopyInJdk(Object from, int fromIndex, Object to, int toIndex, int length) {
        lockToRead(from);
        arraycopyInJdk(from, fromIndex, to, toIndex, length);
    }

    /// Before a call that may change its argument.
    public static void beforeArgument(Object argument) {
        if (live != 0 && concernsAny(argument)) {
            handler.beforeArgument(argument);
        }
    }

    /// As [#beforeArgument], in a class of the JDK.
    public static void beforeArgumentInJdk(Object argument) {
        if (live != 0 && concernsAny(argument)) {
            handler.beforeArgumentInJdk(argument);
        }
    }

    /// After a method that may change a collection of `java.util.concurrent`, whether it has returned or thrown.
    public static void afterChange(Object collection) {
        if (mayBeInside()) {
            handler.afterChange(collection);
        }
    }

    /// Before a call that may change its receiver.
    public static void beforeCall(Object receiver, String method) {
        if (live != 0 && concernsAny(receiver)) {
            handler.beforeCall(receiver, method);
        }
    }

    /// Before a call of a method that may be inherited from the JDK, and may change its argument.
    public static void beforeInherited(Object receiver, String method, Object argument) {
        if (live != 0 && concernsAny(argument)) {
            handler.beforeInherited(receiver, method, argument);
        }
    }

    /// At the beginning of a method of a class that could not be woven.
    ///
    /// @param why names the class and the reason
    public static void refuseUnwoven(String why) {
        if (live != 0) {
            handler.refuseUnwoven(why);
        }
    }

    /// Before a call of a static method that changes static state of the JDK.
    public static void beforeStatic(String method) {
        if (mayBeInside()) {
            handler.beforeStatic(method);
        }
    }

    /// Before a store by a handle to a variable of `base`.
    public static void beforeHandle(Object handle, Object base) {
        if (live != 0 && concernsAny(base)) {
            handler.beforeHandle(handle, base);
        }
    }

    /// Before a call by [java.lang.reflect.Method].
    public static void beforeInvoke(Object method, Object receiver, Object arguments) {
        if (live != 0) {
            handler.beforeInvoke(method, receiver, arguments);
        }
    }

    /// Before a store by [java.lang.reflect.Field].
    public static void beforeReflection(Object field, Object receiver) {
        if (live != 0) {
            handler.beforeReflection(field, receiver);
        }
    }

    /// After the making of an object or array.
    public static void made(Object object) {
        if (mayBeInside()) {
            handler.made(object);
        }
    }

    /// Before a class of the application is initialised. Whether a transaction lives is not asked: one that
    /// begins meanwhile must not make [#resume] resume what was not suspended.
    public static void suspend() {
        if (isHandled()) {
            handler.suspend();
        }
    }

    /// After a class of the application was initialised.
    public static void resume() {
        if (isHandled()) {
            handler.resume();
        }
    }

    /// Before a class is loaded or linked, or one of the JDK is initialised.
    public static void suspendLoading() {
        if (isHandled()) {
            handler.suspendLoading();
        }
    }

    /// After a class was loaded or linked, or one of the JDK was initialised.
    public static void resumeLoading() {
        if (isHandled()) {
            handler.resumeLoading();
        }
    }
}
