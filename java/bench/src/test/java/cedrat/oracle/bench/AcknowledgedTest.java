package cedrat.oracle.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import org.junit.jupiter.api.Test;

class AcknowledgedTest {
    private static final int COMMITS = 20_000;
    private static final long[] ROWS = {7, 8, 9};

    /// Commits, from the last to the first or the other way, without one.
    private static Acknowledged without(int missing, boolean backwards) {
        Acknowledged commits = new Acknowledged();
        for (int number = 0; number < COMMITS; number++) {
            int commit = 2 * (backwards ? COMMITS - number : number + 1);
            if (commit != missing) {
                commits.add(commit - 1, commit, ROWS, commit % 4);
            }
        }
        return commits;
    }

    @Test
    void theOrderDoesNotMatter() {
        assertNull(without(0, true).difference(without(0, false), 0));
        assertEquals(COMMITS, without(0, true).count());
    }

    @Test
    void missingAcknowledgementIsNoticed() {
        for (int missing : new int[] {2, 20_000, 40_000}) {
            assertNotNull(without(missing, true).difference(without(0, false), 0));
            assertNotNull(without(0, true).difference(without(missing, false), 0));
        }
    }

    @Test
    void anotherStartOrRowIsSeen() {
        Acknowledged commits = without(20_002, true);
        commits.add(19_999, 20_002, ROWS, 2);
        assertNotNull(commits.difference(without(0, true), 0), "another start");
        commits = without(20_002, true);
        commits.add(20_001, 20_002, new long[] {7, 9}, 2);
        assertNotNull(commits.difference(without(0, true), 0), "another row");
        commits = without(20_002, true);
        commits.add(20_001, 20_002, ROWS, 1);
        assertNotNull(commits.difference(without(0, true), 0), "a row less");
    }

    /// A log that was cut holds no old commits.
    @Test
    void earlierAcknowledgementsAreIgnored() {
        assertNull(without(2, true).difference(without(0, true), 3));
        assertNotNull(without(40_000, true).difference(without(0, true), 3));
    }

    @Test
    void partsOfSeveralProcessesAreOne() throws IOException {
        Acknowledged half = new Acknowledged();
        Acknowledged other = new Acknowledged();
        for (int commit = 2; commit <= 2 * COMMITS; commit += 2) {
            (commit % 3 == 0 ? half : other).add(commit - 1, commit, ROWS, commit % 4);
        }
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        other.write(new DataOutputStream(bytes));
        half.read(new DataInputStream(new ByteArrayInputStream(bytes.toByteArray())));
        assertNull(half.difference(without(0, true), 0));
    }
}
