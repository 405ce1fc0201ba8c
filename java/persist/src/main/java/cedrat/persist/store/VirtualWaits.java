package cedrat.persist.store;

import cedrat.persist.GraphStoreException;
import java.util.ArrayDeque;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/// Waits of virtual threads until commits are durable. A thread in a native call keeps its carrier, of which there is
/// one for each processor, so that few virtual threads would share a sync of the log. One platform thread waits for
/// all of them instead, in the order in which they come, which is about that of the log.
///
/// **Threads:** any.
final class VirtualWaits {
    private static final long IDLE_SECONDS = 1;

    /// Waits, on a platform thread, until all commits up to a place are durable.
    @FunctionalInterface
    interface Wait {
        void until(long place) throws GraphStoreException;
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

    VirtualWaits(Wait wait) {
        this.wait = wait;
        thread.allowCoreThreadTimeOut(true);
    }

    /// Waits until all commits up to a place are durable.
    void until(long place) throws GraphStoreException {
        Waiting waiting = new Waiting(place);
        synchronized (queue) {
            queue.add(waiting);
            if (!isBusy) {
                thread.execute(this::serve);
                isBusy = true;
            }
        }
        try {
            waiting.join();
        } catch (CompletionException failed) {
            Throwable cause = failed.getCause();
            throw new GraphStoreException(
                    cause.getMessage(), cause, cause instanceof GraphStoreException refused && refused.isStopped());
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
            } catch (GraphStoreException | RuntimeException | Error e) {
                first.completeExceptionally(e);
            }
        }
    }
}
