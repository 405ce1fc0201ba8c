package cedrat.oracle.hbase;

import cedrat.oracle.tables.TestStore;
import org.junit.jupiter.api.Tag;
import cedrat.oracle.tables.TransactionContract;

@Tag("services")
class HBaseTransactionTest extends TransactionContract {
    @Override
    protected TestStore store() {
        return new HBaseStore();
    }
}
