package cedrat.persist.lock;

import java.lang.management.LockInfo;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/// Finds waits-for cycles of threads through locks and monitors.
///
/// - A thread that waits for an object's lock within a monitor, as in `Vector.add`, would never wake if the
///   lock's owner waits for that monitor: [Locks] knows nothing of monitors. So a wait that lasts asks the
///   virtual machine what the threads of the owners that it waits for are blocked on.
///
/// Refusing at once, where a monitor of the object is held, would refuse most waits that end by themselves: the
/// lock's owner has often left the monitor, and will only commit.
///
/// The virtual machine does not report what virtual threads are blocked on, and which monitors they own; of a lock of
/// `java.util.concurrent` it reports the owner. Where a virtual thread takes part, a cycle is suspected if, at several
/// looks in a row, the waiting thread has entered the monitor of an object that it locks or has locked, and the
/// lock's owner is blocked on some monitor. Cycles through other monitors of virtual threads are not found; nor do
/// virtual threads look for one among more than 64 owners, as when so many have read an object that is to be
/// written. Where the module `java.management` was left out, only suspected cycles are found.
///
/// **Threads:** any.
public final class MonitorCycles {
    /// Maximum time for which a victim lets others enter the monitor before it runs again.
    private static final long LET_PASS_NANOS = TimeUnit.SECONDS.toNanos(1);

    /// As the virtual machine says that a thread waits for none.
    private static final long NONE = -1;

    private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(1);

    /// A thread that is blocked on a monitor, for the so many-th time in its life.
    record Blocked(long thread, long count) {}

    /// A thread that may be blocked on a monitor.
    record Suspect(Thread thread, Object monitor) {}

    /// Loaded when it is needed first: most programs never wait so long.
    private static final class Threads {
        static final ThreadMXBean BEAN =
                ModuleLayer.boot().findModule("java.management").isPresent()
                        ? ManagementFactory.getThreadMXBean()
                        : null;

        private Threads() {}

        /// Returns what a thread waits for, or null: it is not known.
        static ThreadInfo info(long thread) {
            return BEAN == null ? null : BEAN.getThreadInfo(thread);
        }

        /// Returns the owner of what a thread waits for, or NONE: it is not known, or there is none. For a virtual
        /// thread that has entered a monitor the virtual machine names the carrier, and for the carrier, that
        /// it waits for the virtual thread.
        static long holder(ThreadInfo info) {
            long holder = info == null ? NONE : info.getLockOwnerId();
            ThreadInfo carrier = holder == NONE ? null : info(holder);
            LockInfo carried = carrier == null ? null : carrier.getLockInfo();
            return carried != null && carried.getClassName().equals("java.lang.VirtualThread")
                    ? carrier.getLockOwnerId()
                    : holder;
        }
    }

    private final Locks locks;
    /// Owners that have been waiting for a lock for a while, by their threads.
    private final Map<Long, Locks.Owner> waiting = new ConcurrentHashMap<>();

    MonitorCycles(Locks locks) {
        this.locks = locks;
    }

    /// Whether an owner, whose thread this is, waits for itself. If so, who is blocked on its monitor is
    /// remembered for [#letPass]. To be called from time to time while it waits.
    ///
    /// @param ownersMax the number of owners whose waits are followed: larger cycles are not found
    boolean isInCycle(Locks.Owner owner, int ownersMax) {
        long self = Thread.currentThread().threadId();
        waiting.put(self, owner);
        return new Search(owner, self).isCycle(ownersMax);
    }

    /// Whether an owner, whose thread this is, may wait for itself, by way of a virtual thread. If so, who may be
    /// blocked is remembered for [#letPass].
    ///
    /// @param monitor one that this thread has entered, or null: it knows of none
    boolean isSuspicious(Locks.Owner owner, Object monitor) {
        Thread blocked = monitor == null ? null : blocked(owner);
        owner.suspect = blocked == null ? null : new Suspect(blocked, monitor);
        return blocked != null;
    }

