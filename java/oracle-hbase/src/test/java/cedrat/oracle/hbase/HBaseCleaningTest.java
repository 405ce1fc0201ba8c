package cedrat.oracle.hbase;

import cedrat.oracle.tables.CleaningContract;
import cedrat.oracle.tables.TestStore;
import org.junit.jupiter.api.Tag;

@Tag("services")
class HBaseCleaningTest extends CleaningContract {
    @Override
    protected TestStore store() {
        return HBaseStore.again();
    }
}
