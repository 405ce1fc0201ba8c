package cedrat.oracle.hbase;

import cedrat.oracle.tables.HistoryContract;
import cedrat.oracle.tables.TestStore;
import org.junit.jupiter.api.Tag;

@Tag("services")
class HBaseHistoryTest extends HistoryContract {
    @Override
    protected TestStore store() {
        return HBaseStore.again();
    }
}
