package cedrat.persist;

import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

/// Reader/writer locks on any object, by identity, held to the end of a top-level transaction (Transactions
/// for Java, §2.1).
///
/// A lock is in the table while somebody holds it or waits for it; then its owner keeps the object alive, so
/// that the table needs no weak references and the objects no field.
///
/// - Who cannot be granted a lock joins its queue, and is granted it in turn; a reader that wants to write
///   goes to the front, because nobody else can get past it.
/// - Before waiting, the graph of who waits for whom is searched for a circle. Everybody in a circle waits,
///   so any may be told to give up: it is the youngest. Who runs again keeps its age, and is not the youngest
///   for ever.
///
/// **Threads:** any. One mutex guards all; it is not held while waiting.
final class Locks {
    private static final int BUCKETS = 1 << 12;
    private static final Owner[] NOBODY = {};

    private final ReentrantLock mutex = new ReentrantLock();
    private ObjectLock[] buckets = new ObjectLock[BUCKETS];
    /// How many locks there are: where none is, no object has to be given a hash.
    private volatile int count;
    /// How many locks there are by the end of their hash, for those who only ask whether there is any.
    private final AtomicIntegerArray present = new AtomicIntegerArray(BUCKETS);

    /// A transaction, as far as locks are concerned.
    static final class Owner {
        /// Smaller is older.
        final long birth;
        /// The locks that it holds.
        private ObjectLock[] held = new ObjectLock[16];

        private int heldCount;
        /// What it waits for.
        private Waiter waiting;
        /// Seen by the search that is going on.
        private boolean isVisited;

        Owner(long birth) {
            this.birth = birth;
        }

