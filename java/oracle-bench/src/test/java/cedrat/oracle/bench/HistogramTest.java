package cedrat.oracle.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class HistogramTest {
    @Test
    void quantilesAreRightToThreeInAHundred() {
        Histogram histogram = new Histogram();
        for (long nanos = 1; nanos <= 1_000_000; nanos++) {
            histogram.add(nanos);
        }
        for (double part : new double[] {0.00001, 0.001, 0.1, 0.5, 0.99, 1}) {
            double exact = part * 1_000;
            assertEquals(exact, histogram.quantileMicros(part), 0.03 * exact + 0.001);
        }
        Histogram sum = new Histogram();
        sum.add(histogram);
        sum.add(Long.MAX_VALUE);
        assertEquals(1_000_001, sum.total());
    }
}
