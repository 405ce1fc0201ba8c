package cedrat.oracle.tables;

/// Over tables in memory.
class CleaningTest extends CleaningContract {
    @Override
    protected TestStore store() {
        return TestStore.memory();
    }
}
