package cedrat.oracle.log;

import cedrat.oracle.log.contract.LogContract;

class VolatileLogTest extends LogContract {
    @Override
    protected Log fresh() {
        return new VolatileLog();
    }
}
