package cedrat.oracle.hbase;

import cedrat.oracle.tables.ModelContract;
import cedrat.oracle.tables.TestStore;
import org.junit.jupiter.api.Tag;

@Tag("services")
class HBaseModelTest extends ModelContract {
    @Override
    protected TestStore store() {
        return HBaseStore.again();
    }
}
