package cedrat.persist.bench.bank;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.ServiceLoader;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.StreamSupport;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/// One point of the figure, in a process of its own: it fills a bank, warms up, measures, opens the bank again
/// and compares. It prints commits per second.
@Command(name = "run")
public final class Run implements Callable<Integer> {
    /// A file of this name in the directory is made when the measurement begins, and another when it has ended:
    /// a tracer of system calls sees it.
    public static final String BEGINS = "measurement-begins";
    /// As above.
    public static final String ENDS = "measurement-ends";

    @Option(names = "--engine", required = true)
    private String engine;

    @Option(names = "--directory", required = true)
    private Path directory;

    @Option(names = "--threads", required = true)
    private int threads;

    @Option(names = "--durable")
    private boolean isDurable;

    @Option(names = "--seconds", required = true)
    private double seconds;

    private Run() {}

    /// Measures.
    public static void main(String[] arguments) {
        System.exit(new CommandLine(new Run()).execute(arguments));
    }

    /// Results of a thread.
    private record Done(long measured, long transfers, long sum) {}

    @Override
    public Integer call() throws Exception {
        Engine found = engine.startsWith(RawLog.NAME) ? RawLog.of(engine) : engine(engine);
        Path home = Files.createDirectory(directory.resolve("bank"));
        Balances before;
        try (Engine.Bank bank = found.open(home, isDurable)) {
            before = bank.balances();
        }
        check("a new bank", Balances.of(0, 0), before);
        long measured = 0;
        long transfers = 0;
        long sum = 0;
        try (Engine.Bank bank = found.open(home, isDurable)) {
            for (Done done : work(bank)) {
                measured += done.measured;
                transfers += done.transfers;
                sum += done.sum;
            }
            System.out.println(measured / seconds);
        }
        if (found.isLasting()) {
            try (Engine.Bank bank = found.open(home, isDurable)) {
                check("the reopened bank", Balances.of(sum, transfers), bank.balances());
            }
        }
        return 0;
    }

    private static Engine engine(String name) {
        if (name.startsWith(Cedrat.NAME)) {
            return Cedrat.of(name);
        }
        return StreamSupport.stream(ServiceLoader.load(Engine.class).spliterator(), false)
                .filter(candidate -> candidate.name().equals(name))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("there is no engine " + name));
    }

    private static void check(String what, Balances expected, Balances found) throws IOException {
        if (!expected.equals(found)) {
            throw new IOException(what + " has " + found + " instead of " + expected);
        }
    }

    private List<Done> work(Engine.Bank bank) throws Exception {
        AtomicInteger phase = new AtomicInteger();
        CountDownLatch warm = new CountDownLatch(threads);
        ExecutorService executor = Executors.newFixedThreadPool(threads);
        List<Future<Done>> all = new ArrayList<>();
        try (executor) {
            for (int thread = 0; thread < threads; thread++) {
                SplittableRandom random = new SplittableRandom(thread + 1);
                all.add(executor.submit(() -> {
                    warm.countDown();
                    return work(bank, random, phase);
                }));
            }
            warm.await();
            // The length of the measurement.
            Thread.sleep((long) (1000 * seconds / 2));
            Files.createFile(directory.resolve(BEGINS));
            phase.set(1);
            long began = System.nanoTime();
            Thread.sleep((long) (1000 * seconds));
            phase.set(2);
            seconds = (System.nanoTime() - began) / 1e9;
            Files.createFile(directory.resolve(ENDS));
        }
        List<Done> done = new ArrayList<>();
        for (Future<Done> one : all) {
            try {
                done.add(one.get());
            } catch (ExecutionException e) {
                throw e.getCause() instanceof Exception cause ? cause : e;
            }
        }
        return done;
    }

    private static Done work(Engine.Bank bank, SplittableRandom random, AtomicInteger phase) throws Exception {
        long measured = 0;
        long transfers = 0;
        long sum = 0;
        for (int now = 0; now != 2; now = phase.get()) {
            Transfer transfer = Transfer.next(random);
            bank.transact(transfer);
            transfers++;
            measured += now;
            sum += transfer.amount();
        }
        return new Done(measured, transfers, sum);
    }
}
