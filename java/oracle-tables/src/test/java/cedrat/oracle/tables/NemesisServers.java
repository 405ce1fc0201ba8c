package cedrat.oracle.tables;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.server.CrashableServer;
import cedrat.oracle.server.ServerOptions;
import cedrat.oracle.server.cluster.Journal;
import cedrat.oracle.server.cluster.Links;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Supplier;
import java.util.random.RandomGenerator;

/// The servers of an oracle in a [NemesisWorld]: one serves, and those that it has replaced may still run. Over a
/// shared log another one waits for its turn. For the thread of the nemesis.
final class NemesisServers {
    private final NemesisWorld.Setting setting;
    private final Supplier<ServerOptions> options;
    private final String fault;
    private final Links links;
    private final Journal journal;
    /// Servers that were replaced, and do not know it.
    private final List<Running> replaced = new ArrayList<>();
    /// Server of another oracle, as if the log of the first was wiped.
    private final CrashableServer other;
    /// `null` while none serves.
    private Running serving;
    /// A server of a shared log that waits for its turn; `null` if none does.
    private CompletableFuture<Running> standby;
    /// Servers of a shared log end in the background: their log may wait for its services.
    private final List<CompletableFuture<Void>> endings = new ArrayList<>();
    /// Why a server has failed to start; `null` if none has.
    private Exception startProblem;

    private int crashes;
    private int stops;
    private int replacements;

    /// A server with its own instance of the log.
    private record Running(CrashableServer server, Log log) {}

    /// Starts the first one.
    ///
    /// @param options of a server that starts now
    NemesisServers(
            NemesisWorld.Setting setting, Supplier<ServerOptions> options, String fault, Links links, Journal journal)
            throws IOException, DamagedEntryException {
        this.setting = setting;
        this.options = options;
        this.fault = fault;
        this.links = links;
        this.journal = journal;
        serving = open();
        lead();
        other = CrashableServer.start(new VolatileLog(), options.get(), fault);
    }

    private Running open() throws IOException, DamagedEntryException {
        Log log = setting.logs().get();
        CrashableServer server = CrashableServer.start(log, options.get(), fault);
        journal.record("server starts on port " + server.address().getPort() + " with " + server.figures());
        return new Running(server, log);
    }

    private void lead() {
        links.leadTo(
                serving == null ? null : serving.server.address(),
                replaced.isEmpty() ? null : replaced.getLast().server.address());
    }

    /// Starts a server as a supervisor does: a later attempt may open a log whose bookies are away now.
    void start() throws DamagedEntryException {
        if (setting.isShared()) {
            if (standby == null) {
                journal.record("a server stands by");
                standby = later("nemesis standby", this::open);
            }
        } else if (serving == null) {
            try {
                serving = open();
                lead();
            } catch (IOException problem) {
                startProblem = problem;
                journal.record("server does not start: " + problem);
            }
        }
    }

    private static <T> CompletableFuture<T> later(String thread, Callable<T> work) {
        CompletableFuture<T> result = new CompletableFuture<>();
        Thread.ofPlatform().name(thread).daemon().start(() -> {
            try {
                result.complete(work.call());
            } catch (Throwable problem) {
                result.completeExceptionally(problem);
            }
        });
        return result;
    }

    /// Ends servers that have stopped by themselves, as their process does, and lets one serve whose turn has come.
    void poll() throws IOException, DamagedEntryException {
        if (standby != null && standby.isDone()) {
            CompletableFuture<Running> begun = standby;
            standby = null;
            adopt(begun);
        }
        if (serving != null && serving.server.isStopped()) {
            stops++;
            journal.record("server has stopped by itself");
            end(serving.server::close);
            serving = null;
            lead();
        }
        for (Running each : List.copyOf(replaced)) {
            if (each.server.isStopped()) {
                journal.record("a replaced server has stopped by itself");
                replaced.remove(each);
                end(each.server::close);
                lead();
            }
        }
    }

