package cedrat.persist.lock;

import cedrat.persist.boot.Barrier;
import cedrat.persist.event.Counter;
import cedrat.persist.event.LockWaitEvent;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

/// Reader/writer locks on any object, by identity, held to the end of a top-level transaction (Transactions
/// for Java, §2.1).
///
/// A lock is in the table while an owner holds it or waits for it; then its owner keeps the object alive, so
/// that the table needs no weak references and the objects no field.
///
/// - An owner that cannot be granted a lock joins its queue, and is granted it in turn; a reader that wants to
///   write goes to the front, because no other owner can get past it.
/// - Before waiting, the waits-for graph is searched for a cycle. All owners of a cycle wait, so any may be the
///   victim: it is the youngest. A transaction that runs again keeps its age, so it does not stay the youngest.
/// - If two readers of an object both want to write it, they form a cycle. A transaction that runs again takes the
///   write lock when it reads an object that an earlier attempt read and then wrote. So it does not become the
///   victim of the next reader.
///
/// **Threads:** any. One mutex guards all; it is not held while waiting. It is taken in [Unbroken] work: where
/// the stack ends within `lock`, that method may throw and have locked the mutex.
public final class Locks {
    private static final int BUCKETS = 1 << 12;
    private static final Owner[] NONE = {};
    /// Number of its newest locks that an owner looks through before it asks the table.
    private static final int NEWEST = 8;

    private static final VarHandle COUNT;

