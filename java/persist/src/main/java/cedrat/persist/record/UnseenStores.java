package cedrat.persist.record;

import cedrat.persist.boot.Barrier;
import cedrat.persist.boot.Persistable;
import cedrat.persist.jdk.Composition;
import cedrat.persist.jdk.JavaBase.Treatment;
import cedrat.persist.jdk.ReflectiveCall;
import cedrat.persist.jdk.Treatments;
import cedrat.persist.memory.ConcurrentState;
import cedrat.persist.memory.ConcurrentViews;
import cedrat.persist.memory.Fields;
import cedrat.persist.memory.Slot;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.VarHandle;
import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.Buffer;
import java.util.Enumeration;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;

/// Preparation of calls of code without barriers that may change an object: native methods, most of the JDK,
/// handles and reflection. The object is saved as a whole, with its parts, or the call is refused, as [Treatment]
/// says. The methods `before…` are those of [cedrat.persist.boot.Handler].
///
/// **Threads:** any.
public final class UnseenStores {
    private final Recorder recorder;
    private final ThreadLocal<Context> contexts;
    private final Fields fields;
    private final Callers callers;
    /// The open stores.
    private final List<Persistent> stores;
    private final Treatments treatments = new Treatments();

    UnseenStores(
            Recorder recorder, ThreadLocal<Context> contexts, Fields fields, Callers callers, List<Persistent> stores) {
        this.recorder = recorder;
        this.contexts = contexts;
        this.fields = fields;
        this.callers = callers;
        this.stores = stores;
    }

    // ---- calls

    void beforeArgument(Object argument) {
        if (argument == null) {
            return;
        }
        if (argument.getClass().isArray()) {
            recorder.beforeElements(argument, 0, Array.getLength(argument));
            return;
        }
        Context context = contexts.get();
        if (context.isUnrecorded || context.loading != 0) {
            return;
        }
        context.isUnrecorded = true;
        Treatment treatment;
        try {
            treatment = treatments.ofArgument(argument.getClass());
        } finally {
            context.isUnrecorded = false;
        }
        beforeUnseen(context, argument, treatment, null);
    }

    void beforeCall(Object receiver, String method) {
        Context context = contexts.get();
        if (receiver == null || context.isUnrecorded || context.loading != 0) {
            return;
        }
        if (receiver instanceof ThreadLocal<?> local && method.startsWith("get(")) {
            if (context.innermost != null) {
                initialize(context, local);
            }
        } else {
            beforeUnseen(context, receiver, treatment(context, receiver, method), method);
        }
    }

    /// The first value of a thread local variable stays when the transaction that asks for it is rolled back.
    /// As what a class initialiser makes, it belongs to none.
    private static void initialize(Context context, ThreadLocal<?> local) {
        context.suspended++;
        try {
            local.get();
        } finally {
            context.suspended--;
        }
    }

    void beforeInherited(Object receiver, String method, Object argument) {
        Context context = contexts.get();
        if (receiver != null && !context.isUnrecorded && context.loading == 0 && isOfJdk(context, receiver, method)) {
            beforeArgument(argument);
        }
    }

    private boolean isOfJdk(Context context, Object receiver, String method) {
        context.isUnrecorded = true;
        try {
            return treatments.isOfJdk(receiver.getClass(), method);
        } finally {
            context.isUnrecorded = false;
        }
    }

    private Treatment treatment(Context context, Object receiver, String method) {
        context.isUnrecorded = true;
        try {
            return treatments.of(receiver.getClass(), method);
        } finally {
            context.isUnrecorded = false;
        }
    }

    void beforeStatic(String method) {
        Context context = contexts.get();
        if (context.innermost != null && !context.isUnrecorded && context.suspended == 0) {
            throw new UnsupportedOperationException("cannot call " + method + " in a transaction, in " + place(context)
                    + ": a rollback cannot undo it; call it outside of transactions");
        }
    }

    // ---- handles, reflection, and what the program says

