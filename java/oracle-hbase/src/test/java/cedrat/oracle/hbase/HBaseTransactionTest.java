package cedrat.oracle.hbase;

import cedrat.oracle.tables.TransactionContract;
import cedrat.oracle.tables.TestStore;

class HBaseTransactionTest extends TransactionContract {
    @Override
    protected TestStore store() {
        return new HBaseStore();
    }
}
