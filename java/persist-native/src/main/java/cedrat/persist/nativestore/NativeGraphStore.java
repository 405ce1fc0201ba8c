package cedrat.persist.nativestore;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import cedrat.persist.BackupOptions;
import cedrat.persist.BackupReport;
import cedrat.persist.GraphStore;
import cedrat.persist.GraphStoreException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/// A `cedrat_graph` of `cedrat.h` in a store of its own: only translation, no thought.
///
/// This class, [NativeFaces], [NativeCollection] and [Dependent] hold the dangerous calls of the module. They are
/// sound because
///
/// 1. descriptors below are those of `cedrat.h`, on machines whose addresses and `size_t` have 64 bits;
/// 2. each call is counted, and closing the store waits for all; later calls are refused. The handles belong to an
///    arena, which closes then;
/// 3. memory that is passed belongs to an arena too, and lives as long as the call. Its length is passed, too;
/// 4. a commit has the graph's address, and no arena asks again at each call whether it is there yet: that would
///    be two more atomic operations, on memory that all threads share.
///
/// **Threads:** any, several at a time.
@SuppressWarnings("restricted")
final class NativeGraphStore implements GraphStore {
    static final int OK = 0;
    private static final int UNKNOWN = 8;
    private static final int LIMIT = 11;
    private static final int STOPPED = 13;
    private static final int PANIC = 17;
    private static final int HAS_BRANCH_IN_DOUBT = 18;
    private static final int CLASS_DROPPED = 20;
    private static final int SYNC = 0;
    private static final int ASYNC = 1;

    // Sizes of C structures, and offsets of fields in them.
    private static final long HEAP_OPTIONS_BYTES = 9 * Long.BYTES;
    private static final long BACKUP_OPTIONS_BYTES = 8 * Long.BYTES;
    private static final long SINCE = Long.BYTES;
    private static final long SINCE_COUNT = 2 * Long.BYTES;
    private static final long BACKUP_REPORT_BYTES = 8 * Long.BYTES;
    private static final long UP_TO_LSN = 0;
    private static final long COPIED_BYTES = Long.BYTES;
    private static final long CANNOT_CONTINUE = 3 * Long.BYTES;

    // Of `cedrat_branch`: the length of the name, the name, and the outcome.
    private static final int BRANCH_NAME_AT = 8;
    private static final int BRANCH_OUTCOME_AT = 148;
    private static final int HEURISTIC_COMMIT = 1;
    private static final int BRANCH_BYTES = 168;

    // Of a commit's buffer.
    private static final int NEW = 1;
    private static final int PATCH = 2;
    private static final int ENTRY_BYTES = 8;
    private static final int PATCH_BYTES = ENTRY_BYTES + 16;

    /// The LSN of none.
    static final long NOT_APPENDED = 0;
    static final int MESSAGE_BYTES = 1024;

