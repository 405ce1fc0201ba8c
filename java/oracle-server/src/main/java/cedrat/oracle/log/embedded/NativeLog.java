package cedrat.oracle.log.embedded;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import cedrat.oracle.log.LogAbsentException;
import cedrat.oracle.log.OpenMode;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.VarHandle;
import java.nio.file.Path;

/// A `cedrat_log` of `cedrat.h`: only translation, no thought. For one thread at a time.
///
/// This class holds the dangerous calls of the module. They are sound because
///
/// 1. descriptors and layouts below are those of `cedrat.h`, on machines with 64-bit addresses and `size_t`;
/// 2. the handle is passed only between opening and closing (`handle` is null otherwise), by one thread at a time;
/// 3. memory that is passed lives as long as the call: it belongs to the arena of the log, or the caller holds it;
/// 4. what a cursor points at is copied before the cursor goes on.
@SuppressWarnings("restricted")
final class NativeLog implements AutoCloseable {
    private static final int OK = 0;
    private static final int UNKNOWN = 8;
    private static final int STOPPED = 13;
    private static final int MESSAGE_BYTES = 1024;

    // Functions are given when they are called, so that these are constants to the compiler wherever the
    // library lies.
    private static final MethodHandle OPEN = function(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG);
    private static final MethodHandle OF_LOG = function(JAVA_INT, ADDRESS);
    private static final MethodHandle MESSAGE = function(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG);
    private static final MethodHandle APPEND = function(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    private static final MethodHandle UP_TO = function(JAVA_INT, ADDRESS, JAVA_LONG);
    private static final MethodHandle CURSOR_CREATE = function(JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS);
    private static final MethodHandle CURSOR_NEXT = function(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    private static final MethodHandle CURSOR_FREE =
            Linker.nativeLinker().downcallHandle(FunctionDescriptor.ofVoid(ADDRESS));
    private static final MethodHandle STATUS_NAME = function(ADDRESS, JAVA_INT);

    /// `cedrat_log_options`.
    private static final StructLayout OPTIONS = MemoryLayout.structLayout(
            JAVA_INT.withName("must_exist"),
            JAVA_INT.withName("reserved_int"),
            JAVA_LONG.withName("log_limit_bytes"),
            JAVA_LONG.withName("segment_bytes"),
            MemoryLayout.sequenceLayout(5, JAVA_LONG).withName("reserved"));
    private static final VarHandle MUST_EXIST = field("must_exist");
    private static final VarHandle LOG_LIMIT_BYTES = field("log_limit_bytes");
    private static final VarHandle SEGMENT_BYTES = field("segment_bytes");

    /// Receives the entries of a log.
    @FunctionalInterface
    interface Entries<X extends Exception> {
        /// An entry, which is overwritten when this returns; and its LSN.
        void entry(byte[] bytes, int length, long lsn) throws X;
    }

    private final Library library;
    private final Arena arena = Arena.ofShared();
    private final MemorySegment result = arena.allocate(JAVA_LONG);
    private MemorySegment handle;

    private NativeLog(Library library) {
        this.library = library;
    }

    private static MethodHandle function(MemoryLayout result, MemoryLayout... arguments) {
        return Linker.nativeLinker().downcallHandle(FunctionDescriptor.of(result, arguments));
    }

    private static VarHandle field(String name) {
        return OPTIONS.varHandle(MemoryLayout.PathElement.groupElement(name));
    }

    /// Opens the log in a directory. A length of 0 is the library's default.
    ///
    /// @throws LogAbsentException if there is none, and it has to exist
    static NativeLog open(Library library, EmbeddedLog.Options chosen) throws IOException {
        Path directory = chosen.directory();
        boolean mustExist = chosen.mode() == OpenMode.EXISTING;
        NativeLog log = new NativeLog(library);
        try (Arena call = Arena.ofConfined()) {
            MemorySegment options = call.allocate(OPTIONS); // all zero
            MUST_EXIST.set(options, 0L, mustExist ? 1 : 0);
            LOG_LIMIT_BYTES.set(options, 0L, chosen.limitBytes());
            SEGMENT_BYTES.set(options, 0L, chosen.segmentBytes());
            MemorySegment message = call.allocate(MESSAGE_BYTES);
            MemorySegment to = call.allocate(ADDRESS);
            int status = (int) OPEN.invokeExact(
                    library.open, call.allocateFrom(directory.toString()), options, to, message, (long) MESSAGE_BYTES);
            if (status == UNKNOWN && mustExist) {
                throw new LogAbsentException("in " + directory, true);
            }
            if (status != OK) {
                throw new IOException(
                        "cannot open the log in " + directory + ": " + log.name(status) + ": " + message.getString(0));
            }
            log.handle = to.get(ADDRESS, 0);
            return log;
        } catch (Throwable problem) {
            log.arena.close();
            throw rethrown(problem);
        }
    }

    /// Appends an entry and returns its LSN.
    long append(MemorySegment bytes) throws IOException {
        try {
            check(
                    (int) APPEND.invokeExact(library.append, handle(), bytes, bytes.byteSize(), result),
                    "cannot append an entry to the log");
        } catch (Throwable problem) {
            throw rethrown(problem);
        }
        return result.get(JAVA_LONG, 0);
    }

    /// Returns when all entries up to this LSN are durable.
    void force(long upTo) throws IOException {
        try {
            check((int) UP_TO.invokeExact(library.force, handle(), upTo), "cannot force the log");
        } catch (Throwable problem) {
            throw rethrown(problem);
        }
    }

    /// Gives up all entries up to this LSN.
    void truncate(long upTo) throws IOException {
        try {
            check((int) UP_TO.invokeExact(library.truncate, handle(), upTo), "cannot truncate the log");
        } catch (Throwable problem) {
            throw rethrown(problem);
        }
    }

    /// Tells all entries, in their order.
    <X extends Exception> void read(Entries<X> entries) throws IOException, X {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment to = call.allocate(ADDRESS);
            MemorySegment size = call.allocate(JAVA_LONG);
            MemorySegment cursor = cursor(to);
            byte[] copy = new byte[64 << 10];
            try {
                for (; ; ) {
                    next(cursor, to, size);
                    long lsn = result.get(JAVA_LONG, 0);
                    if (lsn == 0) {
                        return;
                    }
                    int length = Math.toIntExact(size.get(JAVA_LONG, 0));
                    if (copy.length < length) {
                        copy = new byte[Math.max(length, 2 * copy.length)];
                    }
                    MemorySegment bytes = to.get(ADDRESS, 0).reinterpret(length); // 4
                    MemorySegment.copy(bytes, ValueLayout.JAVA_BYTE, 0, copy, 0, length);
                    entries.entry(copy, length, lsn);
                }
            } finally {
                free(cursor);
            }
        }
    }

    private MemorySegment cursor(MemorySegment to) throws IOException {
        try {
            check((int) CURSOR_CREATE.invokeExact(library.cursorCreate, handle(), 0L, to), "cannot read the log");
        } catch (Throwable problem) {
            throw rethrown(problem);
        }
        return to.get(ADDRESS, 0);
    }

    private void next(MemorySegment cursor, MemorySegment bytes, MemorySegment size) throws IOException {
        try {
            check(
                    (int) CURSOR_NEXT.invokeExact(library.cursorNext, cursor, bytes, size, result),
                    "cannot read the log");
        } catch (Throwable problem) {
            throw rethrown(problem);
        }
    }

    private void free(MemorySegment cursor) {
        try {
            CURSOR_FREE.invokeExact(library.cursorFree, cursor);
        } catch (Throwable problem) {
            throw new AssertionError("freeing a cursor throws nothing", problem);
        }
    }

    /// Closes the log; what was appended is durable then. Once it has stopped there is nothing to be said
    /// that was not said.
    @Override
    public void close() throws IOException {
        if (handle == null) {
            return;
        }
        MemorySegment closed = handle;
        handle = null;
        try {
            int status = (int) OF_LOG.invokeExact(library.close, closed);
            if (status != OK && status != STOPPED) {
                throw new IOException("cannot close the log: " + name(status));
            }
        } catch (Throwable problem) {
            throw rethrown(problem);
        } finally {
            arena.close();
        }
    }

    private MemorySegment handle() {
        if (handle == null) {
            throw new IllegalStateException("the native log is closed");
        }
        return handle;
    }

    private void check(int status, String what) throws IOException {
        if (status != OK) {
            throw new IOException(what + ": " + name(status) + ": " + message());
        }
    }

    private String message() {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment text = call.allocate(MESSAGE_BYTES);
            int status = (int) MESSAGE.invokeExact(library.message, handle, text, (long) MESSAGE_BYTES);
            return status == OK ? text.getString(0) : "";
        } catch (Throwable problem) {
            throw new AssertionError("asking for a message throws nothing", problem);
        }
    }

    private String name(int status) {
        try {
            MemorySegment name = (MemorySegment) STATUS_NAME.invokeExact(library.statusName, status);
            return name.reinterpret(MESSAGE_BYTES).getString(0);
        } catch (Throwable problem) {
            throw new AssertionError("a status has a name", problem);
        }
    }

    /// Handles are declared to throw anything; functions of C throw nothing.
    private static IOException rethrown(Throwable problem) {
        return switch (problem) {
            case IOException expected -> expected;
            case RuntimeException mistake -> throw mistake;
            case Error error -> throw error;
            default -> throw new AssertionError(problem);
        };
    }
}
