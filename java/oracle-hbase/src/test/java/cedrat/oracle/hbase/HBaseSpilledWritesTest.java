package cedrat.oracle.hbase;

import cedrat.oracle.tables.SpilledWritesContract;
import cedrat.oracle.tables.TestStore;
import org.junit.jupiter.api.Tag;

@Tag("services")
class HBaseSpilledWritesTest extends SpilledWritesContract {
    @Override
    protected TestStore store() {
        return HBaseStore.again();
    }
}
