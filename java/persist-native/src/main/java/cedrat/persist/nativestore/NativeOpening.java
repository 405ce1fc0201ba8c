package cedrat.persist.nativestore;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import cedrat.library.Libcedrat;
import cedrat.persist.GraphStoreException;
import cedrat.persist.Store;
import cedrat.persist.View;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;

/// Opens stores, and views of them, for [NativeGraphStore], which has the reasons for its calls of C.
@SuppressWarnings("restricted")
final class NativeOpening {
    /// The graph with the objects of a store.
    private static final String NAME = "objects";

    // Sizes of C structures, and offsets of fields in them.
    private static final long OPTIONS_BYTES = 16 * Long.BYTES;
    private static final long PAGE_POOL_BYTES = 7 * Long.BYTES;
    private static final long ARCHIVE = 10 * Long.BYTES;
    private static final long BACKUP_FOLDER = 11 * Long.BYTES;
    private static final long KEY = 12 * Long.BYTES;
    private static final long OLDER_KEY = 13 * Long.BYTES;
    private static final long GRAPH_OPTIONS_BYTES = 8 * Long.BYTES;
    private static final long PROGRAM_LOCKS = Integer.BYTES;
    private static final long CLASS_TAG = 2 * Long.BYTES;
    /// The tag of enum constants in references (docs/formats/java-objects.md).
    private static final long CONSTANT = 9;
    private static final long RESTORE_OPTIONS_BYTES = 8 * Long.BYTES;
    private static final long MOMENT_LSN = 0;
    private static final long MOMENT_TIME = Long.BYTES;
    private static final long INCREMENTS = 2 * Long.BYTES;
    private static final long INCREMENT_COUNT = 3 * Long.BYTES;

    private static final MethodHandle OPEN =
            NativeGraphStore.function(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG);
    private static final MethodHandle OPEN_AS_OF = NativeGraphStore.function(
            JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG);
    private static final MethodHandle GRAPH_OPEN =
            NativeGraphStore.function(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS);

    private NativeOpening() {}

    /// Opens the store in a directory, which is made if there is none.
    static NativeGraphStore open(Path directory, Store.Provider.Files files) throws GraphStoreException {
        return open(directory, files, ConcurrentHashMap.newKeySet());
    }

    /// As that.
    ///
    /// @param dependents an empty set for any threads, for what is to be freed before the store closes
    static NativeGraphStore open(Path directory, Store.Provider.Files files, Set<Dependent> dependents)
            throws GraphStoreException {
        NativeFunctions functions = functions();
        try (Arena call = Arena.ofConfined()) {
            MemorySegment message = call.allocate(NativeGraphStore.MESSAGE_BYTES);
            MemorySegment to = call.allocate(ADDRESS);
            MemorySegment path = call.allocateFrom(directory.toString());
            MemorySegment options = call.allocate(OPTIONS_BYTES, Long.BYTES);
            options.set(JAVA_LONG, PAGE_POOL_BYTES, files.pageBytesMax());
            options.set(ADDRESS, ARCHIVE, optional(call, files.archive()));
            options.set(ADDRESS, BACKUP_FOLDER, optional(call, files.backup()));
            setKeys(call, options, files.keys());
            int status = (int)
                    OPEN.invokeExact(functions.open, path, options, to, message, (long) NativeGraphStore.MESSAGE_BYTES);
            if (status != NativeGraphStore.OK) {
                throw NativeGraphStore.failure(
                        NativeGraphStore.name(functions, status) + ": " + message.getString(0), status);
            }
            MemorySegment store = to.get(ADDRESS, 0);
            MemorySegment graph = openGraph(functions, store, false);
            return new NativeGraphStore(directory.toString(), functions, store, graph, dependents, Optional.empty());
        } catch (Throwable problem) {
            throw NativeGraphStore.rethrown(problem);
        }
    }

