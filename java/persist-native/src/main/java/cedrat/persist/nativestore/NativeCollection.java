package cedrat.persist.nativestore;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import cedrat.library.Libcedrat;
import cedrat.persist.GraphStore;
import cedrat.persist.GraphStoreException;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/// A `cedrat_graph_collection` of `cedrat.h`: only translation, no thought.
///
/// This class holds dangerous calls. They are sound for the reasons of [NativeGraphStore]; besides,
///
/// 5. the handle is used by one thread at a time, which is that of the collection, for as long as [Dependent] says.
@SuppressWarnings("restricted")
final class NativeCollection implements GraphStore.Collection {
    private static final int LIMIT = 11;
    /// Of `cedrat_graph_collected`, the second of whose numbers is that of objects removed.
    private static final long COLLECTED_BYTES = 8 * Long.BYTES;

    private static final MethodHandle BEGIN = function(ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    private static final MethodHandle STEP = function(ADDRESS, JAVA_LONG, ADDRESS);
    private static final MethodHandle SEAL = function(ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    private static final MethodHandle GET = function(ADDRESS, ADDRESS);
    private static final MethodHandle GET_UNUSED = function(ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    private static final MethodHandle DROP = function(ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);

    /// Addresses of the native functions.
    static final class Functions {
        final MemorySegment begin;
        final MemorySegment step;
        final MemorySegment seal;
        final MemorySegment get;
        final MemorySegment getUnused;
        final MemorySegment drop;
        final MemorySegment free;

        Functions(Libcedrat library) throws IOException {
            begin = library.function("cedrat_graph_collect_begin");
            step = library.function("cedrat_graph_collect_step");
            seal = library.function("cedrat_graph_collect_seal");
            get = library.function("cedrat_graph_collect_get");
            getUnused = library.function("cedrat_graph_collect_get_unused_classes");
            drop = library.function("cedrat_graph_collect_drop_classes");
            free = library.function("cedrat_graph_collect_free");
        }
    }

    private final Functions functions;
    private final NativeGraphStore store;
    private final Dependent collection;
    private final MemorySegment handle;

    private NativeCollection(Functions functions, NativeGraphStore store, Dependent collection) {
        this.functions = functions;
        this.store = store;
        this.collection = collection;
        handle = collection.handle;
    }

    private static MethodHandle function(MemoryLayout... arguments) {
        return Linker.nativeLinker().downcallHandle(FunctionDescriptor.of(JAVA_INT, arguments));
    }

    /// Begins one, within a call of the store.
    static NativeCollection begin(Functions functions, NativeGraphStore store, long[] alive)
            throws GraphStoreException {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment to = call.allocate(ADDRESS);
            store.check(
                    (int) BEGIN.invokeExact(
                            functions.begin,
                            store.graph(),
                            call.allocateFrom(JAVA_LONG, alive),
                            (long) alive.length,
                            to),
                    "cannot begin a garbage collection");
            return new NativeCollection(functions, store, store.dependent(to.get(ADDRESS, 0), functions.free));
        } catch (Throwable problem) {
            throw NativeGraphStore.rethrown(problem);
        }
    }

    @Override
    public GraphStore.Stage step(int budget) throws GraphStoreException {
        return collection.call(() -> {
            try (Arena call = Arena.ofConfined()) {
                MemorySegment stage = call.allocate(JAVA_INT);
                store.check(
                        (int) STEP.invokeExact(functions.step, handle, (long) budget, stage),
                        "cannot continue a garbage collection");
                return GraphStore.Stage.values()[stage.get(JAVA_INT, 0)];
            }
        });
    }

    @Override
    public GraphStore.Stage seal(long[] alive) throws GraphStoreException {
        return collection.call(() -> {
            try (Arena call = Arena.ofConfined()) {
                MemorySegment stage = call.allocate(JAVA_INT);
                store.check(
                        (int) SEAL.invokeExact(
                                functions.seal,
                                handle,
                                call.allocateFrom(JAVA_LONG, alive),
                                (long) alive.length,
                                stage),
                        "cannot sweep in a garbage collection");
                return GraphStore.Stage.values()[stage.get(JAVA_INT, 0)];
            }
        });
    }

    @Override
    public long removed() throws GraphStoreException {
        return collection.call(() -> {
            try (Arena call = Arena.ofConfined()) {
                MemorySegment collected = call.allocate(COLLECTED_BYTES, Long.BYTES);
                store.check(
                        (int) GET.invokeExact(functions.get, handle, collected),
                        "cannot read the result of a garbage collection");
                return collected.getAtIndex(JAVA_LONG, 1);
            }
        });
    }

    @Override
    public int[] unusedClasses() throws GraphStoreException {
        return collection.call(() -> {
            int capacity = 0;
            while (true) {
                try (Arena call = Arena.ofConfined()) {
                    MemorySegment classes = call.allocate(JAVA_INT, capacity);
                    MemorySegment count = call.allocate(JAVA_LONG);
                    int status =
                            (int) GET_UNUSED.invokeExact(functions.getUnused, handle, classes, (long) capacity, count);
                    int all = Math.toIntExact(count.get(JAVA_LONG, 0));
                    if (status != LIMIT) {
                        store.check(status, "cannot list the classes without objects");
                        return classes.asSlice(0, JAVA_INT.byteSize() * all).toArray(JAVA_INT);
                    }
                    capacity = all;
                }
            }
        });
    }

    @Override
    public boolean dropClasses(int[] classes) throws GraphStoreException {
        return collection.call(() -> {
            try (Arena call = Arena.ofConfined()) {
                MemorySegment dropped = call.allocate(JAVA_INT);
                store.check(
                        (int) DROP.invokeExact(
                                functions.drop,
                                handle,
                                call.allocateFrom(JAVA_INT, classes),
                                (long) classes.length,
                                dropped),
                        "cannot drop the definitions of classes");
                return dropped.get(JAVA_INT, 0) != 0;
            }
        });
    }

    @Override
    public void close() {
        collection.close();
    }
}
