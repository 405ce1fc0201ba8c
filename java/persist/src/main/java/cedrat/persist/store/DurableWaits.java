package cedrat.persist.store;

import java.util.ArrayDeque;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/// Completes futures when commits are durable. One platform thread waits for all of them, in the order in which they
/// come, which is about that of the log. Virtual threads wait for these futures, too: in a native call each would keep
/// its carrier, of which there is one for each processor, so that few of them would share a sync of the log.
///
/// **Threads:** any.
final class DurableWaits {
    private static final long IDLE_SECONDS = 1;

    /// Waits, on a platform thread, until all commits up to a place are durable.
    @FunctionalInterface
    interface Wait {
        void until(long place);
    }

    private static final class Waiting extends CompletableFuture<Void> {
        final long place;

        Waiting(long place) {
            this.place = place;
        }
    }

    private final Wait wait;
    private final ThreadPoolExecutor thread = new ThreadPoolExecutor(
            1,
            1,
            IDLE_SECONDS,
            TimeUnit.SECONDS,
            new LinkedBlockingQueue<>(),
            Thread.ofPlatform().daemon().name("cedrat-durable").factory());
    private final ArrayDeque<Waiting> queue = new ArrayDeque<>();
    private boolean isBusy;

    DurableWaits(Wait wait) {
        this.wait = wait;
        thread.allowCoreThreadTimeOut(true);
    }

    /// Returns what completes when all commits up to a place are durable. What depends on it runs on the thread that
    /// waits for all, so it must be short.
    CompletableFuture<Void> until(long place) {
        Waiting waiting = new Waiting(place);
        synchronized (queue) {
            queue.add(waiting);
            if (!isBusy) {
                thread.execute(this::serve);
                isBusy = true;
            }
        }
        return waiting;
    }

    private void serve() {
        while (true) {
            Waiting first;
            synchronized (queue) {
                first = queue.poll();
                if (first == null) {
                    isBusy = false;
                    return;
                }
            }
            try {
                wait.until(first.place);
                first.complete(null);
            } catch (RuntimeException | Error e) {
                first.completeExceptionally(e);
            }
        }
    }
}