    void beforeHandle(Object handle, Object base) {
        Context context = contexts.get();
        boolean isUnsafe = handle != null && handle.getClass().getName().equals("sun.misc.Unsafe");
        if (handle instanceof VarHandle one && isStatic(context, one)
                || isUnsafe && (base == null || base instanceof Class)) {
            if (recorder.storing(context, handle) != null) {
                throw new UnsupportedOperationException("cannot write a static field or an address through "
                        + handle.getClass().getName() + " in a transaction, in " + place(context)
                        + ": a rollback cannot undo it; assign the field by its name, or write outside of "
                        + "transactions");
            }
        } else if (base instanceof Buffer
                || base instanceof MemorySegment
                || base != null && base.getClass().isArray()) {
            beforeArgument(base);
        } else if (base != null) {
            recorder.keepFields(context, base);
        }
    }

    private static boolean isStatic(Context context, VarHandle handle) {
        boolean wasUnrecorded = context.isUnrecorded;
        context.isUnrecorded = true;
        try {
            return handle.coordinateTypes().isEmpty();
        } finally {
            context.isUnrecorded = wasUnrecorded;
        }
    }

    void beforeInvoke(Object method, Object receiver, Object arguments) {
        Context context = contexts.get();
        if (!(method instanceof Method called) || context.isUnrecorded || context.loading != 0) {
            return;
        }
        ReflectiveCall call;
        context.isUnrecorded = true;
        try {
            call = new ReflectiveCall(called, arguments);
        } finally {
            context.isUnrecorded = false;
        }
        if (call.changesStatics()) {
            beforeStatic(call.shownName());
        }
        if (call.changesReceiver()) {
            beforeCall(receiver, call.method());
        }
        for (Object argument : call.changed()) {
            beforeArgument(argument);
        }
    }

    void beforeReflection(Object field, Object receiver) {
        Context context = contexts.get();
        if (!(field instanceof Field reflected) || context.isUnrecorded) {
            return;
        }
        boolean isStatic = Modifier.isStatic(reflected.getModifiers());
        // Such a store will throw.
        if (!isStatic && !reflected.getDeclaringClass().isInstance(receiver)) {
            return;
        }
        Object home = isStatic ? reflected.getDeclaringClass() : receiver;
        TransactionLevel transaction = recorder.storing(context, home);
        if (transaction == null) {
            return;
        }
        context.isUnrecorded = true;
        try {
            recorder.keep(transaction, home, fields.slot(reflected));
        } finally {
            context.isUnrecorded = false;
        }
    }

    /// The program is about to change an object where no barrier is.
    public void touched(Object object) {
        Context context = contexts.get();
        if (context.innermost == null) {
            throw new IllegalStateException("Store.touched was called outside of a transaction, where nothing is "
                    + "rolled back: begin a transaction, and call it there");
        }
        recorder.transactions.check(context.innermost);
        if (object instanceof Persistable || isUnguarded(context, object)) {
            recorder.beforeRead(object);
            recorder.keepFields(context, object);
        } else {
            beforeArgument(object);
        }
    }

    private boolean isUnguarded(Context context, Object object) {
        if (object.getClass().isArray()) {
            return false;
        }
        boolean wasUnrecorded = context.isUnrecorded;
        context.isUnrecorded = true;
        try {
            return fields.slot(object.getClass()).unguarded() != null;
        } finally {
            context.isUnrecorded = wasUnrecorded;
        }
    }

    // ---- what is kept, and what is refused

    /// Code without barriers is about to change the object, if its treatment says so.
    ///
    /// @param method the one that is called on it; null if it is an argument
    private void beforeUnseen(Context context, Object object, Treatment treatment, String method) {
        if (treatment == Treatment.SAVED) {
            lockIterated(context, object);
            keepWhole(context, object, method);
        } else if (treatment == Treatment.REFUSED) {
            Object whole = whole(context, object);
            if (context.innermost == null) {
                if (!stores.isEmpty()) {
                    recorder.refuseIfPersistent(context, whole);
                }
            } else if (isKeptIfPersistent(whole) && isPersistent(context, whole)) {
                keepPersistent(context, object, whole, method);
            } else if (whole == object || recorder.storing(context, whole) != null) {
                refuse(context, object, method);
            }
        }
    }

    /// An iterator of a collection without barriers is about to read. Others have their own.
    private void lockIterated(Context context, Object object) {
        if (object instanceof Iterator || object instanceof Enumeration) {
            Object whole = whole(context, object);
            if (whole != object) {
                recorder.lockToRead(whole);
            }
        }
    }

