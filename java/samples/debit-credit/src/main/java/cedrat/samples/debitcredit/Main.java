package cedrat.samples.debitcredit;

import cedrat.persist.Store;
import cedrat.samples.debitcredit.Bank.Books;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;

/// `FOLDER THREADS TRANSFERS` opens the bank in a folder, looks whether its books agree, and books so many
/// transfers by so many threads, each of which lasts before the next one of its thread begins.
final class Main {
    private static final int BRANCHES = 4;
    private static final long CENTS_MAX = 100_000;
    private static final int SAID_EACH = 1_000;

    /// Percentage of the accounts that are kept by the branch of the teller.
    private static final int LOCAL = 85;

    private Main() {}

    /// Opens for a day.
    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 3) {
            System.err.println("FOLDER THREADS TRANSFERS");
            System.exit(2);
        }
        int threads = Integer.parseInt(arguments[1]);
        long transfers = Long.parseLong(arguments[2]);
        try (var store = Store.open(Path.of(arguments[0]))) {
            Bank bank = store.root("bank", Bank.class, () -> new Bank(BRANCHES));
            say("so far", bank.books());
            long begun = System.nanoTime();
            book(bank, threads, transfers);
            double seconds = (System.nanoTime() - begun) / 1e9;
            System.out.printf("%d transfers by %d threads, %.0f a second%n", transfers, threads, transfers / seconds);
            say("now", bank.books());
        }
    }

    private static void say(String when, Books books) {
        System.out.println(when + " " + books.entries() + " transfers of " + books.cents() + " cents; the books agree");
    }

    private static void book(Bank bank, int threads, long transfers) throws Exception {
        AtomicLong begun = new AtomicLong();
        AtomicLong done = new AtomicLong();
        try (ExecutorService clerks = Executors.newFixedThreadPool(threads)) {
            List<Future<?>> shifts = new ArrayList<>();
            for (int clerk = 0; clerk < threads; clerk++) {
                SplittableRandom random = new SplittableRandom(clerk);
                shifts.add(clerks.submit(() -> {
                    while (begun.getAndIncrement() < transfers) {
                        book(bank, random);
                        long count = done.incrementAndGet();
                        if (count % SAID_EACH == 0) {
                            System.out.println(count + " booked");
                        }
                    }
                }));
            }
            for (Future<?> shift : shifts) {
                shift.get();
            }
        }
    }

    private static void book(Bank bank, SplittableRandom random) {
        Teller teller = any(any(bank.branches, random).tellers, random);
        Branch keeper = random.nextInt(100) < LOCAL ? teller.branch : any(bank.branches, random);
        Bank.book(any(keeper.accounts, random), teller, random.nextLong(-CENTS_MAX, CENTS_MAX));
    }

    private static <T> T any(List<T> all, SplittableRandom random) {
        return all.get(random.nextInt(all.size()));
    }
}
