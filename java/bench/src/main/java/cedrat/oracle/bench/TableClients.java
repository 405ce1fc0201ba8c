package cedrat.oracle.bench;

import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/// A process of workers over one table. Each transfers money between random accounts, one transaction after the other.
///
/// Like [ClientProcess], it reads the next [Phase] from its standard input, and writes its [Results] to its standard
/// output. At the end it verifies the sum of all balances.
@Command(name = "table-clients")
final class TableClients implements Callable<Integer> {
    private static final long BALANCE = 1_000_000;
    private static final int LOADED_AT_ONCE = 1_000;

    @Option(names = "--system", required = true)
    private String system;

    @Option(names = "--port", description = "0 for systems without a server.")
    private int port;

    @Option(names = "--table", required = true)
    private String table;

    @Option(names = "--create")
    private boolean create;

    @Option(names = "--accounts", required = true)
    private int accounts;

    @Option(names = "--workers", required = true)
    private int workers;

    private volatile Phase phase = Phase.WARM_UP;

    private TableClients() {}

    public static void main(String[] arguments) {
        System.exit(new CommandLine(new TableClients()).execute(arguments));
    }

    @Override
    public Integer call() throws Exception {
        PrintStream output = System.out;
        System.setOut(System.err); // what libraries say is no result
        Results all = new Results();
        try (TableSystem tables =
                (TableSystem) Class.forName(system).getDeclaredConstructor().newInstance()) {
            InetSocketAddress server = port == 0 ? null : new InetSocketAddress("127.0.0.1", port);
            tables.open(server, table, create);
            if (create) {
                load(tables);
            }
            output.write('\n'); // ready
            output.flush();
            List<Results> results = new ArrayList<>();
            List<Thread> threads = new ArrayList<>();
            for (int number = 0; number < workers; number++) {
                Results own = new Results();
                TableSystem.Worker worker = tables.worker();
                SplittableRandom random = new SplittableRandom(number);
                results.add(own);
                threads.add(Thread.ofVirtual().start(() -> work(worker, random, own)));
            }
            listen();
            for (Thread thread : threads) {
                thread.join();
            }
            results.forEach(all::add);
            verify(tables, all);
        }
        try (DataOutputStream out = new DataOutputStream(new BufferedOutputStream(output))) {
            all.write(out);
        }
        return 0;
    }

    private void load(TableSystem tables) throws Exception {
        for (int first = 0; first < accounts; first += LOADED_AT_ONCE) {
            tables.load(first, Math.min(LOADED_AT_ONCE, accounts - first), BALANCE);
        }
    }

    private void work(TableSystem.Worker worker, SplittableRandom random, Results own) {
        try {
            while (phase != Phase.ENDING) {
                long from = random.nextInt(accounts);
                long to = (from + 1 + random.nextInt(accounts - 1)) % accounts;
                long began = System.nanoTime();
                boolean committed = worker.transfer(from, to, random.nextInt(100));
                if (phase == Phase.MEASURING) {
                    own.commits.add(System.nanoTime() - began);
                    own.aborted += committed ? 0 : 1;
                }
            }
        } catch (Exception failed) {
            own.wrong(failed.toString());
        }
    }

    private void listen() throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        while (phase != Phase.ENDING) {
            String word = in.readLine();
            phase = word == null ? Phase.ENDING : Phase.valueOf(word);
        }
    }

    private void verify(TableSystem tables, Results all) throws Exception {
        long wanted = accounts * BALANCE;
        tables.total().ifPresent(total -> {
            if (total != wanted) {
                all.wrong("the balances add up to " + total + ", and not to " + wanted);
            }
        });
    }
}
