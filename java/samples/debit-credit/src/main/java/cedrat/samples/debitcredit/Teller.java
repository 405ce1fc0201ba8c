package cedrat.samples.debitcredit;

/// A teller, with the sum of the payments in, less those out.
final class Teller {
    final Branch branch;
    long cents;

    Teller(Branch branch) {
        this.branch = branch;
    }
}
