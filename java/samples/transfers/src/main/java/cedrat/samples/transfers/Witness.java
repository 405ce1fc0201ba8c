package cedrat.samples.transfers;

/// Receives the operations of a client on accounts, one transaction after the other, for a checker.
interface Witness {
    /// Ignores all operations.
    Witness NONE = new Witness() {
        @Override
        public void begins() {}

        @Override
        public void tries() {}

        @Override
        public void sees(String account, long transfer) {}

        @Override
        public void changes(String account, long transfer) {}

        @Override
        public void commits() {}
    };

    /// A transaction is about to begin.
    void begins();

    /// It has begun, perhaps again: what it has done before was in vain.
    void tries();

    /// This was the last transfer of an account that it read.
    void sees(String account, long transfer);

    /// This is the last transfer of an account that it writes.
    void changes(String account, long transfer);

    /// It has committed.
    void commits();
}
