package cedrat.samples.springboot;

/// An account of the bank.
final class Account {
    final String owner;
    long cents;

    Account(String owner, long cents) {
        this.owner = owner;
        this.cents = cents;
    }
}