    /// Opens a store as it was at a moment, to be read. A temporary folder has what it needs until it is closed.
    static NativeGraphStore open(View view, long pageBytesMax, Optional<Store.Provider.Keys> keys)
            throws GraphStoreException {
        NativeFunctions functions = functions();
        Path scratch = null;
        try (Arena call = Arena.ofConfined()) {
            scratch = Files.createTempDirectory("cedrat-view");
            MemorySegment message = call.allocate(NativeGraphStore.MESSAGE_BYTES);
            MemorySegment to = call.allocate(ADDRESS);
            MemorySegment full = call.allocateFrom(view.backups().getFirst().toString());
            MemorySegment moment = call.allocate(RESTORE_OPTIONS_BYTES, Long.BYTES);
            switch (view.moment()) {
                case View.Moment.Newest newest -> {} // the default
                case View.Moment.Lsn lsn -> moment.set(JAVA_LONG, MOMENT_LSN, lsn.lsn());
                case View.Moment.Time time ->
                    moment.set(JAVA_LONG, MOMENT_TIME, time.time().toEpochMilli());
            }
            List<Path> increments = view.backups().subList(1, view.backups().size());
            moment.set(ADDRESS, INCREMENTS, folders(call, increments));
            moment.set(JAVA_LONG, INCREMENT_COUNT, increments.size());
            MemorySegment options = call.allocate(OPTIONS_BYTES, Long.BYTES);
            options.set(JAVA_LONG, PAGE_POOL_BYTES, pageBytesMax);
            setKeys(call, options, keys);
            int status = (int) OPEN_AS_OF.invokeExact(
                    functions.openAsOf,
                    full,
                    optional(call, view.archive()),
                    call.allocateFrom(scratch.toString()),
                    moment,
                    options,
                    to,
                    MemorySegment.NULL,
                    message,
                    (long) NativeGraphStore.MESSAGE_BYTES);
            if (status != NativeGraphStore.OK) {
                throw NativeGraphStore.failure(
                        NativeGraphStore.name(functions, status) + ": " + message.getString(0), status);
            }
            MemorySegment store = to.get(ADDRESS, 0);
            MemorySegment graph = openGraph(functions, store, true);
            String name = view.backups().getLast().toString();
            return new NativeGraphStore(
                    name, functions, store, graph, ConcurrentHashMap.newKeySet(), Optional.of(scratch));
        } catch (IOException problem) {
            throw new GraphStoreException(
                    "cannot create a temporary folder for the view: " + problem.getMessage(), problem, false);
        } catch (Throwable problem) {
            GraphStoreException failure = NativeGraphStore.rethrown(problem);
            delete(scratch, failure);
            throw failure;
        }
    }

    private static NativeFunctions functions() throws GraphStoreException {
        try {
            return new NativeFunctions(Libcedrat.load());
        } catch (IOException missing) {
            throw new GraphStoreException(missing.getMessage(), missing, false);
        } catch (NoClassDefFoundError missing) {
            throw new GraphStoreException(
                    "cannot load libcedrat, because a class is missing (" + missing.getMessage()
                            + "): add libcedrat to the class path",
                    missing,
                    false);
        }
    }

    /// Opens the graph of objects in a store that was just opened, which is closed if that fails.
    private static MemorySegment openGraph(NativeFunctions functions, MemorySegment store, boolean mustExist)
            throws GraphStoreException {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment to = call.allocate(ADDRESS);
            MemorySegment name = call.allocateFrom(NAME);
            MemorySegment options = call.allocate(GRAPH_OPTIONS_BYTES, Long.BYTES);
            options.set(JAVA_INT, 0, mustExist ? 1 : 0);
            options.set(JAVA_INT, PROGRAM_LOCKS, 1);
            options.set(JAVA_LONG, CLASS_TAG, CONSTANT);
            int status = (int) GRAPH_OPEN.invokeExact(functions.graphOpen, store, name, options, to);
            if (status != NativeGraphStore.OK) {
                String reason = NativeGraphStore.lastMessage(functions.message, functions, store);
                // The first failure is the one to tell; a store that was just opened has nothing to lose by the second.
                int ignored = (int) NativeGraphStore.CLOSE.invokeExact(functions.close, store);
                throw NativeGraphStore.failure("cannot open its graph of objects", functions, status, reason);
            }
            return to.get(ADDRESS, 0);
        } catch (Throwable problem) {
            throw NativeGraphStore.rethrown(problem);
        }
    }

    /// Returns a path as C has it: null for none.
    private static MemorySegment optional(Arena call, Optional<Path> path) {
        return path.map(present -> call.allocateFrom(present.toString())).orElse(MemorySegment.NULL);
    }

    /// Sets the keys of an encrypted store in the options of C.
    private static void setKeys(Arena call, MemorySegment options, Optional<Store.Provider.Keys> keys) {
        keys.ifPresent(present -> {
            options.set(
                    ADDRESS, KEY, call.allocateFrom(JAVA_BYTE, present.newest().bytes()));
            present.older()
                    .ifPresent(older -> options.set(ADDRESS, OLDER_KEY, call.allocateFrom(JAVA_BYTE, older.bytes())));
        });
    }

    /// Returns paths as C has them: an array of strings.
    static MemorySegment folders(Arena call, List<Path> paths) {
        MemorySegment folders = call.allocate(ADDRESS, Math.max(1, paths.size()));
        for (int i = 0; i < paths.size(); i++) {
            folders.setAtIndex(ADDRESS, i, call.allocateFrom(paths.get(i).toString()));
        }
        return folders;
    }

    /// Deletes the temporary folder of a view. A failure is added to the one that is thrown.
    private static void delete(Path scratch, GraphStoreException thrown) {
        try {
            delete(scratch);
        } catch (GraphStoreException problem) {
            thrown.addSuppressed(problem);
        }
    }

    /// Deletes the temporary folder of a view.
    static void delete(Path scratch) throws GraphStoreException {
        try (Stream<Path> files = Files.walk(scratch)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        } catch (IOException problem) {
            throw new GraphStoreException(
                    "cannot delete the temporary folder " + scratch + " of a view: " + problem.getMessage()
                            + "; delete it",
                    problem,
                    false);
        }
    }
}
