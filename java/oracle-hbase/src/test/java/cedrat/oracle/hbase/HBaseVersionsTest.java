package cedrat.oracle.hbase;

import cedrat.oracle.tables.TestStore;
import cedrat.oracle.tables.VersionsContract;
import org.junit.jupiter.api.Tag;

@Tag("services")
class HBaseVersionsTest extends VersionsContract {
    @Override
    protected TestStore store() {
        return HBaseStore.again();
    }
}
