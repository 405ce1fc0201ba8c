package cedrat.persist.store;

import java.util.ArrayDeque;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadFactory;
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
    private final ThreadPoolExecutor thread;
    private final ArrayDeque<Waiting> queue = new ArrayDeque<>();
    private boolean isBusy;

    DurableWaits(Wait wait) {
        this(wait, Thread.ofPlatform().daemon().name("cedrat-durable").factory());
    }

    DurableWaits(Wait wait, ThreadFactory threads) {
        this.wait = wait;
        thread = new ThreadPoolExecutor(1, 1, IDLE_SECONDS, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), threads);
        thread.allowCoreThreadTimeOut(true);
    }

    /// Returns what completes when all commits up to a place are durable. What depends on it runs on the thread that
    /// waits for all, so it must be short.
    CompletableFuture<Void> until(long place) {
        Waiting waiting = new Waiting(place);
        synchronized (queue) {
            if (!isBusy) {
                // Without a thread, nothing waits in the queue. The thread looks into it behind this one.
                thread.execute(this::serve);
                isBusy = true;
            }
            queue.add(waiting);
        }
        return waiting;
    }

    /// Waits until all commits up to a place are durable. Throws what the wait has thrown on its platform thread.
    void await(long place) {
        try {
            until(place).join();
        } catch (CompletionException failed) {
            switch (failed.getCause()) {
                case Error error -> throw error;
                case RuntimeException problem -> throw problem;
                case null, default -> throw failed;
            }
        }
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
