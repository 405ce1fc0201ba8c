package cedrat.samples.debitcredit;

/// Account of a customer.
final class Account {
    long cents;
}
