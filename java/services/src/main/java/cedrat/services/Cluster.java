package cedrat.services;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.stream.Collectors;

/// Servers as processes of this machine that outlive this program, and are found again by the next one.
///
/// A server that runs and answers goes on as the process that it is, whatever happens to the others. The file
/// `processes` in the folder names the processes ([ProcessFile]).
///
/// **Threads:** one at a time. Of several programs one at a time has the cluster: the others are refused.
final class Cluster implements AutoCloseable {
    private static final String PROCESSES = "processes";
    private static final long ASK_AGAIN_MS = 50;

    /// Time limits of waits.
    ///
    /// @param ready for servers that were started to answer
    /// @param hung for a process that runs to answer, before another one takes its place
    /// @param end for a process to end by itself, before it is killed
    record Patience(Duration ready, Duration hung, Duration end) {
        static final Patience DEFAULT =
                new Patience(Duration.ofMinutes(3), Duration.ofSeconds(45), Duration.ofSeconds(30));
    }

    /// State of a server.
    ///
    /// @param process `null` if it does not run
    record State(Server server, OsProcess process, boolean isHealthy) {
        @Override
        public String toString() {
            return "server " + server.name() + " pid " + (process == null ? "-" : process.pid()) + " address "
                    + server.address() + " healthy " + (isHealthy ? "yes" : "no");
        }
    }

    private final List<List<Server>> groups;
    private final Patience patience;
    private final Consumer<String> reports;
    private final ProcessFile processes;
    private final FileChannel lock;
    /// Services that this object has started, by name.
    private final Map<String, Service> started = new HashMap<>();

    /// The cluster of this folder. Servers of a group wait for each other, and for those of the groups before.
    ///
    /// @throws IOException if another program has it
    Cluster(Path folder, List<List<Server>> groups, Patience patience, Consumer<String> reports) throws IOException {
        this.groups = groups;
        this.patience = patience;
        this.reports = reports;
        Files.createDirectories(folder);
        lock = FileChannel.open(folder.resolve("lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
        try {
            if (lock.tryLock() == null) {
                throw new OverlappingFileLockException();
            }
            processes = new ProcessFile(folder.resolve(PROCESSES));
        } catch (OverlappingFileLockException taken) {
            lock.close();
            throw new IOException("another command has the cluster in " + folder + ": wait until it has ended", taken);
        } catch (IOException problem) {
            lock.close();
            throw problem;
        }
    }

    /// Starts what does not run or does not answer; returns when all servers answer.
    ///
    /// @throws IOException if one does not; the others go on
    void up() throws IOException {
        started.clear();
        int before;
        do {
            // A server may end because another one was away: the next round starts it.
            before = started.size();
            for (List<Server> group : groups) {
                up(group);
            }
        } while (started.size() > before);
    }

    /// Starts a server that does not run or does not answer; returns when it answers.
    void start(String name) throws IOException {
        started.clear();
        up(List.of(server(name)));
    }

    /// Ends the process of a server. Returns whether it ran.
    boolean stop(String name) throws IOException {
        return end(server(name));
    }

    /// Ends the process of a server, and starts it; returns when it answers.
    void restart(String name) throws IOException {
        end(server(name));
        start(name);
    }

    /// Ends all processes, the last first.
    void down() throws IOException {
        for (List<Server> group : groups.reversed()) {
            for (Server server : group.reversed()) {
                end(server);
            }
        }
    }

    /// Returns the state of each server of a cluster, also while another program has it.
    static List<State> status(Path folder, List<List<Server>> groups) throws IOException {
        ProcessFile processes = new ProcessFile(folder.resolve(PROCESSES));
        List<State> all = new ArrayList<>();
        for (List<Server> group : groups) {
            for (Server server : group) {
                OsProcess process = processes.running(server.name());
                all.add(new State(server, process, answers(server, process)));
            }
        }
        return all;
    }

    private Server server(String name) throws IOException {
        return groups.stream()
                .flatMap(List::stream)
                .filter(server -> server.name().equals(name))
                .findFirst()
                .orElseThrow(() -> new IOException("unknown server " + name + ": choose one of " + names()));
    }

    private String names() {
        return groups.stream().flatMap(List::stream).map(Server::name).collect(Collectors.joining(", "));
    }

    private static boolean answers(Server server, OsProcess process) {
        try {
            return process != null && server.health().answers(process.started());
        } catch (IOException silent) {
            return false;
        }
    }

    private void up(List<Server> group) throws IOException {
        long now = System.nanoTime();
        long hungFrom = now + patience.hung.toNanos();
        long until = now + patience.hung.plus(patience.ready).toNanos();
        while (true) {
            List<Server> silent = new ArrayList<>();
            for (Server server : group) {
                OsProcess process = processes.running(server.name());
                if (process == null) {
                    startOnce(server, "does not run");
                    silent.add(server);
                } else if (!answers(server, process)) {
                    silent.add(server);
                }
            }
            if (silent.isEmpty()) {
                return;
            }
            now = System.nanoTime();
            for (Server server : silent) {
                if (now > until) {
                    throw problem(server, "does not answer at " + server.address());
                }
                if (now >= hungFrom && !started.containsKey(server.name())) {
                    end(server);
                    startOnce(server, "does not answer at " + server.address());
                }
            }
            OsProcess.pause(ASK_AGAIN_MS);
        }
    }

    /// @throws IOException if it was started before, and has ended
    private void startOnce(Server server, String why) throws IOException {
        if (started.containsKey(server.name())) {
            throw problem(server, "has ended");
        }
        if (FreePorts.isTaken(server.port())) {
            throw new IOException("cannot start " + server.name() + ": another process listens on " + server.address()
                    + ": end that process");
        }
        reports.accept("starting " + server.name() + ", which " + why);
        Service service = server.preparation().prepare().start();
        started.put(server.name(), service);
        OsProcess process =
                OsProcess.of(service.pid()).orElseThrow(() -> service.problem("has ended as soon as it was started"));
        processes.put(server.name(), process);
        service.outlive();
    }

    private IOException problem(Server server, String what) {
        Service service = started.get(server.name());
        return service == null ? new IOException(server.name() + " " + what) : service.problem(what);
    }

    private boolean end(Server server) throws IOException {
        OsProcess process = processes.running(server.name());
        if (process != null) {
            reports.accept("stopping " + server.name());
            process.end(patience.end);
        }
        processes.remove(server.name());
        return process != null;
    }

    /// Leaves the cluster to other programs. Its servers go on.
    @Override
    public void close() throws IOException {
        lock.close();
    }
}
