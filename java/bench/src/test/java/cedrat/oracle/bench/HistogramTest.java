package cedrat.oracle.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import org.junit.jupiter.api.Test;

class HistogramTest {
    @Test
    void quantilesAreAccurateToThreePercent() {
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
        assertEquals(500, histogram.meanMicros(), 1);
    }

    @Test
    void anotherProcessReadsTheSame() throws IOException {
        Histogram histogram = new Histogram();
        histogram.add(3_000);
        histogram.add(5_000);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        histogram.write(new DataOutputStream(bytes));
        Histogram read = new Histogram();
        read.read(new DataInputStream(new ByteArrayInputStream(bytes.toByteArray())));
        assertEquals(2, read.total());
        assertEquals(4, read.meanMicros());
        assertEquals(5, read.quantileMicros(1), 0.15);
    }
}
