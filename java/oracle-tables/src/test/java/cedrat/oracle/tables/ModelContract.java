package cedrat.oracle.tables;

import org.junit.jupiter.api.Test;

/// Whether transactions do as the model does.
public abstract class ModelContract {
    private static final int SEEDS = 40;

    /// For those who have a store.
    protected ModelContract() {}

    /// A fresh store.
    protected abstract TestStore store();

    @Test
    void transactionsDoAsTheModelDoes() {
        long seeds = SEEDS;
        for (long seed = 0; seed == 0 || seed < seeds; seed++) {
            TestStore store = store();
            seeds = SEEDS / store.scale();
            long which = seed;
            try {
                Model.run(store, seed, Fault.NONE);
            } catch (AssertionError different) {
                throw new AssertionError("seed " + which, different);
            }
        }
    }
}
