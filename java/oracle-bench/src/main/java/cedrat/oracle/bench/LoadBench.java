package cedrat.oracle.bench;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.ClientThreads;
import cedrat.oracle.client.OracleException;
import cedrat.oracle.client.Pipeline;
import cedrat.oracle.client.Replies;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.server.Main;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/// The load of the paper (§4): transactions that begin, do nothing, and commit 0 to 20 random rows out of 20
/// million, one after the other, as many side by side as are outstanding. Every answer is checked.
@Command(
        name = "load",
        mixinStandardHelpOptions = true,
        description = "Transactions of 0 to 20 random rows, begun and committed.")
final class LoadBench implements Callable<Integer> {
    private static final int ROWS_MAX = 20;

    @Option(names = "--server", paramLabel = "HOST:PORT", description = "Use a server that runs (default: start one).")
    private String server;

    @Option(
            names = "--log",
            defaultValue = "none",
            description = "The log of the server that is started (default: ${DEFAULT-VALUE}).")
    private String log;

    @Option(names = "--data", paramLabel = "DIR", description = "The directory of an embedded log.")
    private Path data;

    @Option(names = "--rows-log2", defaultValue = "25", description = "Its map of rows (default: ${DEFAULT-VALUE}).")
    private int rowsLog2;

    @Option(
            names = "--network-threads",
            defaultValue = "0",
            description = "Its network threads (default: ${DEFAULT-VALUE}).")
    private int networkThreads;

    @Option(names = "--server-jvm", arity = "1", description = "An argument of its virtual machine; may be repeated.")
    private List<String> serverJvm = new ArrayList<>();

    @Option(names = "--clients", defaultValue = "1", description = "Connections (default: ${DEFAULT-VALUE}).")
    private int clients;

    @Option(
            names = "--client-threads",
            defaultValue = "1",
            description = "Threads that share them (default: ${DEFAULT-VALUE}).")
    private int clientThreads;

    @Option(
            names = "--outstanding",
            defaultValue = "1",
            description = "Transactions of a connection at a time (default: ${DEFAULT-VALUE}).")
    private int outstanding;

    @Option(
            names = "--key-space",
            defaultValue = "20000000",
            description = "Rows to draw from (default: ${DEFAULT-VALUE}).")
    private long keySpace;

    @Option(
            names = "--cleaned",
            defaultValue = "100",
            description =
                    "Say that transactions were cleaned up, so many at a time; 0 for never (default: ${DEFAULT-VALUE}).")
    private int cleaned;

    @Option(
            names = "--warm-up-s",
            defaultValue = "10",
            description = "Seconds before figures count (default: ${DEFAULT-VALUE}).")
    private int warmUpSeconds;

    @Option(
            names = "--warm-up-outstanding",
            defaultValue = "100",
            description =
                    "At least so many transactions of a connection at a time until then, for the compiler's sake (default: ${DEFAULT-VALUE}).")
    private int warmUpOutstanding;

    @Option(names = "--seconds", defaultValue = "10", description = "Seconds of figures (default: ${DEFAULT-VALUE}).")
    private int seconds;

    private volatile boolean warm;
    private volatile boolean measuring;
    private volatile boolean ending;

    LoadBench() {}

    public static void main(String[] arguments) {
        System.exit(new CommandLine(new LoadBench()).execute(arguments));
    }

    @Override
    public Integer call() throws IOException, InterruptedException {
        if (server != null) {
            int colon = server.lastIndexOf(':');
            return run(
                    new InetSocketAddress(server.substring(0, colon), Integer.parseInt(server.substring(colon + 1))),
                    null);
        }
        List<String> arguments = new ArrayList<>(List.of(
                "serve",
                "--port",
                "0",
                "--log",
                log,
                "--rows-log2",
                "" + rowsLog2,
                "--network-threads",
                "" + networkThreads));
        if (data != null) {
            arguments.addAll(List.of("--data", data.toString()));
        }
        try (ServerProcess process = new ServerProcess(serverJvm, Main.class.getName(), arguments)) {
            return run(process.address(), process);
        }
    }

    private int run(InetSocketAddress address, ServerProcess process) throws InterruptedException {
        List<Client> all = new ArrayList<>();
        CountDownLatch ended = new CountDownLatch(clients);
        try (ClientThreads threads = new ClientThreads(clientThreads)) {
            ClientOptions options =
                    ClientOptions.of(address).withOutstandingMax(2 * Math.max(outstanding, warmUpOutstanding) + 16);
            for (int number = 0; number < clients; number++) {
                Client client = new Client(number, ended);
                client.pipeline = threads.open(options, client);
                all.add(client);
            }
            all.forEach(client -> client.pipeline.execute(client::begin));
            Thread.sleep(Duration.ofSeconds(warmUpSeconds));
            warm = true;
            Thread.sleep(Duration.ofSeconds(1));
            Duration serverBefore = process == null ? Duration.ZERO : process.time();
            Duration clientBefore = ownTime();
            long before = System.nanoTime();
            measuring = true;
            Thread.sleep(Duration.ofSeconds(seconds));
            measuring = false;
            double passed = (System.nanoTime() - before) / 1e9;
            Duration clientTime = ownTime().minus(clientBefore);
            Duration serverTime =
                    process == null ? Duration.ZERO : process.time().minus(serverBefore);
            ending = true;
            ended.await();
            report(all, passed, clientTime, serverTime);
        }
        for (Client client : all) {
            if (client.wrong != null) {
                System.err.println("load: " + client.wrong);
                return 1;
            }
        }
        return 0;
    }

