package cedrat.oracle.tables;

class StampsTest extends StampsContract {
    @Override
    protected TestStore store() {
        return TestStore.memory();
    }
}
