package cedrat.persist.record;

import cedrat.persist.StoreException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.function.Supplier;

/// The functions of the program that run when an object is loaded ([cedrat.persist.StoreOptions#afterLoad]).
///
/// ```text
/// Loading ──the locks are released──▶ Running ──all have returned──▶ Done
///                                      │   ▲
///                         one has thrown   another thread reads one of the objects
///                                      ▼   │
///                                     Failed
/// ```
///
/// - A function runs under no lock of the store: it may load anything, and wait.
/// - Until it has returned, other threads that read the object wait, also for a collection that was loaded with it.
///   If they wait for each other, as threads that initialise classes do, one of them gets the object as it is.
///
/// **Threads:** any.
public final class LoadHooks {
    private final Recorder recorder;
    private final Map<Class<?>, Consumer<Object>> hooks;
    private final ConcurrentHashMap<Class<?>, List<Consumer<Object>>> byClass = new ConcurrentHashMap<>();
    /// Loads of which not all functions have returned, by the identities of their objects. Under the monitor.
    private final Map<Long, Batch> running = new HashMap<>();
    /// For each waiting thread, the load that it waits for. Under the monitor.
    private final Map<Thread, Batch> waiting = new HashMap<>();
    /// The load that is going on in a thread, or none.
    private final ThreadLocal<Batch> current = new ThreadLocal<>();

    public LoadHooks(Recorder recorder, Map<Class<?>, Consumer<Object>> hooks) {
        this.recorder = recorder;
        this.hooks = hooks;
    }

    /// The objects that one load has brought into memory.
    public static final class Batch {
        private final Batch outer;
        /// Calls that are to come.
        private final ArrayDeque<Call> calls = new ArrayDeque<>();

        private final List<Long> identities = new ArrayList<>();
        /// Loads of other threads whose objects this one refers to.
        private final Set<Batch> others = new HashSet<>();
        /// The thread that makes the calls, or null: one has failed.
        private Thread owner = Thread.currentThread();

        private boolean isDone;

        Batch(Batch outer) {
            this.outer = outer;
        }

        private boolean isPending() {
            return !calls.isEmpty() || !others.isEmpty();
        }
    }

    private record Call(Object object, Consumer<Object> hook) {}

    private List<Consumer<Object>> of(Class<?> type) {
        List<Consumer<Object>> known = byClass.get(type);
        if (known == null) {
            List<Consumer<Object>> found = new ArrayList<>();
            hooks.forEach((declared, hook) -> {
                if (declared.isAssignableFrom(type)) {
                    found.add(hook);
                }
            });
            known = List.copyOf(found);
            byClass.put(type, known);
        }
        return known;
    }

    public boolean areAny() {
        return !hooks.isEmpty();
    }

    /// The outermost load of a thread begins.
    public Batch begin() {
        Batch batch = new Batch(current.get());
        current.set(batch);
        return batch;
    }

    /// The load has released its locks, and the calls are to be made by [#run].
    ///
    /// @param isComplete whether it has not thrown: otherwise the next reader of one of its objects makes the calls
    public void end(Batch batch, boolean isComplete) {
        if (batch.outer == null) {
            current.remove();
        } else {
            current.set(batch.outer);
        }
        if (!isComplete) {
            fail(batch);
        }
    }

    private synchronized void fail(Batch batch) {
        batch.owner = null;
        notifyAll();
    }

    /// Lets other threads find an object. None does before its functions are known.
    ///
    /// @param id     its identity
    /// @param adding publishes the object, and returns the one that other threads find: it, if no thread was faster
    public Object add(long id, Object object, Supplier<Object> adding) {
        List<Consumer<Object>> own = hooks.isEmpty() ? List.of() : of(object.getClass());
        Batch batch = own.isEmpty() ? null : current.get();
        if (batch == null) {
            return adding.get();
        }
        synchronized (this) {
            Object winner = adding.get();
            if (winner == object) {
                own.forEach(hook -> batch.calls.add(new Call(object, hook)));
                register(batch, id);
            }
            return winner;
        }
    }

    private void register(Batch batch, long id) {
        running.put(id, batch);
        batch.identities.add(id);
    }

    /// The present load refers to an object that was loaded before.
    public synchronized void refersTo(long id) {
        Batch batch = current.get();
        Batch other = running.get(id);
        if (batch != null && other != null && other != batch) {
            batch.others.add(other);
        }
    }

    /// A collection is about to be found by other threads.
    public synchronized void publishes(long id) {
        Batch batch = current.get();
        if (batch != null && batch.isPending()) {
            register(batch, id);
        }
    }

    /// Makes the calls of a load that has ended. If one fails, or one of another load for which this has waited, the
    /// next reader makes those that are left.
    public void run(Batch batch) {
        boolean isDone = false;
        try {
            makeAll(batch);
            isDone = true;
        } finally {
            if (!isDone) {
                fail(batch);
            }
        }
    }

    private void makeAll(Batch batch) {
        while (true) {
            Call call;
            Batch other;
            synchronized (this) {
                call = batch.calls.peek();
                other = call == null && !batch.others.isEmpty()
                        ? batch.others.iterator().next()
                        : null;
                if (call == null && other == null) {
                    batch.isDone = true;
                    batch.identities.forEach(id -> running.remove(id, batch));
                    notifyAll();
                    return;
                }
            }
            if (call != null) {
                make(batch, call);
            } else {
                await(other);
                synchronized (this) {
                    batch.others.remove(other);
                }
            }
        }
    }

    private void make(Batch batch, Call call) {
        try {
            recorder.hook(() -> call.hook.accept(call.object));
        } catch (RuntimeException e) {
            throw new StoreException(
                    "cannot load an object of " + call.object.getClass().getName()
                            + ", because the function of StoreOptions.afterLoad has thrown " + e
                            + "; the next read calls it again",
                    e);
        }
        remove(batch, call);
    }

    private synchronized void remove(Batch batch, Call call) {
        batch.calls.remove(call);
    }

    /// Returns when the functions of an object, and of what it leads to, have returned.
    public void await(long id) {
        Batch batch;
        synchronized (this) {
            batch = running.get(id);
        }
        if (batch != null) {
            await(batch);
        }
    }

    private void await(Batch batch) {
        Thread self = Thread.currentThread();
        boolean isInterrupted = false;
        synchronized (this) {
            while (!batch.isDone && batch.owner != null && batch.owner != self && !waitsFor(batch, self)) {
                waiting.put(self, batch);
                try {
                    wait();
                } catch (InterruptedException e) {
                    // A read cannot be broken off; the interrupt is kept for the next blocking call.
                    isInterrupted = true;
                } finally {
                    waiting.remove(self);
                }
            }
            if (isInterrupted) {
                self.interrupt();
            }
            if (batch.isDone || batch.owner != null) {
                return;
            }
            batch.owner = self;
        }
        run(batch);
    }

    /// Whether the thread that makes the calls of a load waits for a thread, directly or through others.
    private boolean waitsFor(Batch batch, Thread thread) {
        Set<Batch> seen = new HashSet<>();
        Batch at = batch;
        while (at != null && at.owner != null && seen.add(at)) {
            if (at.owner == thread) {
                return true;
            }
            at = waiting.get(at.owner);
        }
        return false;
    }
}