    private static Duration ownTime() {
        return ProcessHandle.current().info().totalCpuDuration().orElse(Duration.ZERO);
    }

    private void report(List<Client> all, double passed, Duration clientTime, Duration serverTime) {
        Histogram starts = new Histogram();
        Histogram commits = new Histogram();
        long aborted = 0;
        for (Client client : all) {
            starts.add(client.starts);
            commits.add(client.commits);
            aborted += client.aborted;
        }
        double count = Math.max(1, commits.total());
        Figures figures = new Figures(
                "cedrat",
                "\"log\":\"" + log + "\",\"clients\":" + clients + ",\"outstanding\":" + outstanding
                        + ",\"network_threads\":" + networkThreads + ",\"cleaned\":" + cleaned);
        figures.print("commits_per_s", (commits.total() - aborted) / passed, "1/s");
        figures.print("p50_us", commits.quantileMicros(0.50), "us");
        figures.print("p99_us", commits.quantileMicros(0.99), "us");
        figures.print("start_p50_us", starts.quantileMicros(0.50), "us");
        figures.print("abort_rate", aborted / count, "1");
        figures.print("client_cpu_us_per_commit", clientTime.toNanos() / 1e3 / count, "us");
        figures.print("server_cpu_us_per_commit", serverTime.toNanos() / 1e3 / count, "us");
    }

    /// A transaction after the other.
    private static final class Worker {
        final long[] rows = new long[ROWS_MAX];
        long asked;
    }

    /// A connection and its transactions. Lives on its pipeline's thread.
    private final class Client implements Replies<Worker> {
        final SplittableRandom random;
        final CountDownLatch ended;
        final Histogram starts = new Histogram();
        final Histogram commits = new Histogram();
        final long[] toClean = new long[Math.max(1, cleaned)];
        int toCleanCount;
        long newestStart;
        long aborted;
        int running;
        volatile String wrong;
        Pipeline<Worker> pipeline;

        Client(int number, CountDownLatch ended) {
            random = new SplittableRandom(number);
            this.ended = ended;
        }

        void begin() {
            running = Math.max(outstanding, warmUpOutstanding);
            for (int count = running; count > 0; count--) {
                begin(new Worker());
            }
        }

        private void begin(Worker worker) {
            if (ending) {
                stop();
                return;
            }
            if (warm && running > outstanding) {
                running--;
                return;
            }
            worker.asked = System.nanoTime();
            pipeline.begin(worker);
        }

        private void stop() {
            if (--running == 0) {
                pipeline.close();
                ended.countDown();
            }
        }

        @Override
        public void begun(Worker worker, long start) {
            long now = System.nanoTime();
            if (measuring) {
                starts.add(now - worker.asked);
            }
            if (start <= newestStart) {
                wrong = "start " + start + " after " + newestStart;
            }
            newestStart = start;
            int count = random.nextInt(ROWS_MAX + 1);
            for (int at = 0; at < count; at++) {
                worker.rows[at] = 1 + random.nextLong(keySpace);
            }
            worker.asked = now;
            pipeline.commit(worker, start, worker.rows, count);
        }

        @Override
        public void decided(Worker worker, long start, long outcome) {
            if (measuring) {
                commits.add(System.nanoTime() - worker.asked);
                aborted += outcome == Protocol.ABORTED ? 1 : 0;
            }
            if (outcome != Protocol.ABORTED && outcome < start) {
                wrong = "outcome " + outcome + " of " + start;
            }
            if (cleaned > 0 && outcome != start) {
                toClean[toCleanCount++] = start;
                if (toCleanCount == cleaned) {
                    pipeline.cleaned(null, toClean, toCleanCount);
                    toCleanCount = 0;
                }
            }
            begin(worker);
        }

        @Override
        public void outcomes(Worker worker, long[] outcomes) {
            wrong = "an answer that nobody has asked for";
        }

        @Override
        public void number(Worker worker, long number) {
            if (number != cleaned) {
                wrong = "of " + cleaned + " transactions " + number + " were cleaned";
            }
        }

        @Override
        public void failed(Worker worker, OracleException why) {
            if (worker != null) {
                wrong = why.toString();
                stop();
            }
        }
    }
}
