package cedrat.oracle.tables;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;

/// Several calls of a store side by side.
final class Calls {
    private Calls() {}

    /// Makes all calls, and returns the failures of those that have failed when all have ended: none is under way any more.
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
            threads.add(Thread.startVirtualThread(some));
        }
        some.run();
        boolean isInterrupted = false;
        for (Thread thread : threads) {
            while (thread.isAlive()) {
                try {
                    thread.join();
                } catch (InterruptedException later) {
                    isInterrupted = true; // what is under way must end first: see W3 of Transaction
                }
            }
        }
        if (isInterrupted) {
            Thread.currentThread().interrupt();
        }
        return List.copyOf(failures);
    }
}
