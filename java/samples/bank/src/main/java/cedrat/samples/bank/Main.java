package cedrat.samples.bank;

import cedrat.persist.DeadlockException;
import cedrat.samples.bank.Bank.Payment;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Supplier;
import java.util.stream.IntStream;

/// Threads that pay each other, and wages that are paid together or not at all.
final class Main {
    private static final int ACCOUNTS = 8;
    private static final long CENTS_EACH = 10_000;
    private static final int THREADS = 4;
    private static final int PAYMENTS_EACH = 2_000;

    private Main() {}

    /// Prints what has happened.
    public static void main(String[] arguments) throws Exception {
        List<Account> accounts = IntStream.range(0, ACCOUNTS)
                .mapToObj(number -> new Account("account " + number, CENTS_EACH))
                .toList();
        long before = Bank.total(accounts);
        int made = payEachOther(accounts);
        System.out.println(made + " of " + THREADS * PAYMENTS_EACH + " payments were covered");
        System.out.println("together " + before + " before and " + Bank.total(accounts) + " after");

        Account employer = new Account("employer", 250);
        List<Account> employees = List.of(new Account("Ada", 0), new Account("Grace", 0), new Account("Karen", 0));
        List<Payment> wages = employees.stream()
                .map(employee -> new Payment(employer, employee, 100))
                .toList();
        System.out.println(Bank.payAll(wages, 3) + " wages paid, the employer has " + employer.cents());
        System.out.println(Bank.payAll(wages, 2) + " wages paid, the employer has " + employer.cents());
    }

    /// Payments between random accounts by several threads, with readers among them. Returns how many were
    /// made.
    private static int payEachOther(List<Account> accounts) throws Exception {
        try (ExecutorService threads = Executors.newFixedThreadPool(THREADS)) {
            List<Callable<Integer>> payers = new ArrayList<>();
            for (int seed = 0; seed < THREADS; seed++) {
                SplittableRandom random = new SplittableRandom(seed);
                payers.add(() -> pay(accounts, random));
            }
            int made = 0;
            for (Future<Integer> payer : threads.invokeAll(payers)) {
                made += payer.get();
            }
            return made;
        }
    }

    private static int pay(List<Account> accounts, SplittableRandom random) {
        int made = 0;
        for (int i = 0; i < PAYMENTS_EACH; i++) {
            Payment payment = new Payment(
                    accounts.get(random.nextInt(ACCOUNTS)),
                    accounts.get(random.nextInt(ACCOUNTS)),
                    random.nextLong(CENTS_EACH));
            if (untilItIsNotInTheWay(() -> Bank.pay(payment))) {
                made++;
            }
            if (i % 100 == 0) {
                long total = untilItIsNotInTheWay(() -> Bank.total(accounts));
                if (total != ACCOUNTS * CENTS_EACH) {
                    throw new IllegalStateException("together they have " + total);
                }
            }
        }
        return made;
    }

    /// Runs a top-level transaction again whenever it has given way to another.
    private static <T> T untilItIsNotInTheWay(Supplier<T> transaction) {
        while (true) {
            try {
                return transaction.get();
            } catch (DeadlockException e) {
                // It is rolled back, so that the other one can go on.
            }
        }
    }
}
