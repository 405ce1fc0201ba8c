package cedrat.persist.bench;

import java.util.List;

/// Medians.
final class Medians {
    private Medians() {}

    /// The middle one; of an even number the lower of the two in the middle.
    static double of(List<Double> values) {
        return values.stream().sorted().toList().get((values.size() - 1) / 2);
    }
}
