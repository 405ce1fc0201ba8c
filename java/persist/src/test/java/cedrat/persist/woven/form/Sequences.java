package cedrat.persist.woven.form;

/// Random sequences of transactions, from the seed `-Dcedrat.seed=…` on; `-Dcedrat.sequences=…` is another number of
// them.
final class Sequences {
    /// A sequence that a seed determines.
    interface Sequence {
        void run(long seed) throws Throwable;
    }

    private Sequences() {}

    /// Runs so many sequences. A failure names the seed.
    static void run(int count, Sequence sequence) {
        long first = Long.getLong("cedrat.seed", 1);
        for (long seed = first; seed < first + Integer.getInteger("cedrat.sequences", count); seed++) {
            try {
                sequence.run(seed);
            } catch (Throwable e) {
                throw new AssertionError("-Dcedrat.seed=" + seed + " -Dcedrat.sequences=1: " + e.getMessage(), e);
            }
        }
    }
}
