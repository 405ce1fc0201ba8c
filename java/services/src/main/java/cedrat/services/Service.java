package cedrat.services;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/// A process that was started from here.
///
/// ```text
/// Running ──pause──▶ Paused
///    │  ◀──resume──    │
///    └──stop, kill─────┴──▶ Ended
/// ```
///
/// It ends with this program at the latest, unless it was started to [outlive][#outlive] it.
///
/// **Threads:** any may call.
public final class Service implements AutoCloseable {
    private static final Duration STOP_PATIENCE = Duration.ofSeconds(20);
    private static final Duration READY_PATIENCE = Duration.ofMinutes(3);
    private static final long ASK_AGAIN_MS = 20;
    private static final int LINES_REPORTED = 30;

    private static final Set<Service> WITH_US = ConcurrentHashMap.newKeySet();

    static {
        Runtime.getRuntime()
                .addShutdownHook(new Thread(
                        () -> WITH_US.forEach(service -> service.process.destroyForcibly()), "end services"));
    }

    /// Decides whether a service is ready.
    @FunctionalInterface
    public interface Question {
        /// Whether it is; may as well throw that it is not.
        boolean isAnswered() throws IOException;
    }

    private final String name;
    private final Process process;
    private final Path log;

    Service(String name, Process process, Path log) {
        this.name = name;
        this.process = process;
        this.log = log;
        WITH_US.add(this);
    }

    /// The number of its process.
    public long pid() {
        return process.pid();
    }

    /// Returns the processors' time that it has taken.
    public Duration time() {
        return process.info().totalCpuDuration().orElse(Duration.ZERO);
    }

    /// The file with all that it has said.
    public Path log() {
        return log;
    }

    /// Whether it runs, or is paused.
    public boolean isAlive() {
        return process.isAlive();
    }

    /// It goes on when this program ends.
    public void outlive() {
        WITH_US.remove(this);
    }

    /// Asks again and again until the answer is yes.
    ///
    /// @throws IOException if the service has ended, or is not ready after three minutes
    public void awaitReady(Question question) throws IOException {
        long until = System.nanoTime() + READY_PATIENCE.toNanos();
        while (true) {
            IOException why = null;
            try {
                if (question.isAnswered()) {
                    return;
                }
            } catch (IOException notYet) {
                why = notYet;
            }
            if (!isAlive()) {
                throw problem("has ended with exit code " + process.exitValue());
            }
            if (System.nanoTime() > until) {
                IOException problem = problem("is not ready after " + READY_PATIENCE.toSeconds() + " s");
                if (why != null) {
                    problem.addSuppressed(why);
                }
                throw problem;
            }
            try {
                // Only how often it is asked: nothing is ready because time has passed.
                Thread.sleep(ASK_AGAIN_MS);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                throw problem("was not awaited, because the thread was interrupted");
            }
        }
    }

    /// SIGSTOP: stops the process without notice to its peers.
    public void pause() throws IOException {
        signal("STOP");
    }

    /// SIGCONT: it goes on as if nothing had happened.
    public void resume() throws IOException {
        signal("CONT");
    }

    /// Lets each write to a file fail from now on, as on a full disk.
    public void fillDisk() throws IOException {
        run("cannot be limited in the length of its files", "prlimit", "--pid=" + pid(), "--fsize=1:");
    }

    private void signal(String signal) throws IOException {
        run("cannot be sent a signal", "kill", "-" + signal, Long.toString(pid()));
    }

    private void run(String failure, String... command) throws IOException {
        Process process = new ProcessBuilder(command).start();
        try {
            if (process.waitFor() != 0) {
                throw problem(failure);
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw problem("was not awaited, because the thread was interrupted");
        }
    }

    /// SIGKILL: ends the process at once, without notice to its peers.
    public void kill() {
        process.destroyForcibly();
        try {
            process.waitFor();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
        WITH_US.remove(this);
    }

    /// SIGTERM: it ends in its own way, or after 20 seconds in ours. Not while it is paused.
    public void stop() {
        process.destroy();
        try {
            if (!process.waitFor(STOP_PATIENCE.toSeconds(), TimeUnit.SECONDS)) {
                kill();
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            process.destroyForcibly();
        }
        WITH_US.remove(this);
    }

    /// Waits until it has ended; returns its exit code.
    public int awaitEnd() throws IOException {
        try {
            return process.waitFor();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw problem("was not awaited, because the thread was interrupted");
        }
    }

    /// As [#kill], for those who do not care.
    @Override
    public void close() {
        kill();
    }

    /// An exception that says what is wrong with the service, and what it has said last.
    public IOException problem(String what) {
        String said;
        try {
            List<String> lines = Files.readAllLines(log);
            said = String.join("\n", lines.subList(Math.max(0, lines.size() - LINES_REPORTED), lines.size()));
        } catch (IOException unreadable) {
            said = unreadable.toString();
        }
        return new IOException(name + " " + what + "; the end of " + log + ":\n" + said);
    }

    @Override
    public String toString() {
        return name + " (process " + pid() + ")";
    }
}
