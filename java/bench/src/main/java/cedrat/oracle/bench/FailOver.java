package cedrat.oracle.bench;

import cedrat.bench.figures.Figures;
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
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;

/// Measures the silence for clients when the server is killed and another one stands by: the longest interval between
/// two answers from the kill until ZooKeeper has ended the session of the killed server.
final class FailOver {
    private static final int ROWS_MAX = 20;
    private static final int KEY_SPACE = 20_000_000;
    private static final int CLIENTS = 2;
    private static final int OUTSTANDING = 500;
    private static final int ROWS_LOG2 = 22;
    private static final int SESSION_MS = 4000;
    private static final String PATH = "/cedrat/failover";

    private final Bookies bookies;
    private final Path data;
    private final List<String> serverJvm;
    private final InetSocketAddress[] addresses = new InetSocketAddress[2];
    private final AtomicLong answers = new AtomicLong();
    private final AtomicLong wrong = new AtomicLong();
    /// Used by the thread of the clients alone.
    private long lastAnswer = System.nanoTime();
    private final AtomicLong longestSilence = new AtomicLong();
    private volatile boolean ending;

    /// Of servers with these arguments for their virtual machines, and with their output in this directory.
    FailOver(Bookies bookies, Path data, List<String> serverJvm) {
        this.bookies = bookies;
        this.data = data;
        this.serverJvm = serverJvm;
    }

    /// Kills a server after so many seconds of load, and adds the figures. `false` if an answer was wrong.
    boolean measure(int seconds, Figures figures) throws IOException, InterruptedException {
        initialise();
        try (Service first = serve(0)) {
            first.awaitReady(() -> Files.readString(first.log()).contains("listening on "));
            try (Service second = serve(1)) {
                second.awaitReady(() -> bookies.zooKeeper().ephemeralsBelow(PATH + "/election") == 2);
                run(first, seconds, figures);
            }
        }
        return wrong.get() == 0;
    }

    private void initialise() throws IOException, InterruptedException {
        String zooKeeper = bookies.zooKeeper().address();
        Child.run(
                new Child.Program(serverJvm, Main.class.getName()),
                List.of("init", "--log", "bookkeeper", "--zookeeper", zooKeeper, "--path", PATH));
    }

    private Service serve(int number) throws IOException {
        addresses[number] = new InetSocketAddress("127.0.0.1", FreePorts.next());
        return cedrat.services.Command.of(
                        "server " + number,
                        data.resolve("server-" + number),
                        serverJvm,
                        System.getProperty("java.class.path"),
                        Main.class.getName(),
                        List.of(
                                "serve",
                                "--log",
                                "bookkeeper",
                                "--zookeeper",
                                bookies.zooKeeper().address(),
                                "--zookeeper-session-ms",
                                "" + SESSION_MS,
                                "--path",
                                PATH,
                                "--rows-log2",
                                "" + ROWS_LOG2,
                                "--port",
                                "" + addresses[number].getPort()))
                .start();
    }

    private void run(Service first, int seconds, Figures figures) throws IOException, InterruptedException {
        ClientOptions options =
                ClientOptions.of(addresses).withOutstandingMax(2 * OUTSTANDING).withPatience(Duration.ofMinutes(1));
        CountDownLatch ended = new CountDownLatch(CLIENTS);
        try (ClientThreads threads = new ClientThreads(1)) {
            for (int number = 0; number < CLIENTS; number++) {
                Client client = new Client(number, ended);
                client.pipeline = threads.open(options, client);
                client.pipeline.execute(client::begin);
            }
            // The measured interval before the kill: the clients run meanwhile.
            Thread.sleep(Duration.ofSeconds(seconds));
            long before = answers.get();
            longestSilence.set(0);
            first.kill();
            // The measured interval: two sessions can expire in it, so the other server answers if it ever does.
            Thread.sleep(2L * SESSION_MS);
            long seen = answers.get();
            while (answers.get() == seen) {
                // An interval between two polls; a busy loop would take processor time from server and client.
                Thread.sleep(1);
            }
            ending = true;
            ended.await();
            Map<String, Object> params = new LinkedHashMap<>();
            params.put("log", "bookkeeper");
            params.put("clients", CLIENTS);
            params.put("outstanding", OUTSTANDING);
            params.put("session_ms", SESSION_MS);
            figures.add("cedrat", params, "failover_ms", longestSilence.get() / 1e6, "ms");
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
            running = OUTSTANDING;
            for (int count = running; count > 0; count--) {
                pipeline.begin(this);
            }
        }

        @Override
        public void begun(Object tag, long start) {
            int count = random.nextInt(ROWS_MAX + 1);
            for (int at = 0; at < count; at++) {
                rows[at] = 1 + random.nextLong(KEY_SPACE);
            }
            pipeline.commit(this, start, rows, count);
        }

        @Override
        public void decided(Object tag, long start, long outcome) {
            answers.incrementAndGet();
            long now = System.nanoTime();
            longestSilence.accumulateAndGet(now - lastAnswer, Math::max);
            lastAnswer = now;
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
