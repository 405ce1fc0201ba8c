package cedrat.oracle.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.Test;

class ResultsTest {
    private static final long SECOND = 1_000_000_000;

    /// Only gaps between answers that count, and only long ones, each with its place in time.
    @Test
    void longGapsAreListedAndSerialized() throws IOException {
        Results results = new Results();
        results.answered(SECOND, false);
        results.answered(5 * SECOND, true);
        results.answered(5 * SECOND + Results.GAP_NS, true);
        results.answered(6 * SECOND, true);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        results.write(new DataOutputStream(bytes));
        Results read = Results.read(new DataInputStream(new ByteArrayInputStream(bytes.toByteArray())));
        assertEquals(List.of(new Results.Gap(5 * SECOND + Results.GAP_NS, 6 * SECOND)), read.gaps);
        assertEquals(SECOND - Results.GAP_NS, read.longestGap);
        Results all = new Results();
        all.add(read);
        all.add(read);
        assertEquals(2, all.gaps.size());
    }
}