    private static Object whole(Context context, Object object) {
        boolean wasUnrecorded = context.isUnrecorded;
        context.isUnrecorded = true;
        try {
            return ConcurrentViews.wholeOrSelf(object);
        } finally {
            context.isUnrecorded = wasUnrecorded;
        }
    }

    /// Whether an object is kept and stored as a whole if it is persistent, and refused to transactions otherwise:
    /// threads that are in none change it behind their back then.
    private static boolean isKeptIfPersistent(Object object) {
        return object instanceof Properties
                || ConcurrentState.isKept(object)
                || object.getClass().getPackageName().equals("java.util.concurrent.atomic");
    }

    /// A persistent object without barriers is about to be changed.
    ///
    /// @param object what is called: the whole, or a view, iterator or entry of it
    private void keepPersistent(Context context, Object object, Object whole, String method) {
        if (ConcurrentViews.losesRemoval(object, whole)) {
            throw new UnsupportedOperationException("cannot call remove of an iterator of a persistent "
                    + whole.getClass().getName() + ", in " + place(context)
                    + ": after a rollback it would remove nothing; call removeIf, or remove with the element");
        }
        keepWhole(context, whole, method);
        if (object instanceof Iterator || object instanceof Map.Entry) {
            keepWhole(context, object, method);
        }
        refuseToWait(context, whole, method);
    }

    /// A transaction that waits for a queue has it locked, so that no other one fills or empties it.
    private void refuseToWait(Context context, Object whole, String method) {
        if (!(whole instanceof BlockingQueue<?> queue) || method == null) {
            return;
        }
        boolean waits = method.startsWith("take") && queue.isEmpty()
                || method.startsWith("put") && queue.remainingCapacity() == 0;
        if (waits) {
            String name = method.substring(0, method.indexOf('('));
            throw new UnsupportedOperationException("cannot call " + name + " of a persistent queue that is "
                    + (name.startsWith("take") ? "empty" : "full") + ", in " + place(context)
                    + ": it would wait without end, because no other transaction can change the queue meanwhile; call "
                    + (name.startsWith("take") ? "poll" : "offer") + ", and wait outside of transactions");
        }
    }

    /// A collection of `java.util.concurrent` is about to be changed, by whatever code. Only persistent ones are kept:
    /// the JDK has others for itself.
    void beforeChangeInJdk(Object collection) {
        Context context = contexts.get();
        boolean isRecorded = !context.isUnrecorded && context.loading == 0 && ConcurrentState.isKept(collection);
        if (isRecorded && Barrier.ifPersistent(collection) != null) {
            keepWhole(context, collection, null);
            if (context.innermost != null) {
                context.calls.enter(collection);
            }
        }
    }

    /// Whether an object of the JDK is, or was in a store that is closed. Other threads do not change it then, but in
    /// transactions.
    boolean isPersistent(Context context, Object object) {
        boolean wasUnrecorded = context.isUnrecorded;
        context.isUnrecorded = true;
        try {
            for (Persistent store : stores) {
                if (store.owner(object) != null) {
                    return true;
                }
            }
            return recorder.isLeft(object);
        } finally {
            context.isUnrecorded = wasUnrecorded;
        }
    }

    private void refuse(Context context, Object object, String method) {
        // What they print is outside of memory.
        boolean isConsole = object == System.out || object == System.err;
        if (!isConsole && recorder.storing(context, object) != null && !isCalledFromOutside(context)) {
            Class<?> type = object.getClass();
            Class<?> deciding = Treatments.deciding(type);
            String shown = type == deciding ? type.getName() : type.getName() + ", a " + deciding.getName();
            throw new UnsupportedOperationException((method == null
                            ? "cannot pass an object of " + shown + " to the JDK"
                            : "cannot call "
                                    + method.substring(0, method.indexOf('(')).replace('/', '.') + " of an object of "
                                    + shown)
                    + " in a transaction, in " + place(context) + ": the object is older "
                    + "than the transaction, and " + deciding.getName() + " has no write barriers, so a rollback "
                    + "cannot undo the change. Change it outside of the transaction, or create it in the transaction");
        }
    }