    static {
        try {
            COUNT = MethodHandles.lookup().findVarHandle(Locks.class, "count", int.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    /// Time after which a wait is searched for cycles through monitors: each time twice as long.
    private static final long FIRST_LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(20);

    /// Number of looks in a row that find a suspected cycle before an owner becomes its victim.
    private static final int SUSPICIONS_MAX = 3;

    private static final long LAST_LOOK_NANOS = TimeUnit.SECONDS.toNanos(1);
    /// At so many that it waits for, one after the other, a virtual thread looks at most.
    private static final int OWNERS_MAX = 64;

    private final ReentrantLock mutex = new ReentrantLock();
    private final Counter waits = new Counter();
    private final MonitorCycles monitors = new MonitorCycles(this);
    private ObjectLock[] buckets = new ObjectLock[BUCKETS];
    /// Number of searches for cycles.
    private long searches;
    /// Number of locks: while it is 0, no object needs a hash. It is changed under the mutex alone, and read without
    /// it: a thread that needs to see a change is synchronised with it by other means.
    private volatile int count;

    /// A transaction, as far as locks are concerned.
    public static final class Owner {
        /// Smaller is older.
        final long birth;
        /// The locks that it holds.
        private ObjectLock[] held = new ObjectLock[NEWEST];

        private int heldCount;
        /// Its place in a wait queue, or null.
        private Waiter waiting;
        /// Whether it becomes a victim instead of waiting.
        private boolean isWaitless;
        /// The last search that has come by.
        private long search;
        /// Number of the owners it waits for that this search has seen, and the owner by which it came here.
        private int edge;

        private Owner cameFrom;
        /// The thread that its transaction is on, or null: on none.
        public volatile Thread thread;
        /// The thread that waits for a monitor that it was in when it became a victim, or null. On its own thread.
        MonitorCycles.Blocked inTheWayOf;
        /// As that, where a virtual thread is one of the two.
        MonitorCycles.Suspect suspect;
        /// Objects that earlier attempts have read and then written, or tried to write; null if there are none.
        private Set<Object> written;

        public Owner(long birth) {
            this.birth = birth;
        }

        /// The owner of a transaction that runs again.
        ///
        /// @param victim the owner of the previous attempt, which has released its locks
        public Owner(Owner victim) {
            birth = victim.birth;
            written = victim.written;
        }

        private boolean hasWritten(Object object) {
            return written != null && written.contains(object);
        }

        /// Notes an object that the transaction has read and then written, or tried to write.
        private void noteUpgrade(Object object) {
            if (written == null) {
                written = Collections.newSetFromMap(new IdentityHashMap<>());
            }
            written.add(object);
        }

        /// Whether it may write the object for certain, as its newest locks say: most callers have written before.
        /// On its own thread: a lock is not taken from its writer.
        private boolean isSurelyWriter(Object object) {
            for (int i = heldCount - 1; i >= Math.max(0, heldCount - NEWEST); i--) {
                if (held[i].object == object) {
                    return held[i].writer == this;
                }
            }
            return false;
        }

        private void add(ObjectLock lock) {
            if (heldCount == held.length) {
                held = java.util.Arrays.copyOf(held, 2 * heldCount);
            }
            held[heldCount++] = lock;
        }
    }

    private static final class ObjectLock {
        final Object object;
        final int hash;
        /// The next lock of the bucket.
        ObjectLock next;
        /// The owner that may write, or null.
        Owner writer;
        /// The owners that may read; a writer is not among them unless it was before.
        Owner[] readers = NONE;

        int readerCount;
        /// First and last waiter of the queue.
        Waiter first;

        Waiter last;

        ObjectLock(Object object, int hash) {
            this.object = object;
            this.hash = hash;
        }

        boolean isReader(Owner owner) {
            for (int i = 0; i < readerCount; i++) {
                if (readers[i] == owner) {
                    return true;
                }
            }
            return false;
        }

        boolean isHeldBy(Owner owner) {
            return writer == owner || isReader(owner);
        }

        boolean isFree() {
            return writer == null && readerCount == 0;
        }

        /// Whether no holder of the lock is in the way.
        boolean isOpenTo(Owner owner, boolean toWrite) {
            if (writer != null && writer != owner) {
                return false;
            }
            return !toWrite || readerCount == 0 || readerCount == 1 && readers[0] == owner;
        }

        void grant(Owner owner, boolean toWrite) {
            // Memory may run out before anything has changed, and not afterwards.
            boolean isOneMore = !toWrite && writer != owner && !isReader(owner);
            if (isOneMore && readerCount == readers.length) {
                readers = java.util.Arrays.copyOf(readers, Math.max(2, 2 * readerCount));
            }
            if (!isHeldBy(owner)) {
                owner.add(this);
            }
            if (toWrite) {
                writer = owner;
            } else if (isOneMore) {
                readers[readerCount++] = owner;
            }
        }

        void release(Owner owner) {
            if (writer == owner) {
                writer = null;
            }
            for (int i = 0; i < readerCount; i++) {
                if (readers[i] == owner) {
                    readers[i] = readers[--readerCount];
                    readers[readerCount] = null;
                    return;
                }
            }
        }
    }

    /// ```text
    /// Queued ──the lock is free──▶ Granted
    ///    └─────in a cycle────────▶ Victim
    /// ```
    private enum Turn {
        QUEUED,
        GRANTED,
        VICTIM
    }

    private static final class Waiter {
        final Owner owner;
        final ObjectLock lock;
        final boolean toWrite;
        final Thread thread = Thread.currentThread();
        Waiter previous;
        Waiter next;
        volatile Turn turn = Turn.QUEUED;

        Waiter(Owner owner, ObjectLock lock, boolean toWrite) {
            this.owner = owner;
            this.lock = lock;
            this.toWrite = toWrite;
        }

        void tell(Turn turn) {
            this.turn = turn;
            owner.waiting = null;
            LockSupport.unpark(thread);
        }
    }

    /// Waits until the owner may read, or write, the object.
    ///
    /// @return false if the owner is the victim of a deadlock, and has to give up all its locks
    public boolean acquire(Owner owner, Object object, boolean toWrite) {
        if (owner.isSurelyWriter(object)) {
            return true;
        }
        Request request = new Request(owner, object, toWrite);
        request.complete();
        Waiter waiter = request.waiter;
        if (waiter == null) {
            return request.isGranted;
        }
        // A virtual thread that waits is to have no unbroken work under way: it continues on another stack.
        boolean isGranted;
        try {
            isGranted = await(waiter);
        } finally {
            // If the wait has not begun, the waiter leaves the queue.
            giveUp(waiter);
        }
        if (!isGranted && request.isHeld) {
            owner.noteUpgrade(object);
        }
        return isGranted;
    }

    /// A call of [#acquire], up to the wait.
    private final class Request extends Unbroken {
        private final Owner owner;
        private final Object object;
        private final boolean toWrite;
        private boolean isHeld;
        private boolean isGranted;
        /// The place in the queue, if it has to wait.
        private Waiter waiter;

        Request(Owner owner, Object object, boolean toWrite) {
            this.owner = owner;
            this.object = object;
            this.toWrite = toWrite || owner.hasWritten(object);
        }

        @Override
        protected void work() {
            mutex.lock();
            try {
                ObjectLock lock = findOrAdd(object);
                isHeld = lock.isHeldBy(owner);
                if (isHeld && !toWrite) {
                    isGranted = true;
                } else if ((isHeld || lock.first == null) && lock.isOpenTo(owner, toWrite)) {
                    // Readers that come later do not overtake a writer that waits; present holders may.
                    grantOrRemove(lock, owner, toWrite);
                    isGranted = true;
                } else if (!owner.isWaitless) {
                    waiter = new Waiter(owner, lock, toWrite);
                    enqueue(waiter);
                    breakCycles(owner);
                }
            } finally {
                mutex.unlock();
            }
        }
    }

    /// Grants a lock, or removes it from the table if memory runs out: no other thread would remove it.
    private void grantOrRemove(ObjectLock lock, Owner owner, boolean toWrite) {
        try {
            lock.grant(owner, toWrite);
        } finally {
            if (lock.isFree()) {
                remove(lock);
            }
        }
    }

    private boolean await(Waiter waiter) {
        boolean wasInterrupted = false;
        LockWaitEvent event;
        long pause = FIRST_LOOK_NANOS;
        int suspicions = 0;
        try {
            event = new LockWaitEvent();
            event.begin();
            waits.increment();
            // It neither enters nor leaves any while it waits.
            Object monitor = ownMonitor(waiter);
            // A virtual thread is seldom in such a cycle, and very many may wait.
            boolean isOneOfMany = monitor == null && waiter.thread.isVirtual();
            while (waiter.turn == Turn.QUEUED) {
                LockSupport.parkNanos(waiter.lock, pause);
                pause = isOneOfMany ? 2 * pause : Math.min(2 * pause, LAST_LOOK_NANOS);
                // A commit cannot be broken off; the interrupt is kept for the next blocking call.
                wasInterrupted |= Thread.interrupted();
                if (waiter.turn != Turn.QUEUED) {
                    continue;
                }
                suspicions = monitors.isSuspicious(waiter.owner, monitor) ? suspicions + 1 : 0;
                int ownersMax = isOneOfMany ? OWNERS_MAX : Integer.MAX_VALUE;
                if (suspicions == SUSPICIONS_MAX || monitors.isInCycle(waiter.owner, ownersMax)) {
                    giveUp(waiter);
                }
            }
        } finally {
            // If the look fails, the waiter leaves the queue.
            giveUp(waiter);
            monitors.end();
        }
        if (wasInterrupted) {
            Thread.currentThread().interrupt();
        }
        boolean isGranted = waiter.turn == Turn.GRANTED;
        event.end(waiter.lock.object, waiter.toWrite, !isGranted);
        return isGranted;
    }

    /// Something that the waiting thread locks, or has locked, and whose monitor it has entered; or null. To be called
    /// on that thread.
    private static Object ownMonitor(Waiter waiter) {
        if (Thread.holdsLock(waiter.lock.object)) {
            return waiter.lock.object;
        }
        for (ObjectLock lock : waiter.owner.held) {
            if (lock != null && Thread.holdsLock(lock.object)) {
                return lock.object;
            }
        }
        return null;
    }

    /// Takes it out of the queue, unless it has been granted the lock.
    private void giveUp(Waiter waiter) {
        if (waiter.turn != Turn.QUEUED) {
            return;
        }
        new Unbroken() {
            @Override
            protected void work() {
                giveUpNow(waiter);
            }
        }.complete();
    }

    private void giveUpNow(Waiter waiter) {
        mutex.lock();
        try {
            if (waiter.turn == Turn.QUEUED) {
                dequeue(waiter);
                waiter.tell(Turn.VICTIM);
                grantInTurn(waiter.lock);
            }
        } finally {
            mutex.unlock();
        }
    }

    /// Ends an owner's wait for a lock, and makes it refuse later waits, as for the victim of a deadlock. On any
    /// thread.
    public void endWait(Owner owner) {
        new Unbroken() {
            @Override
            protected void work() {
                endWaitNow(owner);
            }
        }.complete();
    }

    private void endWaitNow(Owner owner) {
        mutex.lock();
        try {
            owner.isWaitless = true;
            Waiter waiter = owner.waiting;
            if (waiter != null) {
                dequeue(waiter);
                waiter.tell(Turn.VICTIM);
                grantInTurn(waiter.lock);
            }
        } finally {
            mutex.unlock();
        }
    }

    /// Returns the owners that an owner waits for just now: the holders of the lock. The owners before it in the queue
    /// wait for these too, and for nothing else. Empty if it does not wait.
    List<Owner> awaited(Owner owner) {
        List<List<Owner>> found = new ArrayList<>(1);
        new Unbroken() {
            @Override
            protected void work() {
                found.add(awaitedNow(owner));
            }
        }.complete();
        return found.getFirst();
    }

    private List<Owner> awaitedNow(Owner owner) {
        mutex.lock();
        try {
            Waiter waiter = owner.waiting;
            if (waiter == null) {
                return List.of();
            }
            ObjectLock lock = waiter.lock;
            List<Owner> holders = new ArrayList<>(Arrays.asList(lock.readers).subList(0, lock.readerCount));
            if (lock.writer != null) {
                holders.add(lock.writer);
            }
            holders.removeIf(holder -> holder == owner);
            return holders;
        } finally {
            mutex.unlock();
        }
    }

    /// Whether the owner may write the object already.
    public boolean isWriter(Owner owner, Object object) {
        return new Look(object, owner).find();
    }

    /// A look at the lock of an object.
    private final class Look extends Unbroken {
        private final Object object;
        /// The owner that may be its writer; null: any owner.
        private final Owner owner;
        private boolean isFound;

        Look(Object object, Owner owner) {
            this.object = object;
            this.owner = owner;
        }

        @Override
        protected void work() {
            mutex.lock();
            try {
                ObjectLock lock = Locks.this.find(object);
                isFound = lock != null && (owner == null ? !lock.isFree() : lock.writer == owner);
            } finally {
                mutex.unlock();
            }
        }

        boolean find() {
            complete();
            return isFound;
        }
    }

    /// As that, without waiting for anybody: true for some of what the owner has locked. On its own thread.
    public boolean isSurelyWriter(Owner owner, Object object) {
        return owner.isSurelyWriter(object);
    }

    /// Whether any transaction has locked the object.
    public boolean isLocked(Object object) {
        if (count == 0 || !Barrier.mayBeLocked(object)) {
            return false;
        }
        return new Look(object, null).find();
    }

    /// As [#releaseAll], for a victim whose transaction may run again.
    public void releaseVictim(Owner owner) {
        mutex.lock();
        try {
            for (int i = 0; i < owner.heldCount; i++) {
                ObjectLock lock = owner.held[i];
                if (lock.writer == owner && lock.isReader(owner)) {
                    owner.noteUpgrade(lock.object);
                }
            }
            releaseAll(owner);
        } finally {
            mutex.unlock();
        }
    }

    /// Gives up all that the owner holds.
    public void releaseAll(Owner owner) {
        mutex.lock();
        try {
            for (int i = 0; i < owner.heldCount; i++) {
                ObjectLock lock = owner.held[i];
                lock.release(owner);
                grantInTurn(lock);
                owner.held[i] = null;
            }
            owner.heldCount = 0;
        } finally {
            mutex.unlock();
        }
    }

    /// Returns how many requests have waited so far.
    public long waits() {
        return waits.sum();
    }

    private static void enqueue(Waiter waiter) {
        ObjectLock lock = waiter.lock;
        waiter.owner.waiting = waiter;
        if (lock.first == null) {
            lock.first = waiter;
            lock.last = waiter;
        } else if (lock.isHeldBy(waiter.owner)) {
            waiter.next = lock.first;
            lock.first.previous = waiter;
            lock.first = waiter;
        } else {
            waiter.previous = lock.last;
            lock.last.next = waiter;
            lock.last = waiter;
        }
    }

    private static void dequeue(Waiter waiter) {
        ObjectLock lock = waiter.lock;
        if (waiter.previous == null) {
            lock.first = waiter.next;
        } else {
            waiter.previous.next = waiter.next;
        }
        if (waiter.next == null) {
            lock.last = waiter.previous;
        } else {
            waiter.next.previous = waiter.previous;
        }
    }

    private void grantInTurn(ObjectLock lock) {
        while (lock.first != null && lock.isOpenTo(lock.first.owner, lock.first.toWrite)) {
            Waiter waiter = lock.first;
            dequeue(waiter);
            lock.grant(waiter.owner, waiter.toWrite);
            waiter.tell(Turn.GRANTED);
        }
        if (lock.isFree() && lock.first == null) {
            remove(lock);
        }
    }

    private void breakCycles(Owner newest) {
        Owner victim;
        while (newest.waiting != null && (victim = youngestInCycle(newest)) != null) {
            Waiter waiter = victim.waiting;
            dequeue(waiter);
            waiter.tell(Turn.VICTIM);
            grantInTurn(waiter.lock);
        }
    }

    /// Returns the youngest owner of a cycle through `start`, or null if there is none.
    ///
    /// Each owner is looked at once, and each that it waits for: so a search takes as many steps as there are
    /// owners that wait, and holders of what those at the front of a queue wait for. It is a walk, not a
    /// recursion: cycles may be as long as there are threads.
    private Owner youngestInCycle(Owner start) {
        searches++;
        visit(start, null);
        Owner at = start;
        while (at != null) {
            Owner to = nextWaitedFor(at);
            if (to == start) {
                return youngestOnTheWay(at);
            }
            if (to == null) {
                Owner back = at.cameFrom;
                at.cameFrom = null;
                at = back;
            } else if (to.search != searches) {
                visit(to, at);
                at = to;
            }
        }
        return null;
    }

    private void visit(Owner owner, Owner from) {
        owner.search = searches;
        owner.edge = 0;
        owner.cameFrom = from;
    }

    /// Returns the next owner that an owner waits for and that the search has not seen from there, or null.
    ///
    /// An owner that is not at the front of a queue waits for the one before; that one waits for the holders, or
    /// for the one before it, so that none is missed.
    private static Owner nextWaitedFor(Owner owner) {
        Waiter waiter = owner.waiting;
        if (waiter == null) {
            return null;
        }
        if (waiter.previous != null) {
            return owner.edge++ == 0 ? waiter.previous.owner : null;
        }
        ObjectLock lock = waiter.lock;
        while (owner.edge <= lock.readerCount) {
            int edge = owner.edge++;
            Owner holder = edge == 0 ? lock.writer : lock.readers[edge - 1];
            if (holder != null && holder != owner) {
                return holder;
            }
        }
        return null;
    }

    /// Also forgets the way.
    private static Owner youngestOnTheWay(Owner end) {
        Owner youngest = end;
        for (Owner at = end; at != null; ) {
            if (at.birth > youngest.birth) {
                youngest = at;
            }
            Owner before = at.cameFrom;
            at.cameFrom = null;
            at = before;
        }
        return youngest;
    }

    // ---- the table

    private static int hash(Object object) {
        int hash = System.identityHashCode(object);
        return hash ^ hash >>> 12;
    }

    private int bucket(int hash) {
        return hash & buckets.length - 1;
    }

    private ObjectLock find(Object object) {
        ObjectLock lock = buckets[bucket(hash(object))];
        while (lock != null && lock.object != object) {
            lock = lock.next;
        }
        return lock;
    }

    private ObjectLock findOrAdd(Object object) {
        ObjectLock lock = find(object);
        if (lock == null) {
            lock = new ObjectLock(object, hash(object));
            setCount(count + 1);
            if (count > 2 * buckets.length) {
                grow();
            }
            push(lock);
            Barrier.locked(object);
        }
        return lock;
    }

    private void setCount(int to) {
        COUNT.setRelease(this, to);
    }

    private void push(ObjectLock lock) {
        int bucket = bucket(lock.hash);
        lock.next = buckets[bucket];
        buckets[bucket] = lock;
    }

    /// A commit locks all that it makes persistent, however much that is.
    private void grow() {
        ObjectLock[] old = buckets;
        buckets = new ObjectLock[4 * old.length];
        for (ObjectLock first : old) {
            ObjectLock next = first;
            while (next != null) {
                ObjectLock lock = next;
                next = lock.next;
                push(lock);
            }
        }
    }

    private void remove(ObjectLock lock) {
        int bucket = bucket(lock.hash);
        ObjectLock before = buckets[bucket];
        if (before == lock) {
            buckets[bucket] = lock.next;
        } else {
            while (before.next != lock) {
                before = before.next;
            }
            before.next = lock.next;
        }
        Barrier.unlocked(lock.object);
        setCount(count - 1);
        if (count == 0 && buckets.length > BUCKETS) {
            buckets = new ObjectLock[BUCKETS];
        }
    }
}
