package cedrat.oracle.bench;

import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/// A process of clients, some connections with a [Load] each.
///
/// It reads the next [Phase] from its standard input, a word a line, and writes its results ([Results]) to its
/// standard output when the last transaction has ended.
@Command(name = "clients")
public final class ClientProcess implements Callable<Integer> {
    /// Turns that come by the clock are looked for so often.
    private static final long TURN_MICROS = 500;

    @Option(names = "--peer", required = true)
    private String peer;

    @Option(names = "--host", required = true)
    private String host;

    @Option(names = "--port", required = true)
    private int port;

    @Option(names = "--connections", required = true)
    private int connections;

    @Option(names = "--outstanding", required = true)
    private int outstanding;

    @Option(names = "--outstanding-warm", required = true)
    private int outstandingWarm;

    @Option(names = "--key-space", required = true)
    private long keySpace;

    @Option(names = "--per-second", required = true)
    private double perSecond;

    @Option(names = "--seed", required = true)
    private long seed;

    @Option(names = "--keep")
    private boolean keep;

    private volatile Phase phase = Phase.WARM_UP;

    ClientProcess() {}

    /// The process.
    public static void main(String[] arguments) {
        System.exit(new CommandLine(new ClientProcess()).execute(arguments));
    }

    @Override
    public Integer call() throws Exception {
        Results results = new Results();
        CountDownLatch ended = new CountDownLatch(connections);
        Load.Wanted wanted = new Load.Wanted(outstanding, outstandingWarm, keySpace, perSecond / connections, keep);
        Peer system = (Peer) Class.forName(peer).getDeclaredConstructor().newInstance();
        List<Runnable> turns = new ArrayList<>();
        for (int number = 0; number < connections; number++) {
            Load load = new Load(wanted, seed + number, () -> phase, results, ended);
            Connection connection = system.connect(new InetSocketAddress(host, port), wanted.workers(), load);
            connection.execute(() -> load.run(connection));
            turns.add(() -> connection.execute(load::turn));
        }
        ScheduledExecutorService clock = Executors.newSingleThreadScheduledExecutor();
        if (perSecond > 0) {
            clock.scheduleAtFixedRate(
                    () -> turns.forEach(Runnable::run), TURN_MICROS, TURN_MICROS, TimeUnit.MICROSECONDS);
        }
        listen();
        ended.await();
        clock.shutdownNow();
        try (DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out))) {
            results.write(out);
        }
        return 0;
    }

    private void listen() throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        while (phase != Phase.ENDING) {
            String word = in.readLine();
            phase = word == null ? Phase.ENDING : Phase.valueOf(word);
        }
    }
}
