package cedrat.persist.nativestore;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
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

/// A `cedrat_txn` of `cedrat.h`: only translation, no thought.
///
/// This class holds dangerous calls. They are sound for the reasons of [NativeGraphStore]; besides,
///
/// 5. the handle is used by one thread at a time, which is that of the Java transaction, for as long as
///    [Dependent] says.
@SuppressWarnings("restricted")
final class NativeFaces implements GraphStore.Faces {
    /// A record has at most so many bytes.
    private static final int RECORD_BYTES_MAX = 3800;

    private static final int OK = 0;
    private static final int ABORTED = 1;
    private static final int LIMIT = 11;
    private static final int ASYNC = 1;
    private static final int MESSAGE_BYTES = 1024;

    private static final MethodHandle BEGIN = function(ADDRESS, ADDRESS);
    private static final MethodHandle ERROR =
            Linker.nativeLinker().downcallHandle(FunctionDescriptor.of(ADDRESS, ADDRESS));
    private static final MethodHandle SAVEPOINT = function(ADDRESS, ADDRESS);
    private static final MethodHandle ROLLBACK_TO = function(ADDRESS, JAVA_LONG);
    private static final MethodHandle COMMIT =
            function(ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS);
    private static final MethodHandle LOAD_WORD = function(ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    private static final MethodHandle STORE_WORD = function(ADDRESS, ADDRESS, JAVA_LONG, JAVA_LONG);
    private static final MethodHandle ALLOCATE = function(ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    private static final MethodHandle RELEASE = function(ADDRESS, ADDRESS, JAVA_LONG);
    private static final MethodHandle GET_ROOT = function(ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    private static final MethodHandle SET_ROOT = function(ADDRESS, ADDRESS, ADDRESS, JAVA_LONG);
    private static final MethodHandle INSERT = function(ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG, ADDRESS);
    private static final MethodHandle READ = function(ADDRESS, JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG, ADDRESS);
    private static final MethodHandle UPDATE = function(ADDRESS, JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG);
    private static final MethodHandle DELETE = function(ADDRESS, JAVA_LONG, JAVA_LONG);
    private static final MethodHandle LIST = function(ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG, ADDRESS);

    /// Addresses of the native functions.
    static final class Functions {
        final MemorySegment begin;
        final MemorySegment free;
        final MemorySegment error;
        final MemorySegment savepoint;
        final MemorySegment rollbackTo;
        final MemorySegment commit;
        final MemorySegment loadWord;
        final MemorySegment storeWord;
        final MemorySegment allocate;
        final MemorySegment release;
        final MemorySegment getRoot;
        final MemorySegment setRoot;
        final MemorySegment insert;
        final MemorySegment read;
        final MemorySegment update;
        final MemorySegment delete;
        final MemorySegment list;

        Functions(Libcedrat library) throws IOException {
            begin = library.function("cedrat_txn_begin");
            free = library.function("cedrat_txn_free");
            error = library.function("cedrat_txn_error");
            savepoint = library.function("cedrat_txn_savepoint");
            rollbackTo = library.function("cedrat_txn_rollback_to");
            commit = library.function("cedrat_txn_commit");
            loadWord = library.function("cedrat_txn_load_word");
            storeWord = library.function("cedrat_txn_store_word");
            allocate = library.function("cedrat_txn_allocate");
            release = library.function("cedrat_txn_release");
            getRoot = library.function("cedrat_txn_get_root");
            setRoot = library.function("cedrat_txn_set_root");
            insert = library.function("cedrat_records_insert");
            read = library.function("cedrat_records_read");
            update = library.function("cedrat_records_update");
            delete = library.function("cedrat_records_delete");
            list = library.function("cedrat_records_list");
        }
    }

    /// Another call, whose handle is declared to throw anything.
    @FunctionalInterface
    private interface Call {
        int run() throws Throwable;
    }

    private final Functions functions;
    private final NativeGraphStore store;
    private final Dependent transaction;
    private final MemorySegment handle;
    /// For a result of eight bytes.
    private final MemorySegment result;
    /// For a record.
    private final MemorySegment record;

    private NativeFaces(Functions functions, NativeGraphStore store, Dependent transaction) throws GraphStoreException {
        this.functions = functions;
        this.store = store;
        this.transaction = transaction;
        handle = transaction.handle;
        // By a call: closing the store frees the transaction while no call has it.
        MemorySegment memory = transaction.call(
                () -> transaction.arena.allocate(JAVA_LONG.byteSize() + RECORD_BYTES_MAX, JAVA_LONG.byteAlignment()));
        result = memory.asSlice(0, JAVA_LONG);
        record = memory.asSlice(JAVA_LONG.byteSize(), RECORD_BYTES_MAX);
    }

    private static MethodHandle function(MemoryLayout... arguments) {
        return Linker.nativeLinker().downcallHandle(FunctionDescriptor.of(JAVA_INT, arguments));
    }

    /// Begins one, within a call of the store.
    ///
    /// @param opened the `cedrat_store`
    static NativeFaces begin(Functions functions, NativeGraphStore store, MemorySegment opened)
            throws GraphStoreException {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment to = call.allocate(ADDRESS);
            store.checkStore((int) BEGIN.invokeExact(functions.begin, opened, to), "cannot begin a transaction");
            return new NativeFaces(functions, store, store.dependent(to.get(ADDRESS, 0), functions.free));
        } catch (Throwable problem) {
            throw NativeGraphStore.rethrown(problem);
        }
    }

    @Override
    public long savepoint() throws GraphStoreException {
        return run("cannot set a savepoint", () -> (int) SAVEPOINT.invokeExact(functions.savepoint, handle, result));
    }

    @Override
    public void rollbackTo(long savepoint) throws GraphStoreException {
        run("cannot roll back to a savepoint", () ->
                (int) ROLLBACK_TO.invokeExact(functions.rollbackTo, handle, savepoint));
    }

    @Override
    public GraphStore.Committed commit(byte[] buffer, int length) throws GraphStoreException {
        long[] lsn = {NativeGraphStore.NOT_APPENDED};
        try (Arena call = Arena.ofConfined()) {
            long created = NativeGraphStore.created(buffer, length);
            long[] made = new long[Math.toIntExact(created)];
            MemorySegment changes = call.allocate(Math.max(length, 1), Long.BYTES);
            MemorySegment.copy(buffer, 0, changes, JAVA_BYTE, 0, length);
            MemorySegment identities = call.allocate(JAVA_LONG, created);
            transaction.<Void>call(() -> {
                result.set(JAVA_LONG, 0, NativeGraphStore.NOT_APPENDED);
                try {
                    int status = (int) COMMIT.invokeExact(
                            functions.commit,
                            handle,
                            store.graph(),
                            changes,
                            (long) length,
                            ASYNC,
                            identities,
                            created,
                            result);
                    check(status, "cannot commit");
                    return null;
                } finally {
                    lsn[0] = result.get(JAVA_LONG, 0);
                }
            });
            MemorySegment.copy(identities, JAVA_LONG, 0, made, 0, made.length);
            return new GraphStore.Committed(made, lsn[0]);
        } catch (Throwable problem) {
            throw NativeGraphStore.uncommitted(problem, lsn[0]);
        }
    }

    @Override
    public long insert(long records, byte[] bytes) throws GraphStoreException {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment given = call.allocateFrom(JAVA_BYTE, bytes);
            return run("cannot insert a record", () ->
                    (int) INSERT.invokeExact(functions.insert, handle, records, given, (long) bytes.length, result));
        }
    }

    @Override
    public byte[] read(long records, long number) throws GraphStoreException {
        return transaction.call(() -> {
            int status =
                    (int) READ.invokeExact(functions.read, handle, records, number, record, record.byteSize(), result);
            check(status, "cannot read a record");
            return record.asSlice(0, result.get(JAVA_LONG, 0)).toArray(JAVA_BYTE);
        });
    }

    @Override
    public void update(long records, long number, byte[] bytes) throws GraphStoreException {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment given = call.allocateFrom(JAVA_BYTE, bytes);
            run("cannot update a record", () ->
                    (int) UPDATE.invokeExact(functions.update, handle, records, number, given, (long) bytes.length));
        }
    }

