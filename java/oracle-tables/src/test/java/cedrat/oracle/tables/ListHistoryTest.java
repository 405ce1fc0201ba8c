package cedrat.oracle.tables;

/// Over tables in memory.
class ListHistoryTest extends ListHistoryContract {
    @Override
    protected TestStore store() {
        return TestStore.memory();
    }
}
