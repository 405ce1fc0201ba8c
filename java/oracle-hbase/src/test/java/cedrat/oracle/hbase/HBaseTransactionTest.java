package cedrat.oracle.hbase;

import cedrat.oracle.tables.TestStore;
import cedrat.oracle.tables.TransactionContract;
import org.junit.jupiter.api.Tag;

@Tag("services")
class HBaseTransactionTest extends TransactionContract {
    @Override
    protected TestStore store() {
        return HBaseStore.again();
    }
}