    private void adopt(CompletableFuture<Running> begun) throws DamagedEntryException {
        try {
            Running next = begun.join();
            if (serving != null) {
                journal.record("server was replaced");
                replaced.add(serving);
                replacements++;
            }
            serving = next;
            lead();
        } catch (CompletionException failed) {
            if (failed.getCause() instanceof DamagedEntryException damaged) {
                throw damaged;
            }
            if (!(failed.getCause() instanceof IOException problem)) {
                throw failed;
            }
            startProblem = problem;
            journal.record("server does not start: " + problem);
        }
    }

    private interface Ending {
        void run() throws IOException;
    }

    private void end(Ending ending) throws IOException {
        if (!setting.isShared()) {
            ending.run();
            return;
        }
        endings.add(later("nemesis ending", () -> {
            try {
                ending.run();
            } catch (IOException problem) {
                journal.record("a server has ended, but not its log: " + problem); // which is another server's now
            }
            return null;
        }));
    }

    // ---- faults -----------------------------------------------------------------------------------------------------

    /// Crashes the server that serves.
    void crash(RandomGenerator random) throws IOException {
        crashes++;
        journal.record("server crashes");
        CrashableServer crashed = serving.server;
        serving = null;
        lead();
        end(() -> crashed.crash(random));
    }

    /// Gives the log to another server, while the one that serves goes on.
    void replace(RandomGenerator random) throws IOException, DamagedEntryException {
        journal.record("server is replaced");
        Running before = serving;
        serving = null;
        replaced.add(before);
        replacements++;
        end(() -> before.server.fence(random));
        start();
        lead();
    }

    /// Delivers to the newest server that was replaced the late acknowledgements of its log.
    void wakeReplaced() {
        if (!replaced.isEmpty()) {
            journal.record("a replaced server hears of its log");
            replaced.getLast().server.wake();
        }
    }

    /// Ends the newest server that was replaced.
    void endReplaced() throws IOException {
        journal.record("a replaced server ends");
        end(replaced.removeLast().server::close);
        lead();
    }

    /// Lets a part of the session timeout pass.
    void tick() {
        if (serving != null) {
            serving.server.tick();
        }
        replaced.forEach(each -> each.server.tick());
    }

    /// Has all servers read the files of tokens and roles now.
    void refresh() {
        if (serving != null) {
            serving.server.refresh();
        }
        replaced.forEach(each -> each.server.refresh());
        other.refresh();
    }

    // ---- state ------------------------------------------------------------------------------------------------------

    /// Whether a server serves.
    boolean isServing() {
        return serving != null;
    }

    /// Whether servers that were replaced still run.
    boolean hasReplaced() {
        return !replaced.isEmpty();
    }

    /// Returns the server that serves.
    CrashableServer serving() {
        return serving.server;
    }

    /// Returns the log of the server that serves.
    Log log() {
        return serving.log;
    }

    /// Returns the server of another oracle.
    CrashableServer other() {
        return other;
    }

    /// Returns why a server has not started; `null` if all have.
    Exception startProblem() {
        return startProblem;
    }

    /// Returns what the server that serves remembers.
    String describe() {
        if (serving == null) {
            return "no server";
        }
        try {
            return serving.server.describe();
        } catch (RuntimeException stopped) {
            return "the server has stopped: " + stopped.getMessage();
        }
    }

    @Override
    public String toString() {
        return crashes + " crashes, " + stops + " servers stopped, " + replacements + " servers replaced";
    }

    /// Ends those that were replaced, and waits for all that have ended.
    void endOthers() throws IOException {
        while (!replaced.isEmpty()) {
            endReplaced();
        }
        try {
            endings.forEach(CompletableFuture::join);
        } catch (CompletionException problem) {
            throw new IOException(problem.getCause());
        }
        endings.clear();
    }

    /// Ends all.
    void close() throws IOException {
        other.close();
        if (serving != null) {
            end(serving.server::close);
        }
        endOthers();
        if (standby != null) { // its turn has come
            standby.join().server.close();
        }
    }
}
