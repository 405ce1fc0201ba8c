package cedrat.oracle.bench;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.ClientThreads;
import cedrat.oracle.client.OracleException;
import cedrat.oracle.client.Pipeline;
import cedrat.oracle.client.Replies;
import cedrat.oracle.server.Main;
import cedrat.services.Bookies;
import cedrat.services.FreePorts;
import cedrat.services.Service;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/// How long clients hear nothing when the server is killed and another one waits: from the loss of its
/// session, which is when ZooKeeper tells the other, and from the kill.
@Command(
        name = "failover",
        mixinStandardHelpOptions = true,
        description = "A server on BookKeeper is killed under load, and another takes over.")
final class FailOverBench implements Callable<Integer> {
    private static final int ROWS_MAX = 20;
    private static final String PATH = "/cedrat/oracle";

    @Option(names = "--data", required = true, description = "A fresh directory for bookies and ZooKeeper.")
    private Path data;

    @Option(names = "--clients", defaultValue = "2", description = "Connections (default: ${DEFAULT-VALUE}).")
    private int clients;

    @Option(
            names = "--outstanding",
            defaultValue = "500",
            description = "Transactions of a connection at a time (default: ${DEFAULT-VALUE}).")
    private int outstanding;

    @Option(names = "--rows-log2", defaultValue = "22", description = "Map of rows (default: ${DEFAULT-VALUE}).")
    private int rowsLog2;

    @Option(
            names = "--zookeeper-session-ms",
            defaultValue = "4000",
            description = "Time of a server's session (default: ${DEFAULT-VALUE}).")
    private int sessionMs;

    @Option(
            names = "--seconds",
            defaultValue = "15",
            description = "Seconds of load before (default: ${DEFAULT-VALUE}).")
    private int seconds;

    @Option(names = "--server-jvm", arity = "1", description = "An argument of its virtual machine; may be repeated.")
    private List<String> serverJvm = new ArrayList<>();

    private final InetSocketAddress[] addresses = new InetSocketAddress[2];
    private final AtomicLong answers = new AtomicLong();
    private final AtomicLong wrong = new AtomicLong();
    private volatile boolean ending;

    FailOverBench() {}

    public static void main(String[] arguments) {
        System.exit(new CommandLine(new FailOverBench()).execute(arguments));
    }

    @Override
    public Integer call() throws IOException, InterruptedException {
        try (Bookies bookies = Bookies.start(data, 3)) {
            try (Service first = serve(bookies, 0)) {
                first.awaitReady(() -> Files.readString(first.log()).contains("listening on "));
                try (Service second = serve(bookies, 1)) {
                    second.awaitReady(() -> bookies.zooKeeper().ephemeralsBelow(PATH + "/election") == 2);
                    run(bookies, first);
                }
            }
        }
        return wrong.get() == 0 ? 0 : 1;
    }

    private Service serve(Bookies bookies, int number) throws IOException {
        List<String> jvm = new ArrayList<>(List.of("--enable-native-access=ALL-UNNAMED"));
        jvm.addAll(serverJvm);
        addresses[number] = new InetSocketAddress("127.0.0.1", FreePorts.next());
        return cedrat.services.Command.of(
                        "server " + number,
                        data.resolve("server-" + number),
                        jvm,
                        System.getProperty("java.class.path"),
                        Main.class.getName(),
                        List.of(
                                "serve",
                                "--log",
                                "bookkeeper",
                                "--zookeeper",
                                bookies.zooKeeper().address(),
                                "--zookeeper-session-ms",
                                "" + sessionMs,
                                "--path",
                                PATH,
                                "--rows-log2",
                                "" + rowsLog2,
                                "--port",
                                "" + addresses[number].getPort()))
                .start();
    }

    private void run(Bookies bookies, Service first) throws IOException, InterruptedException {
        ClientOptions options = ClientOptions.of(addresses)
                .withOutstandingMax(2 * outstanding)
                .withReconnect(Duration.ofMillis(5), Duration.ofMillis(50))
                .withPatience(Duration.ofMinutes(1));
        CountDownLatch ended = new CountDownLatch(clients);
        try (ClientThreads threads = new ClientThreads(1)) {
            for (int number = 0; number < clients; number++) {
                Client client = new Client(number, ended);
                client.pipeline = threads.open(options, client);
                client.pipeline.execute(client::begin);
            }
            Thread.sleep(Duration.ofSeconds(seconds));
            long before = answers.get();
            long killed = System.nanoTime();
            first.kill();
            while (bookies.zooKeeper().ephemeralsBelow(PATH + "/election") == 2) {
                Thread.sleep(1);
            }
            long lost = System.nanoTime();
            long seen = answers.get();
            while (answers.get() == seen) {
                Thread.sleep(1);
            }
            long answered = System.nanoTime();
            ending = true;
            ended.await();
            Map<String, Object> params = Map.of(
                    "log",
                    "bookkeeper",
                    "clients",
                    clients,
                    "outstanding",
                    outstanding,
                    "session_ms",
                    sessionMs,
                    "rows_log2",
                    rowsLog2);
            Figures figures = new Figures(true);
            figures.add("cedrat", params, "failover_ms", (answered - lost) / 1e6, "ms");
            figures.add("cedrat", params, "failover_from_kill_ms", (answered - killed) / 1e6, "ms");
            figures.add("cedrat", params, "answers_before_per_s", before / (double) seconds, "1/s");
        }
    }

    /// A connection and its transactions. Lives on its pipeline's thread.
    private final class Client implements Replies<Object> {
        final SplittableRandom random;
        final CountDownLatch ended;
        final long[] rows = new long[ROWS_MAX];
        int running;
        Pipeline<Object> pipeline;

        Client(int number, CountDownLatch ended) {
            random = new SplittableRandom(number);
            this.ended = ended;
        }

        void begin() {
            running = outstanding;
            for (int count = running; count > 0; count--) {
                pipeline.begin(this);
            }
        }

        @Override
        public void begun(Object tag, long start) {
            int count = random.nextInt(ROWS_MAX + 1);
            for (int at = 0; at < count; at++) {
                rows[at] = 1 + random.nextLong(20_000_000);
            }
            pipeline.commit(this, start, rows, count);
        }

        @Override
        public void decided(Object tag, long start, long outcome) {
            answers.incrementAndGet();
            if (ending) {
                stop();
            } else {
                pipeline.begin(this);
            }
        }

        private void stop() {
            if (--running == 0) {
                pipeline.close();
                ended.countDown();
            }
        }

        @Override
        public void outcomes(Object tag, long[] outcomes) {
            wrong.incrementAndGet();
        }

        @Override
        public void number(Object tag, long number) {
            wrong.incrementAndGet();
        }

        @Override
        public void failed(Object tag, OracleException why) {
            System.err.println("failover: " + why);
            wrong.incrementAndGet();
            stop();
        }
    }
}