        /// Whether it has read or written under a lock. On its own thread.
        boolean holdsAny() {
            return heldCount != 0;
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
        /// Who may write, or null.
        Owner writer;
        /// Who may read; a writer is not among them unless it was before.
        Owner[] readers = NOBODY;

        int readerCount;
        /// Who is granted it next.
        Waiter first;

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

        /// Whether nobody who holds the lock is in the way.
        boolean isOpenTo(Owner owner, boolean toWrite) {
            if (writer != null && writer != owner) {
                return false;
            }
            return !toWrite || readerCount == 0 || readerCount == 1 && readers[0] == owner;
        }

        void grant(Owner owner, boolean toWrite) {
            if (!isHeldBy(owner)) {
                owner.add(this);
            }
            if (toWrite) {
                writer = owner;
            } else if (writer != owner && !isReader(owner)) {
                if (readerCount == readers.length) {
                    readers = java.util.Arrays.copyOf(readers, Math.max(2, 2 * readerCount));
                }
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
    ///    └─────in a circle───────▶ Victim
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
    boolean acquire(Owner owner, Object object, boolean toWrite) {
        Waiter waiter;
        mutex.lock();
        try {
            ObjectLock lock = findOrAdd(object);
            if (lock.isHeldBy(owner) && !toWrite) {
                return true;
            }
            // Readers that come later do not overtake a writer that waits; who holds the lock already may.
            boolean mayPass = lock.first == null || lock.isHeldBy(owner);
            if (mayPass && lock.isOpenTo(owner, toWrite)) {
                lock.grant(owner, toWrite);
                return true;
            }
            waiter = new Waiter(owner, lock, toWrite);
            enqueue(waiter);
            breakCircles(owner);
        } finally {
            mutex.unlock();
        }
        return await(waiter);
    }

    private static boolean await(Waiter waiter) {
        boolean wasInterrupted = false;
        while (waiter.turn == Turn.QUEUED) {
            LockSupport.park(waiter.lock);
            // A store cannot be broken off; the interrupt is for whoever asks next.
            wasInterrupted |= Thread.interrupted();
        }
        if (wasInterrupted) {
            Thread.currentThread().interrupt();
        }
        return waiter.turn == Turn.GRANTED;
    }

    /// Whether the owner may write the object already.
    boolean isWriter(Owner owner, Object object) {
        mutex.lock();
        try {
            ObjectLock lock = find(object);
            return lock != null && lock.writer == owner;
        } finally {
            mutex.unlock();
        }
    }

    /// Whether any transaction has locked the object.
    boolean isLocked(Object object) {
        if (count == 0 || present.get(hash(object) & BUCKETS - 1) == 0) {
            return false;
        }
        mutex.lock();
        try {
            ObjectLock lock = find(object);
            return lock != null && !lock.isFree();
        } finally {
            mutex.unlock();
        }
    }

    /// Gives up all that the owner holds.
    void releaseAll(Owner owner) {
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

    private void enqueue(Waiter waiter) {
        ObjectLock lock = waiter.lock;
        waiter.owner.waiting = waiter;
        if (lock.first == null || lock.isHeldBy(waiter.owner)) {
            waiter.next = lock.first;
            lock.first = waiter;
            return;
        }
        Waiter last = lock.first;
        while (last.next != null) {
            last = last.next;
        }
        last.next = waiter;
    }

    private void grantInTurn(ObjectLock lock) {
        while (lock.first != null && lock.isOpenTo(lock.first.owner, lock.first.toWrite)) {
            Waiter waiter = lock.first;
            lock.first = waiter.next;
            lock.grant(waiter.owner, waiter.toWrite);
            waiter.tell(Turn.GRANTED);
        }
        if (lock.isFree() && lock.first == null) {
            remove(lock);
        }
    }

    private void breakCircles(Owner newest) {
        Owner victim;
        while (newest.waiting != null && (victim = youngestInCircle(newest)) != null) {
            Waiter waiter = victim.waiting;
            ObjectLock lock = waiter.lock;
            if (lock.first == waiter) {
                lock.first = waiter.next;
            } else {
                Waiter before = lock.first;
                while (before.next != waiter) {
                    before = before.next;
                }
                before.next = waiter.next;
            }
            waiter.tell(Turn.VICTIM);
            grantInTurn(lock);
        }
    }

    /// The youngest owner of a circle through `start`, or null if there is none.
    private Owner youngestInCircle(Owner start) {
        Owner youngest = search(start, start);
        unvisit(start);
        return youngest;
    }

    /// Follows who waits for whom, from `from`, until it comes to `start` again.
    private Owner search(Owner from, Owner start) {
        from.isVisited = true;
        Waiter waiter = from.waiting;
        if (waiter == null) {
            return null;
        }
        ObjectLock lock = waiter.lock;
        Owner youngest = step(from, lock.writer, start);
        for (int i = 0; i < lock.readerCount && youngest == null; i++) {
            youngest = step(from, lock.readers[i], start);
        }
        for (Waiter before = lock.first; before != waiter && youngest == null; before = before.next) {
            youngest = step(from, before.owner, start);
        }
        return youngest;
    }

    private Owner step(Owner from, Owner to, Owner start) {
        if (to == null || to == from) {
            return null;
        }
        if (to == start) {
            return from;
        }
        Owner youngest = to.isVisited ? null : search(to, start);
        return youngest == null ? null : youngest.birth > from.birth ? youngest : from;
    }

    private void unvisit(Owner owner) {
        if (!owner.isVisited) {
            return;
        }
        owner.isVisited = false;
        Waiter waiter = owner.waiting;
        if (waiter == null) {
            return;
        }
        ObjectLock lock = waiter.lock;
        if (lock.writer != null) {
            unvisit(lock.writer);
        }
        for (int i = 0; i < lock.readerCount; i++) {
            unvisit(lock.readers[i]);
        }
        for (Waiter before = lock.first; before != waiter; before = before.next) {
            unvisit(before.owner);
        }
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
            if (++count > 2 * buckets.length) {
                grow();
            }
            push(lock);
            present.incrementAndGet(lock.hash & BUCKETS - 1);
        }
        return lock;
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
        present.decrementAndGet(lock.hash & BUCKETS - 1);
        count--;
        if (count == 0 && buckets.length > BUCKETS) {
            buckets = new ObjectLock[BUCKETS];
        }
    }
}
