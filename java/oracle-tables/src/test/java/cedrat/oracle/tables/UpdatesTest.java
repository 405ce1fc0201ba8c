package cedrat.oracle.tables;

/// Over tables in memory.
class UpdatesTest extends UpdatesContract {
    @Override
    protected TestStore store() {
        return TestStore.memory();
    }
}
