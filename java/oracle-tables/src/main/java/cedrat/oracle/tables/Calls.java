package cedrat.oracle.tables;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;

/// Several calls of a store side by side.
final class Calls {
    private Calls() {}

    /// Makes all calls, and returns the failures of those that have failed when all have ended: none is under
    /// way any more.
    static <T> List<RuntimeException> forEach(List<T> items, int callsMax, Consumer<T> call) {
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
        List<Thread> threads = new ArrayList<>();
        for (int count = Math.min(callsMax, items.size()); count > 1; count--) {
            threads.add(Thread.startVirtualThread(() -> {
                try {
                    some.run();
                } catch (Error broken) {
                    failures.add(new IllegalStateException(broken)); // or the call would count as one that has returned
                }
            }));
        }
        try {
            some.run();
        } finally {
            join(threads);
        }
        return List.copyOf(failures);
    }

    /// Waits even when interrupted: no call may be in flight when the transaction goes on.
    private static void join(List<Thread> threads) {
        boolean isInterrupted = false;
        for (Thread thread : threads) {
            while (thread.isAlive()) {
                try {
                    thread.join();
                } catch (InterruptedException later) {
                    isInterrupted = true;
                }
            }
        }
        if (isInterrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
