package cedrat.oracle.tables;

/// Over tables in memory.
class TransactionTest extends TransactionContract {
    @Override
    protected TestStore store() {
        return TestStore.memory();
    }
}
