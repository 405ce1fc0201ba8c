package cedrat.samples.debitcredit;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;

/// A branch of the bank, with its tellers, the accounts that it keeps, and what was done at its counters.
final class Branch {
    static final int TELLERS = 10;
    static final int ACCOUNTS = 1_000;

    final List<Teller> tellers =
            IntStream.range(0, TELLERS).mapToObj(_ -> new Teller(this)).toList();
    final List<Account> accounts =
            IntStream.range(0, ACCOUNTS).mapToObj(_ -> new Account()).toList();
    final List<Entry> history = new ArrayList<>();
    long cents;

    /// A booking, and its time in milliseconds since 1970.
    record Entry(Account account, Teller teller, long cents, long time) {}
}