    /// Returns the line of the program from which a barrier was reached.
    private String place(Context context) {
        boolean wasUnrecorded = context.isUnrecorded;
        context.isUnrecorded = true;
        try {
            return callers.place();
        } finally {
            context.isUnrecorded = wasUnrecorded;
        }
    }

    /// The views of `Collections` call what they are views of.
    private boolean isCalledFromOutside(Context context) {
        context.isUnrecorded = true;
        try {
            return callers.areOutside();
        } finally {
            context.isUnrecorded = false;
        }
    }

    private void keepWhole(Context context, Object object, String method) {
        TransactionLevel transaction = recorder.storing(context, object);
        if (transaction == null) {
            return;
        }
        if (isOutsideOfTheHeap(object)) {
            refuse(context, object, method);
        }
        context.isUnrecorded = true;
        try {
            keepParts(transaction, object);
        } finally {
            context.isUnrecorded = false;
        }
    }

    /// Whether the memory of a buffer or segment is none of the Java heap.
    private static boolean isOutsideOfTheHeap(Object object) {
        return object instanceof Buffer buffer && buffer.isDirect()
                || object instanceof MemorySegment segment && segment.isNative();
    }

    /// Keeps an object and the objects and arrays that are parts of it. Each is locked, because parts may
    /// have other owners: an array that a buffer was made of, for one.
    private void keepParts(TransactionLevel transaction, Object object) {
        TopLevel top = transaction.top;
        if (object instanceof StringBuilder || object instanceof StringBuffer) {
            if (!top.log.has(transaction.logMark, object, Slot.TEXT, 0)) {
                recorder.lockToChange(transaction, object);
                top.log.add(object, Slot.TEXT, 0, 0, object.toString());
            }
            return;
        }
        if (object instanceof Properties properties) {
            if (!top.log.has(transaction.logMark, object, Slot.PROPERTIES, 0)) {
                recorder.lockToChange(transaction, object);
                top.log.add(object, Slot.PROPERTIES, 0, 0, Map.copyOf(properties));
            }
            return;
        }
        if (ConcurrentState.isKept(object)) {
            refuseOuterCall(transaction, object);
            refuseOuterCall(transaction, ConcurrentState.inner(object));
            keepState(transaction, ConcurrentState.inner(object));
            return;
        }
        if (object.getClass().isArray()) {
            if (Array.getLength(object) > 0) {
                recorder.keepElements(transaction, object, 0, Array.getLength(object));
            }
            return;
        }
        Slot.Fields slot = fields.slot(object.getClass());
        if (top.log.has(transaction.logMark, object, slot, 0)
                || !recorder.unguarded.areKept(transaction, object, slot)) {
            return;
        }
        recorder.lockToChange(transaction, object);
        recorder.loadAll(object);
        top.log.add(object, slot, 0, 0, slot.read(object));
        for (Slot.Field reference : fields.references(object.getClass())) {
            keepPart(transaction, object, reference.read(object));
        }
    }

    /// Refuses what a rollback of a nested transaction would restore in the middle of a call.
    private static void refuseOuterCall(TransactionLevel transaction, Object collection) {
        if (transaction.top.context.calls.isOuter(collection, transaction.callMark)) {
            throw new IllegalStateException("cannot change a persistent "
                    + collection.getClass().getName()
                    + " in a nested transaction that a function of its own has begun: change it after the call, or in "
                    + "the outer transaction");
        }
    }

    private void keepState(TransactionLevel transaction, Object inner) {
        UndoLog log = transaction.top.log;
        if (!log.has(transaction.logMark, inner, Slot.CONCURRENT, 0)) {
            recorder.lockToChange(transaction, inner);
            log.add(inner, Slot.CONCURRENT, 0, 0, ConcurrentState.of(inner));
        }
    }

    private void keepPart(TransactionLevel transaction, Object whole, Object part) {
        if (!Composition.isPart(treatments, whole, part)) {
            return;
        }
        keepParts(transaction, part);
        if (part instanceof Object[] elements) {
            for (Object element : elements) {
                keepPart(transaction, whole, element);
            }
        }
    }
}