    /// Returns the thread of an owner that an owner waits for, directly or through others, that is blocked on a
    /// monitor, or null.
    private Thread blocked(Locks.Owner start) {
        Set<Locks.Owner> seen = new HashSet<>();
        Deque<Locks.Owner> next = new ArrayDeque<>();
        seen.add(start);
        next.add(start);
        while (!next.isEmpty()) {
            Locks.Owner owner = next.remove();
            Thread thread = owner.thread;
            boolean isVirtual = thread != null
                    && (thread.isVirtual() || Thread.currentThread().isVirtual());
            if (isVirtual && thread.getState() == Thread.State.BLOCKED) {
                return thread;
            }
            for (Locks.Owner awaited : locks.awaited(owner)) {
                if (seen.add(awaited)) {
                    next.add(awaited);
                }
            }
        }
        return null;
    }

    /// The thread does not wait any more.
    void end() {
        waiting.remove(Thread.currentThread().threadId());
    }

    /// After an owner was the victim, and before it runs again: lets the thread that was blocked on its monitor enter
    /// it.
    ///
    /// @return false if this thread has not left the monitor, so that running again would be in vain
    public static boolean letPass(Locks.Owner owner) {
        Suspect suspect = owner.suspect;
        owner.suspect = null;
        if (suspect != null && !letPass(suspect)) {
            return false;
        }
        Blocked blocked = owner.inTheWayOf;
        owner.inTheWayOf = null;
        long end = System.nanoTime() + LET_PASS_NANOS;
        while (blocked != null && System.nanoTime() - end < 0) {
            ThreadInfo info = Threads.info(blocked.thread);
            if (Threads.holder(info) == Thread.currentThread().threadId()) {
                return false;
            }
            if (info == null
                    || info.getThreadState() != Thread.State.BLOCKED
                    || info.getBlockedCount() != blocked.count) {
                return true;
            }
            LockSupport.parkNanos(LOOK_NANOS);
        }
        return true;
    }

    private static boolean letPass(Suspect suspect) {
        long end = System.nanoTime() + LET_PASS_NANOS;
        while (suspect.thread.getState() == Thread.State.BLOCKED && System.nanoTime() - end < 0) {
            if (Thread.holdsLock(suspect.monitor)) {
                return false;
            }
            LockSupport.parkNanos(LOOK_NANOS);
        }
        return true;
    }

    /// Whether a thread waits for a monitor that this thread has entered, directly or because who has the monitor or
    /// lock that it waits for does.
    public static boolean waitsForThisThread(Thread thread) {
        Set<Long> seen = new HashSet<>();
        long self = Thread.currentThread().threadId();
        long at = thread.threadId();
        while (at != NONE && at != self && seen.add(at)) {
            at = Threads.holder(Threads.info(at));
        }
        return at == self;
    }

    private final class Search {
        private final Locks.Owner start;
        private final long self;
        private final Set<Locks.Owner> seen = new HashSet<>();
        private final Deque<Locks.Owner> next = new ArrayDeque<>();

        Search(Locks.Owner start, long self) {
            this.start = start;
            this.self = self;
        }

        boolean isCycle(int ownersMax) {
            next.add(start);
            boolean isBack = false;
            for (int count = 0; !isBack && !next.isEmpty() && count < ownersMax; count++) {
                Locks.Owner owner = next.remove();
                List<Locks.Owner> awaited = locks.awaited(owner);
                isBack = awaited.isEmpty() ? isBlocked(owner) : add(awaited);
            }
            return isBack;
        }

        /// @return whether the start is among them
        private boolean add(List<Locks.Owner> owners) {
            for (Locks.Owner owner : owners) {
                if (owner == start) {
                    return true;
                }
                if (seen.add(owner)) {
                    next.add(owner);
                }
            }
            return false;
        }

        /// Whether the thread of an owner that waits for no lock is blocked on the start's monitors. Others who
        /// wait for locks, and have monitors that it is blocked on, are looked at next.
        private boolean isBlocked(Locks.Owner owner) {
            Set<Long> threads = new HashSet<>();
            Thread first = owner.thread;
            long thread = first == null ? NONE : first.threadId();
            while (thread != NONE && threads.add(thread)) {
                ThreadInfo info = Threads.info(thread);
                long holder = Threads.holder(info);
                if (holder == self) {
                    start.inTheWayOf = new Blocked(thread, info.getBlockedCount());
                    return true;
                }
                Locks.Owner waiter = waiting.get(holder);
                if (waiter != null) {
                    return add(List.of(waiter));
                }
                thread = holder;
            }
            return false;
        }
    }
}
