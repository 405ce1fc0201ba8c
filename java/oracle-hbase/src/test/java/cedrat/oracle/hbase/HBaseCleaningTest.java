package cedrat.oracle.hbase;

import cedrat.oracle.tables.CleaningContract;
import cedrat.oracle.tables.TestStore;

class HBaseCleaningTest extends CleaningContract {
    @Override
    protected TestStore store() {
        return new HBaseStore();
    }
}
