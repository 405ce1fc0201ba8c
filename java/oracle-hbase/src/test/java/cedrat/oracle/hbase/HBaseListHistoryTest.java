package cedrat.oracle.hbase;

import cedrat.oracle.tables.ListHistoryContract;
import cedrat.oracle.tables.TestStore;
import org.junit.jupiter.api.Tag;

@Tag("services")
class HBaseListHistoryTest extends ListHistoryContract {
    @Override
    protected TestStore store() {
        return HBaseStore.again();
    }
}
