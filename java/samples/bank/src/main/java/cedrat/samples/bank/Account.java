package cedrat.samples.bank;

import java.util.ArrayList;
import java.util.List;

/// An account with its balance and its payments. It knows nothing of transactions.
final class Account {
    final String owner;
    private final List<Long> bookings = new ArrayList<>();
    private long cents;

    Account(String owner, long cents) {
        this.owner = owner;
        book(cents);
    }

    /// Adds an amount, which may be negative, and may leave less than nothing.
    void book(long amount) {
        cents += amount;
        bookings.add(amount);
    }

    long cents() {
        return cents;
    }

    /// All amounts from the first on; their sum is what there is.
    List<Long> bookings() {
        return bookings;
    }
}
