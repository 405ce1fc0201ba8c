package cedrat.oracle.hbase;

import cedrat.oracle.tables.StampsContract;
import cedrat.oracle.tables.TestStore;
import org.junit.jupiter.api.Tag;

@Tag("services")
class HBaseStampsTest extends StampsContract {
    @Override
    protected TestStore store() {
        return HBaseStore.again();
    }
}
