package cedrat.samples.debitcredit;

/// Somebody at a counter, with what was paid in there and not out again.
final class Teller {
    final Branch branch;
    long cents;

    Teller(Branch branch) {
        this.branch = branch;
    }
}
