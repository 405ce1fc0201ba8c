package cedrat.oracle.tables;

class VersionsTest extends VersionsContract {
    @Override
    protected TestStore store() {
        return TestStore.memory();
    }
}
