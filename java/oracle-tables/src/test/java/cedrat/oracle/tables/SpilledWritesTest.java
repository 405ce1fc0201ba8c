package cedrat.oracle.tables;

/// Over tables in memory.
class SpilledWritesTest extends SpilledWritesContract {
    @Override
    protected TestStore store() {
        return TestStore.memory();
    }
}