    @Override
    public void delete(long records, long number) throws GraphStoreException {
        run("cannot delete a record", () -> (int) DELETE.invokeExact(functions.delete, handle, records, number));
    }

    @Override
    public long[] numbers(long records) throws GraphStoreException {
        return transaction.call(() -> {
            for (long room = record.byteSize() / Long.BYTES; ; ) {
                try (Arena call = Arena.ofConfined()) {
                    MemorySegment places = call.allocate(JAVA_LONG, room);
                    int status = (int) LIST.invokeExact(functions.list, handle, records, places, room, result);
                    long count = result.get(JAVA_LONG, 0);
                    if (status == LIMIT && count > room) {
                        room = count;
                        continue;
                    }
                    check(status, "cannot list the records");
                    return places.asSlice(0, count * Long.BYTES).toArray(JAVA_LONG);
                }
            }
        });
    }

    @Override
    public long load(long heap, long offset) throws GraphStoreException {
        MemorySegment of = MemorySegment.ofAddress(heap);
        return run("cannot read a word of a heap", () ->
                (int) LOAD_WORD.invokeExact(functions.loadWord, handle, of, offset, result));
    }

    @Override
    public void store(long heap, long offset, long value) throws GraphStoreException {
        MemorySegment of = MemorySegment.ofAddress(heap);
        run("cannot write a word of a heap", () ->
                (int) STORE_WORD.invokeExact(functions.storeWord, handle, of, offset, value));
    }

