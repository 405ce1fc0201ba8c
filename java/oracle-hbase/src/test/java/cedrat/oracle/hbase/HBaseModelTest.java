package cedrat.oracle.hbase;

import cedrat.oracle.tables.ModelContract;
import cedrat.oracle.tables.TestStore;

class HBaseModelTest extends ModelContract {
    @Override
    protected TestStore store() {
        return new HBaseStore();
    }
}
