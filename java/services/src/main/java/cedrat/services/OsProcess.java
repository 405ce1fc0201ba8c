package cedrat.services;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;

/// Identity of a process of this machine: its number, and its start in ticks since the boot that `since` names.
///
/// Numbers are used again, so the number alone may name another process later. A change of the clock alters
/// neither part of `since`.
record OsProcess(long pid, String since) {
    private static final Path BOOT = Path.of("/proc/sys/kernel/random/boot_id");

    /// Fields of `/proc/PID/stat` behind the name of the program.
    private static final int STATE = 0;

    private static final int THREADS = 17;
    private static final int START_TICKS = 19;

    private static final long LOOK_AGAIN_MS = 20;

    /// Returns the process that has this number now; empty if it has ended, although its parent may not have
    /// asked for its exit code yet.
    static Optional<OsProcess> of(long pid) throws IOException {
        String stat;
        try {
            stat = Files.readString(Path.of("/proc/" + pid + "/stat"));
        } catch (NoSuchFileException ended) {
            return Optional.empty();
        } catch (IOException problem) {
            if (Files.exists(Path.of("/proc/" + pid))) {
                throw problem;
            }
            return Optional.empty(); // it has ended while its file was read
        }
        String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
        // The first thread may have ended before the others, which still hold its files and sockets.
        boolean hasEnded = "ZX".contains(fields[STATE]) && Integer.parseInt(fields[THREADS]) <= 1;
        String boot = Files.readString(BOOT).strip();
        return hasEnded ? Optional.empty() : Optional.of(new OsProcess(pid, boot + "/" + fields[START_TICKS]));
    }

    /// Whether it has not ended.
    boolean isAlive() throws IOException {
        return of(pid).equals(Optional.of(this));
    }

    /// Returns when it has started, to about a second.
    Instant started() {
        return ProcessHandle.of(pid)
                .flatMap(process -> process.info().startInstant())
                .orElse(Instant.MIN);
    }

    /// SIGTERM, and SIGKILL if it has not ended after `patience`; returns when it has ended.
    ///
    /// @throws IOException if it does not end even so
    void end(Duration patience) throws IOException {
        if (isAlive()) {
            ProcessHandle.of(pid).ifPresent(ProcessHandle::destroy);
        }
        if (!hasEnded(patience)) {
            ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly);
            if (!hasEnded(patience)) {
                throw new IOException("cannot end the process " + pid + ": it lives on after SIGKILL");
            }
        }
    }

    private boolean hasEnded(Duration patience) throws IOException {
        long until = System.nanoTime() + patience.toNanos();
        while (isAlive()) {
            if (System.nanoTime() > until) {
                return false;
            }
            pause(LOOK_AGAIN_MS);
        }
        return true;
    }

    /// Waits before something is asked again; nothing is ready because time has passed.
    static void pause(long milliseconds) throws IOException {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IOException("the thread was interrupted while it waited for processes", interrupted);
        }
    }
}
