package cedrat.samples.debitcredit;

/// What a customer has.
final class Account {
    long cents;
}
