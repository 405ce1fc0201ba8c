package cedrat.persist;

import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;

/// Code that the agent has not seen, and which may hand work over in a transaction.
public final class Elsewhere {
    private Elsewhere() {}

    /// As [ExecutorService#submit(Runnable)].
    public static Future<?> submit(ExecutorService threads, Runnable work) {
        return threads.submit(work);
    }

    /// As [Thread#start].
    public static void start(Thread thread) {
        thread.start();
    }

    /// As [AtomicInteger#incrementAndGet].
    public static void count(AtomicInteger number) {
        number.incrementAndGet();
    }

    /// As [ExecutorService#submit(Callable)].
    public static <T> Future<T> submit(ExecutorService threads, Callable<T> work) {
        return threads.submit(work);
    }
}