    private static final ValueLayout.OfInt LITTLE_INT =
            ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final ValueLayout.OfLong LITTLE_LONG =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    // Functions are given when they are called, so that these are constants to the compiler wherever the
    // library lies.
    static final MethodHandle CLOSE = function(JAVA_INT, ADDRESS);
    private static final MethodHandle MESSAGE = function(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG);
    private static final MethodHandle IS_STABLE = function(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_INT, ADDRESS);
    private static final MethodHandle ROTATE_KEY = function(JAVA_INT, ADDRESS, ADDRESS);
    private static final MethodHandle BACKUP = function(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    private static final MethodHandle FREE = Linker.nativeLinker().downcallHandle(FunctionDescriptor.ofVoid(ADDRESS));
    private static final MethodHandle GET_CLASS = function(JAVA_INT, ADDRESS, JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS);
    private static final MethodHandle GET_ROOTS = function(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    private static final MethodHandle READ = function(JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG, ADDRESS);
    private static final MethodHandle READ_MANY =
            function(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS);
    private static final MethodHandle COMMIT =
            function(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS);
    private static final MethodHandle RECORDS_OPEN = function(JAVA_INT, ADDRESS, ADDRESS, ADDRESS);
    private static final MethodHandle HEAP_OPEN = function(JAVA_INT, ADDRESS, ADDRESS, ADDRESS);
    private static final MethodHandle HEAP_CREATE = function(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    private static final MethodHandle PREPARE =
            function(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG, ADDRESS);
    private static final MethodHandle GET_BRANCH =
            function(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG, ADDRESS);
    private static final MethodHandle COMMIT_PREPARED = function(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, JAVA_INT);
    private static final MethodHandle OF_BRANCH = function(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG);
    private static final MethodHandle BRANCHES = function(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    private static final MethodHandle STATUS_NAME = function(ADDRESS, JAVA_INT);

    private final String name;
    private final NativeFunctions functions;
    private final Arena arena = Arena.ofShared();
    private final MemorySegment store;
    private final MemorySegment graph;
    private final CallGate gate = new CallGate();
    /// As [#graph], for commits (4).
    private final MemorySegment graphAddress;
    private final Buffers buffers = new Buffers();
    /// Transactions over pages and heaps, and collections, that have not ended.
    private final Set<Dependent> dependents;
    /// The temporary folder of a view.
    private final Optional<Path> scratch;

    NativeGraphStore(
            String name,
            NativeFunctions functions,
            MemorySegment store,
            MemorySegment graph,
            Set<Dependent> dependents,
            Optional<Path> scratch) {
        this.name = name;
        this.scratch = scratch;
        this.functions = functions;
        this.dependents = dependents;
        this.store = store.reinterpret(arena, null);
        this.graph = graph.reinterpret(arena, null);
        graphAddress = MemorySegment.ofAddress(graph.address());
    }

    static MethodHandle function(MemoryLayout result, MemoryLayout... arguments) {
        return Linker.nativeLinker().downcallHandle(FunctionDescriptor.of(result, arguments));
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public List<byte[]> classes(int first) throws GraphStoreException {
        List<byte[]> all = new ArrayList<>();
        Buffer buffer = take(Buffer.BYTES);
        try {
            while (true) {
                int status = (int) GET_CLASS.invokeExact(
                        functions.getClass,
                        graph,
                        first + all.size(),
                        buffer.bytes,
                        buffer.bytes.byteSize(),
                        buffer.result);
                if (status == UNKNOWN && buffer.result() == 0) {
                    return all;
                }
                if (status == UNKNOWN) {
                    all.add(null);
                    continue;
                }
                if (status == LIMIT) {
                    buffer.ensure(buffer.result());
                    continue;
                }
                check(status, "cannot read the definition of class " + (first + all.size()));
                all.add(copy(buffer.bytes, 0, buffer.result()));
            }
        } catch (Throwable problem) {
            throw rethrown(problem);
        } finally {
            give(buffer);
        }
    }

    @Override
    public Map<String, Long> roots() throws GraphStoreException {
        Buffer buffer = take(Buffer.BYTES);
        try {
            while (true) {
                int status = (int) GET_ROOTS.invokeExact(
                        functions.getRoots, graph, buffer.bytes, buffer.bytes.byteSize(), buffer.result);
                if (status == LIMIT) {
                    buffer.ensure(buffer.result());
                    continue;
                }
                check(status, "cannot read the roots");
                return roots(buffer.bytes.asSlice(0, buffer.result()));
            }
        } catch (Throwable problem) {
            throw rethrown(problem);
        } finally {
            give(buffer);
        }
    }

    /// Entries of the kind `ROOT`, see [GraphStore].
    private static Map<String, Long> roots(MemorySegment entries) {
        Map<String, Long> roots = new LinkedHashMap<>();
        for (long at = 0; at < entries.byteSize(); ) {
            int length = entries.get(LITTLE_INT, at + 4);
            long reference = entries.get(LITTLE_LONG, at + 8);
            byte[] name = copy(entries, at + 16, length);
            roots.put(new String(name, StandardCharsets.UTF_8), reference);
            at += 16 + (length + 7L & -8);
        }
        return roots;
    }

    @Override
    public byte[] read(long identity) throws GraphStoreException {
        Buffer buffer = take(Buffer.BYTES);
        try {
            while (true) {
                int status = (int) READ.invokeExact(
                        functions.read, graph, identity, buffer.bytes, buffer.bytes.byteSize(), buffer.result);
                if (status == LIMIT) {
                    buffer.ensure(buffer.result());
                    continue;
                }
                check(status, "cannot read an object");
                return copy(buffer.bytes, 0, buffer.result());
            }
        } catch (Throwable problem) {
            throw rethrown(problem);
        } finally {
            give(buffer);
        }
    }

    @Override
    public byte[][] readMany(long[] identities) throws GraphStoreException {
        byte[][] all = new byte[identities.length][];
        Buffer buffer = take(Buffer.BYTES);
        try (Arena call = Arena.ofConfined()) {
            MemorySegment wanted = call.allocateFrom(JAVA_LONG, identities);
            MemorySegment offsets = call.allocate(JAVA_LONG, identities.length + 1L);
            for (int done = 0; done < identities.length; ) {
                int status = (int) READ_MANY.invokeExact(
                        functions.readMany,
                        graph,
                        wanted.asSlice(JAVA_LONG.byteSize() * done),
                        (long) identities.length - done,
                        buffer.bytes,
                        buffer.bytes.byteSize(),
                        offsets,
                        buffer.result);
                if (status == LIMIT) {
                    buffer.ensure(offsets.getAtIndex(JAVA_LONG, 1));
                    continue;
                }
                check(status, "cannot read objects");
                long read = buffer.result();
                for (int i = 0; i < read; i++, done++) {
                    long from = offsets.getAtIndex(JAVA_LONG, i);
                    long to = offsets.getAtIndex(JAVA_LONG, i + 1L);
                    if (from == to) {
                        throw new GraphStoreException(
                                "the store has no object 0x" + Long.toHexString(identities[done])
                                        + ": run `cedrat verify`",
                                null,
                                false);
                    }
                    all[done] = copy(buffer.bytes, from, to - from);
                }
            }
            return all;
        } catch (Throwable problem) {
            throw rethrown(problem);
        } finally {
            give(buffer);
        }
    }

    @Override
    public Committed commit(byte[] buffer, int length) throws GraphStoreException {
        Buffer call = null;
        try {
            long created = created(buffer, length);
            long[] made = new long[Math.toIntExact(created)];
            call = take(length + Long.BYTES * created);
            call.result.set(JAVA_LONG, 0, NOT_APPENDED);
            MemorySegment.copy(buffer, 0, call.bytes, JAVA_BYTE, 0, length);
            MemorySegment identities = call.bytes.asSlice(length, Long.BYTES * created);
            check(
                    (int) COMMIT.invokeExact(
                            functions.commit,
                            graphAddress,
                            call.bytes,
                            (long) length,
                            ASYNC,
                            identities,
                            created,
                            call.result),
                    "cannot commit");
            MemorySegment.copy(identities, JAVA_LONG, 0, made, 0, made.length);
            return new Committed(made, call.result());
        } catch (Throwable problem) {
            throw uncommitted(problem, call == null ? NOT_APPENDED : call.result());
        } finally {
            if (call != null) {
                give(call);
            }
        }
    }

    /// Returns the exception for a commit that threw: memory or the stack has run out before or after the call of
    /// the library. The library has set `lsn` if it has appended the commit.
    static GraphStoreException uncommitted(Throwable problem, long lsn) {
        if (problem instanceof GraphStoreException refused) {
            return refused;
        }
        return lsn == NOT_APPENDED
                ? new GraphStoreException("cannot append a commit to the log: " + problem, problem, false)
                : new GraphStoreException(
                        "a commit was appended, but its result was lost; open the store again: " + problem,
                        problem,
                        true);
    }

    @Override
    public long[] prepare(byte[] buffer, int length, byte[] branch) throws GraphStoreException {
        long created = created(buffer, length);
        // Behind the call memory must not run out: the branch is prepared.
        long[] made = new long[Math.toIntExact(created)];
        Buffer call = take(length + Long.BYTES * created + branch.length);
        try {
            MemorySegment.copy(buffer, 0, call.bytes, JAVA_BYTE, 0, length);
            MemorySegment identities = call.bytes.asSlice(length, Long.BYTES * created);
            MemorySegment name = call.bytes.asSlice(length + Long.BYTES * created, branch.length);
            name.copyFrom(MemorySegment.ofArray(branch));
            check(
                    (int) PREPARE.invokeExact(
                            functions.prepare,
                            graph,
                            call.bytes,
                            (long) length,
                            name,
                            (long) branch.length,
                            identities,
                            created,
                            MemorySegment.NULL),
                    "cannot prepare a branch");
            MemorySegment.copy(identities, JAVA_LONG, 0, made, 0, made.length);
            return made;
        } catch (Throwable problem) {
            throw rethrown(problem);
        } finally {
            give(call);
        }
    }

    @Override
    public void commitPrepared(byte[] branch) throws GraphStoreException {
        gate.enter();
        try (Arena call = Arena.ofConfined()) {
            MemorySegment name = call.allocateFrom(JAVA_BYTE, branch);
            checkStore(
                    (int) COMMIT_PREPARED.invokeExact(
                            functions.commitPrepared, store, name, (long) branch.length, SYNC),
                    "cannot commit a branch");
        } catch (Throwable problem) {
            throw rethrown(problem);
        } finally {
            gate.leave();
        }
    }

    @Override
    public void rollbackPrepared(byte[] branch) throws GraphStoreException {
        ofBranch(functions.rollbackPrepared, branch, "cannot roll back a branch");
    }

    @Override
    public void forget(byte[] branch) throws GraphStoreException {
        ofBranch(functions.forget, branch, "cannot forget the outcome of a branch");
    }

    private void ofBranch(MemorySegment function, byte[] branch, String failure) throws GraphStoreException {
        gate.enter();
        try (Arena call = Arena.ofConfined()) {
            MemorySegment name = call.allocateFrom(JAVA_BYTE, branch);
            checkStore((int) OF_BRANCH.invokeExact(function, store, name, (long) branch.length), failure);
        } catch (Throwable problem) {
            throw rethrown(problem);
        } finally {
            gate.leave();
        }
    }

    @Override
    public List<byte[]> inDoubt() throws GraphStoreException {
        return branches(functions.inDoubt, "cannot list the branches in doubt").stream()
                .map(Heuristic::branch)
                .toList();
    }

    @Override
    public List<Heuristic> heuristic() throws GraphStoreException {
        return branches(functions.heuristic, "cannot list the branches that an operator has ended");
    }

    private List<Heuristic> branches(MemorySegment function, String failure) throws GraphStoreException {
        Buffer buffer = take(0);
        try {
            while (true) {
                long capacity = buffer.bytes.byteSize() / BRANCH_BYTES;
                checkStore((int) BRANCHES.invokeExact(function, store, buffer.bytes, capacity, buffer.result), failure);
                long count = buffer.result();
                if (count > capacity) {
                    buffer.ensure(count * BRANCH_BYTES);
                    continue;
                }
                List<Heuristic> found = new ArrayList<>();
                for (long at = 0; at < count * BRANCH_BYTES; at += BRANCH_BYTES) {
                    byte[] name = copy(buffer.bytes, at + BRANCH_NAME_AT, buffer.bytes.get(JAVA_LONG, at));
                    int outcome = buffer.bytes.get(JAVA_INT, at + BRANCH_OUTCOME_AT);
                    found.add(new Heuristic(name, outcome == HEURISTIC_COMMIT));
                }
                return found;
            }
        } catch (Throwable problem) {
            throw rethrown(problem);
        } finally {
            give(buffer);
        }
    }

    @Override
    public Changed changedBy(byte[] branch) throws GraphStoreException {
        Buffer buffer = take(Buffer.BYTES);
        try (Arena call = Arena.ofConfined()) {
            MemorySegment name = call.allocateFrom(JAVA_BYTE, branch);
            while (true) {
                int status = (int) GET_BRANCH.invokeExact(
                        functions.getBranch,
                        graph,
                        name,
                        (long) branch.length,
                        buffer.bytes,
                        buffer.bytes.byteSize(),
                        buffer.result);
                if (status == LIMIT) {
                    buffer.ensure(buffer.result());
                    continue;
                }
                if (status == UNKNOWN) {
                    return new Changed(new long[0], List.of()); // it has changed something else of the store
                }
                check(status, "cannot read the changes of a branch");
                return changed(buffer.bytes.asSlice(0, buffer.result()));
            }
        } catch (Throwable problem) {
            throw rethrown(problem);
        } finally {
            give(buffer);
        }
    }

    /// Entries of the kinds `PATCH`, of no bytes, and `ROOT`.
    private static Changed changed(MemorySegment entries) {
        long at = 0;
        long objects = 0;
        while (at < entries.byteSize() && entries.get(JAVA_BYTE, at) == PATCH) {
            objects++;
            at += PATCH_BYTES;
        }
        long[] identities = new long[(int) objects];
        for (int i = 0; i < identities.length; i++) {
            identities[i] = entries.get(LITTLE_LONG, (long) i * PATCH_BYTES + ENTRY_BYTES);
        }
        return new Changed(identities, List.copyOf(roots(entries.asSlice(at)).keySet()));
    }

    /// Returns the number of entries of a buffer that are `NEW`, see [GraphStore]. It stops at an invalid entry; the
    /// library then refuses the whole buffer.
    static long created(byte[] buffer, int size) {
        MemorySegment entries = MemorySegment.ofArray(buffer);
        long created = 0;
        for (long at = 0; at + ENTRY_BYTES <= size; ) {
            int kind = entries.get(JAVA_BYTE, at);
            long length = Integer.toUnsignedLong(entries.get(LITTLE_INT, at + 4));
            created += kind == NEW ? 1 : 0;
            at += ENTRY_BYTES + (kind == NEW ? 0 : kind == PATCH ? 16 : 8) + (length + 7 & -8);
        }
        return created;
    }

    // ---- pages and heaps

    /// A name as C has it.
    static MemorySegment text(Arena call, String name) throws GraphStoreException {
        if (name.indexOf('\0') >= 0) {
            throw new GraphStoreException(
                    "invalid name: it has a NUL at index " + name.indexOf('\0') + "; choose another one", null, false);
        }
        return call.allocateFrom(name);
    }

    @Override
    public Faces begin() throws GraphStoreException {
        gate.enter();
        try {
            return NativeFaces.begin(functions.faces, this, store);
        } finally {
            gate.leave();
        }
    }

    /// A handle that is freed before the store closes. Made within a call.
    Dependent dependent(MemorySegment handle, MemorySegment free) {
        return new Dependent(handle, gate, dependents, free);
    }

    MemorySegment graph() {
        return graph;
    }

    @Override
    public long records(String name) throws GraphStoreException {
        gate.enter();
        try (Arena call = Arena.ofConfined()) {
            MemorySegment number = call.allocate(JAVA_LONG);
            checkStore(
                    (int) RECORDS_OPEN.invokeExact(functions.recordsOpen, store, text(call, name), number),
                    "cannot open the records \"" + name + "\"");
            return number.get(JAVA_LONG, 0);
        } catch (Throwable problem) {
            throw rethrown(problem);
        } finally {
            gate.leave();
        }
    }

    @Override
    public long heap(String name, long bytes) throws GraphStoreException {
        gate.enter();
        try (Arena call = Arena.ofConfined()) {
            MemorySegment to = call.allocate(ADDRESS);
            MemorySegment text = text(call, name);
            int status = (int) HEAP_OPEN.invokeExact(functions.heapOpen, store, text, to);
            if (status == UNKNOWN) {
                if (bytes <= 0) {
                    throw new GraphStoreException(
                            "cannot create the heap \"" + name + "\" with a size of " + bytes
                                    + " bytes: choose a size of 8 bytes at least",
                            null,
                            false);
                }
                MemorySegment options = call.allocate(HEAP_OPTIONS_BYTES, Long.BYTES);
                options.set(JAVA_LONG, 0, bytes);
                status = (int) HEAP_CREATE.invokeExact(functions.heapCreate, store, text, options, to);
            }
            checkStore(status, "cannot open the heap \"" + name + "\"");
            return to.get(ADDRESS, 0).address();
        } catch (Throwable problem) {
            throw rethrown(problem);
        } finally {
            gate.leave();
        }
    }

    void checkStore(int status, String what) throws GraphStoreException {
        if (status != OK) {
            throw failure(what, functions, status, lastMessage(functions.message, functions, store));
        }
    }

    // ---- collections

    @Override
    public Collection collect(long[] alive) throws GraphStoreException {
        gate.enter();
        try {
            return NativeCollection.begin(functions.collections, this, alive);
        } finally {
            gate.leave();
        }
    }

    @Override
    public void waitDurable(long lsn) throws GraphStoreException {
        Buffer buffer = take(0);
        try {
            int status = (int) IS_STABLE.invokeExact(functions.isStable, store, lsn, 1, buffer.result);
            checkStore(status, "cannot wait until a commit is durable");
        } catch (Throwable problem) {
            throw rethrown(problem);
        } finally {
            give(buffer);
        }
    }

    @Override
    public BackupReport backup(Path folder, BackupOptions options) throws GraphStoreException {
        gate.enter();
        try (Arena call = Arena.ofConfined()) {
            MemorySegment path = text(call, folder.toString());
            MemorySegment choices = call.allocate(BACKUP_OPTIONS_BYTES, Long.BYTES);
            choices.set(JAVA_LONG, 0, options.bytesPerSecondMax());
            choices.set(ADDRESS, SINCE, NativeOpening.folders(call, options.since()));
            choices.set(JAVA_LONG, SINCE_COUNT, options.since().size());
            MemorySegment report = call.allocate(BACKUP_REPORT_BYTES, Long.BYTES);
            int status = (int) BACKUP.invokeExact(functions.backup, store, path, choices, report);
            checkStore(status, "cannot back the store up to " + folder);
            Optional<String> cannotContinue = report.get(JAVA_LONG, CANNOT_CONTINUE) == 0
                    ? Optional.empty()
                    : Optional.of(lastMessage(functions.message, functions, store));
            return new BackupReport(
                    report.get(JAVA_LONG, UP_TO_LSN), report.get(JAVA_LONG, COPIED_BYTES), cannotContinue);
        } catch (Throwable problem) {
            throw rethrown(problem);
        } finally {
            gate.leave();
        }
    }

    @Override
    public void rotateKey(byte[] key) throws GraphStoreException {
        gate.enter();
        try (Arena call = Arena.ofConfined()) {
            MemorySegment bytes = call.allocateFrom(JAVA_BYTE, key);
            int status = (int) ROTATE_KEY.invokeExact(functions.rotateKey, store, bytes);
            checkStore(status, "cannot give the store another key");
        } catch (Throwable problem) {
            throw rethrown(problem);
        } finally {
            gate.leave();
        }
    }

    @Override
    public synchronized void close() throws GraphStoreException {
        if (!arena.scope().isAlive()) {
            return;
        }
        gate.close();
        // A call may wait for what a transaction has locked whose thread comes no more.
        dependents.forEach(Dependent::freeIfIdle);
        gate.awaitCalls();
        dependents.forEach(Dependent::free);
        MemorySegment closedGraph = MemorySegment.ofAddress(graph.address());
        MemorySegment closedStore = MemorySegment.ofAddress(store.address());
        arena.close();
        try {
            FREE.invokeExact(functions.graphClose, closedGraph);
            int status = (int) CLOSE.invokeExact(functions.close, closedStore);
            if (status != OK) {
                throw failure("the store was closed with a failure", functions, status, "");
            }
        } catch (Throwable problem) {
            throw rethrown(problem);
        } finally {
            buffers.clear();
        }
        if (scratch.isPresent()) {
            NativeOpening.delete(scratch.get());
        }
    }

    // ---- buffers and failures

    /// A call begins, which has this buffer.
    private Buffer take(long size) throws GraphStoreException {
        gate.enter();
        Buffer buffer = null;
        try {
            buffer = buffers.take();
            buffer.ensure(size);
            return buffer;
        } catch (Throwable problem) {
            give(buffer);
            throw problem;
        }
    }

    private void give(Buffer buffer) {
        if (buffer != null) {
            buffers.give(buffer);
        }
        gate.leave();
    }

    private static byte[] copy(MemorySegment from, long at, long length) {
        byte[] bytes = new byte[Math.toIntExact(length)];
        MemorySegment.copy(from, JAVA_BYTE, at, bytes, 0, bytes.length);
        return bytes;
    }

    void check(int status, String what) throws GraphStoreException {
        if (status != OK) {
            throw failure(what, functions, status, lastMessage(functions.graphMessage, functions, graph));
        }
    }

    static GraphStoreException failure(String what, NativeFunctions functions, int status, String reason) {
        return failure(what + ": " + name(functions, status) + ": " + reason, status);
    }

    static GraphStoreException failure(String message, int status) {
        return switch (status) {
            case HAS_BRANCH_IN_DOUBT -> GraphStoreException.inDoubt(message);
            case CLASS_DROPPED -> GraphStoreException.conflict(message);
            default -> new GraphStoreException(message, null, status == STOPPED || status == PANIC);
        };
    }

    static String lastMessage(MemorySegment function, NativeFunctions functions, MemorySegment handle) {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment text = call.allocate(MESSAGE_BYTES);
            int status = (int) MESSAGE.invokeExact(function, handle, text, (long) MESSAGE_BYTES);
            return status == OK ? text.getString(0) : name(functions, status);
        } catch (Throwable problem) {
            throw new AssertionError("asking for a message throws nothing", problem);
        }
    }

    String name(int status) {
        return name(functions, status);
    }

    static String name(NativeFunctions functions, int status) {
        try {
            MemorySegment name = (MemorySegment) STATUS_NAME.invokeExact(functions.statusName, status);
            return name.reinterpret(MESSAGE_BYTES).getString(0);
        } catch (Throwable problem) {
            throw new AssertionError("a status has a name", problem);
        }
    }

    /// Handles are declared to throw anything; functions of C throw nothing.
    static GraphStoreException rethrown(Throwable problem) {
        return switch (problem) {
            case GraphStoreException expected -> expected;
            case RuntimeException mistake -> throw mistake;
            case Error error -> throw error;
            default -> throw new AssertionError(problem);
        };
    }
}
