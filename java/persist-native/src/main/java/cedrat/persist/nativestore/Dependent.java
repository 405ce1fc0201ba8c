package cedrat.persist.nativestore;

import static java.lang.foreign.ValueLayout.ADDRESS;

import cedrat.persist.GraphStoreException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.Set;
import java.util.concurrent.locks.ReentrantLock;

/// A handle of the library that needs the store to be open: it is freed by its owner, or by closing the
/// store.
///
/// It is sound because
///
/// 1. a call with it, the first one for memory of its arena among them, and its end, are calls of the store, which
///    its closing waits for;
/// 2. they hold its lock, under which it is freed, once; from then on its arena refuses it.
///
/// **Threads:** one at a time, and another one that closes the store.
@SuppressWarnings("restricted")
final class Dependent {
    /// A call with it.
    @FunctionalInterface
    interface Call<T> {
        T run() throws Throwable;
    }

    private static final MethodHandle FREE = Linker.nativeLinker().downcallHandle(FunctionDescriptor.ofVoid(ADDRESS));

    /// Arena of the arguments that are passed with it. Used within [#call].
    final Arena arena = Arena.ofShared();
    final MemorySegment handle;
    private final CallGate gate;
    private final Set<Dependent> others;
    private final MemorySegment free;
    private final ReentrantLock lock = new ReentrantLock();

    /// @param others of the store, until they are freed
    /// @param free the function that frees it
    Dependent(MemorySegment handle, CallGate gate, Set<Dependent> others, MemorySegment free) {
        this.handle = handle.reinterpret(arena, null);
        this.gate = gate;
        this.others = others;
        this.free = free;
        others.add(this);
    }

    <T> T call(Call<T> call) throws GraphStoreException {
        gate.enter();
        try {
            lock.lock();
            try {
                if (!arena.scope().isAlive()) {
                    throw new GraphStoreException(
                            "the transaction of records and heaps is closed: begin another one", null, false);
                }
                return call.run();
            } catch (Throwable problem) {
                throw NativeGraphStore.rethrown(problem);
            } finally {
                lock.unlock();
                if (gate.isClosed()) {
                    freeIfIdle(); // closing the store may have found it at work
                }
            }
        } finally {
            gate.leave();
        }
    }

    /// Its owner needs it no more. If the store closes meanwhile, that frees it.
    void close() {
        if (gate.tryEnter()) {
            try {
                free();
            } finally {
                gate.leave();
            }
        }
    }

    /// Frees it, unless a call uses it: another thread may wait there for its locks.
    void freeIfIdle() {
        if (lock.tryLock()) {
            try {
                free();
            } finally {
                lock.unlock();
            }
        }
    }

    /// Frees it, when no call has it. May be called again.
    void free() {
        lock.lock();
        try {
            if (!arena.scope().isAlive()) {
                return;
            }
            MemorySegment freed = MemorySegment.ofAddress(handle.address());
            arena.close();
            others.remove(this);
            FREE.invokeExact(free, freed);
        } catch (Throwable problem) {
            throw new AssertionError("freeing throws nothing", problem);
        } finally {
            lock.unlock();
        }
    }
}
