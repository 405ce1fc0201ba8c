package cedrat.oracle.maintenance;

import cedrat.oracle.server.OperationHttp;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SequencedMap;
import java.util.concurrent.CompletableFuture;

/// Jobs that go on until they are stopped, each on a thread of its own. **Threads:** any may call.
final class Service implements AutoCloseable {
    /// Time for a pass to end after a stop. One that HBase keeps waiting ends with the process.
    private static final Duration STOP_PATIENCE = Duration.ofSeconds(5);

    private final Waiting.Real waiting;
    private final List<Thread> threads = new ArrayList<>();
    private final OperationHttp http;
    private final CompletableFuture<Void> ended;

    /// @param jobs with the pause of each between two passes
    /// @param rowsPerSecond 0 for no limit
    /// @param metrics where it answers operators, if anywhere
    /// @throws IOException if that address is not available
    Service(
            SequencedMap<Job, Duration> jobs,
            long rowsPerSecond,
            Store.Opener opener,
            Waiting.Real waiting,
            Records records,
            Optional<InetSocketAddress> metrics)
            throws IOException {
        this.waiting = waiting;
        Outages outages = new Outages(waiting, records);
        Figures figures = new Figures(waiting, outages, List.copyOf(jobs.keySet()), opener.namespaces());
        http = metrics.isPresent() ? new OperationHttp(metrics.get(), figures) : null;
        List<CompletableFuture<Void>> ends = new ArrayList<>();
        for (Map.Entry<Job, Duration> job : jobs.entrySet()) {
            Runner runner = new Runner(job.getKey(), job.getValue(), rowsPerSecond, opener, waiting, outages, figures);
            CompletableFuture<Void> end = new CompletableFuture<>();
            ends.add(end);
            threads.add(
                    Thread.ofPlatform().name(job.getKey().toString()).daemon().unstarted(() -> {
                        try {
                            runner.run();
                            end.complete(null);
                        } catch (Throwable failure) {
                            // Both end, and a supervisor starts both again.
                            ends.forEach(each -> each.completeExceptionally(failure));
                            throw failure;
                        }
                    }));
        }
        ended = CompletableFuture.allOf(ends.toArray(CompletableFuture[]::new));
        threads.forEach(Thread::start);
    }

    /// Returns the address at which it answers operators.
    Optional<InetSocketAddress> metrics() {
        return Optional.ofNullable(http).map(OperationHttp::address);
    }

    /// Waits until it was stopped.
    ///
    /// @throws java.util.concurrent.CompletionException if one of the threads has failed
    void await() {
        ended.join();
    }

    /// Stops the jobs, and waits for a while until they have ended.
    @Override
    public void close() {
        waiting.stop();
        for (Thread thread : threads) {
            try {
                thread.join(STOP_PATIENCE);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }
        if (http != null) {
            http.close();
        }
    }
}
