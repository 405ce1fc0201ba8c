package cedrat.oracle.tables;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

/// Over tables in memory; and whether the model would notice if transactions did not do as it does.
class ModelTest extends ModelContract {
    @Override
    protected TestStore store() {
        return TestStore.memory();
    }

    @Test
    void plantedFaultsAreFound() {
        for (Fault planted : List.of(
                Fault.START_FOR_COMMIT,
                Fault.CLEANED_IN_FLIGHT,
                Fault.PRUNE_ABOVE_THE_MARK,
                Fault.FORGET_READS,
                Fault.FORGET_SCANS,
                Fault.FORGET_KEYS,
                Fault.LIMIT_BEFORE_VISIBILITY)) {
            boolean isFound = false;
            for (long seed = 0; seed < 40 && !isFound; seed++) {
                try {
                    Model.run(store(), seed, planted);
                } catch (AssertionError found) {
                    isFound = true;
                }
            }
            assertTrue(isFound, planted.name());
        }
    }
}
