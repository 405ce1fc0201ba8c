package cedrat.oracle.tables;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.ToLongFunction;

/// Several calls of a store side by side. Threads that wait for the store end by themselves: there is nothing to close.
///
/// **Threads:** any may call.
final class Calls {
    /// Maximum number of threads besides those of the callers, of all transactions together.
    static final int THREADS_MAX = 256;

    /// Number of bytes at which a call takes no further row: its rows are in memory until the call ends.
    static final int BYTES_PER_CALL = 1 << 20;

    private static final int IDLE_SECONDS = 10;

    private final Executor threads;

    Calls() {
        this(THREADS_MAX);
    }

    Calls(int threadsMax) {
        threads = new ThreadPoolExecutor(
                0, threadsMax, IDLE_SECONDS, TimeUnit.SECONDS, new SynchronousQueue<>(), Calls::thread);
    }

    /// A thread of the background, which keeps no program from ending.
    static Thread thread(Runnable work) {
        Thread thread = new Thread(work, "cedrat-tables");
        thread.setDaemon(true);
        return thread;
    }

    /// Divides rows into those that are changed by one call: neighbours of one table.
    static <T> List<List<T>> groups(List<T> rows, Function<T, Table> table) {
        return groups(rows, table, row -> 0);
    }

    /// The same, by the number of bytes of each row: a group ends with the row that reaches [#BYTES_PER_CALL].
    static <T> List<List<T>> groups(List<T> rows, Function<T, Table> table, ToLongFunction<T> bytes) {
        List<List<T>> groups = new ArrayList<>();
        int begin = 0;
        long length = 0;
        for (int end = 1; end <= rows.size(); end++) {
            Table current = table.apply(rows.get(begin));
            length += bytes.applyAsLong(rows.get(end - 1));
            boolean isFull = end - begin >= current.rowsPerCall() || length >= BYTES_PER_CALL;
            if (end == rows.size() || isFull || table.apply(rows.get(end)) != current) {
                groups.add(rows.subList(begin, end));
                begin = end;
                length = 0;
            }
        }
        return groups;
    }

    /// Makes all calls, and returns the failures of those that have failed when all have ended: none is under
    /// way any more.
    <T> List<RuntimeException> forEach(List<T> items, int callsMax, Consumer<T> call) {
        ConcurrentLinkedQueue<RuntimeException> failures = new ConcurrentLinkedQueue<>();
        AtomicInteger next = new AtomicInteger();
        Runnable some = () -> {
            for (int index = next.getAndIncrement(); index < items.size(); index = next.getAndIncrement()) {
                try {
                    call.accept(items.get(index));
                } catch (RuntimeException failed) {
                    failures.add(failed);
                }
            }
        };
        List<CompletableFuture<Void>> others = new ArrayList<>();
        try {
            for (int count = Math.min(callsMax, items.size()); count > 1; count--) {
                others.add(CompletableFuture.runAsync(() -> runAsFailure(some, failures), threads));
            }
        } catch (RejectedExecutionException busy) {
            // The threads that there are make all calls.
        }
        try {
            some.run();
        } finally {
            // Waits even when interrupted: no call may be in flight when the transaction goes on.
            others.forEach(CompletableFuture::join);
        }
        return List.copyOf(failures);
    }

    /// An error is a failure, or the call would count as one that has returned.
    private static void runAsFailure(Runnable some, ConcurrentLinkedQueue<RuntimeException> failures) {
        try {
            some.run();
        } catch (Error broken) {
            failures.add(new IllegalStateException(broken));
        }
    }
}