    @Override
    public long allocate(long heap, long bytes) throws GraphStoreException {
        MemorySegment of = MemorySegment.ofAddress(heap);
        return run("cannot allocate a block of a heap", () ->
                (int) ALLOCATE.invokeExact(functions.allocate, handle, of, bytes, result));
    }

    @Override
    public void release(long heap, long block) throws GraphStoreException {
        MemorySegment of = MemorySegment.ofAddress(heap);
        run("cannot free a block of a heap", () -> (int) RELEASE.invokeExact(functions.release, handle, of, block));
    }

    @Override
    public long root(long heap, String name) throws GraphStoreException {
        MemorySegment of = MemorySegment.ofAddress(heap);
        try (Arena call = Arena.ofConfined()) {
            MemorySegment given = NativeGraphStore.text(call, name);
            return run("cannot look up a root of a heap", () ->
                    (int) GET_ROOT.invokeExact(functions.getRoot, handle, of, given, result));
        }
    }

    @Override
    public void setRoot(long heap, String name, long block) throws GraphStoreException {
        MemorySegment of = MemorySegment.ofAddress(heap);
        try (Arena call = Arena.ofConfined()) {
            MemorySegment given = NativeGraphStore.text(call, name);
            run("cannot set a root of a heap", () ->
                    (int) SET_ROOT.invokeExact(functions.setRoot, handle, of, given, block));
        }
    }

    @Override
    public void close() {
        transaction.close();
    }

    // ---- failures

    /// Returns the result, of calls that have one.
    private long run(String what, Call call) throws GraphStoreException {
        return transaction.call(() -> {
            check(call.run(), what);
            return result.get(JAVA_LONG, 0);
        });
    }

    private void check(int status, String what) throws GraphStoreException {
        if (status == OK) {
            return;
        }
        String reason;
        try {
            MemorySegment text = (MemorySegment) ERROR.invokeExact(functions.error, handle);
            reason = text.reinterpret(MESSAGE_BYTES).getString(0);
        } catch (Throwable problem) {
            throw new AssertionError("asking for a message throws nothing", problem);
        }
        String message = what + ": " + store.name(status) + ": " + reason;
        throw status == ABORTED ? GraphStoreException.conflict(message) : NativeGraphStore.failure(message, status);
    }
}
