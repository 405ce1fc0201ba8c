package cedrat.oracle.hbase;

import cedrat.oracle.tables.TestStore;
import cedrat.oracle.tables.UpdatesContract;
import org.junit.jupiter.api.Tag;

@Tag("services")
class HBaseUpdatesTest extends UpdatesContract {
    @Override
    protected TestStore store() {
        return HBaseStore.again();
    }
}
