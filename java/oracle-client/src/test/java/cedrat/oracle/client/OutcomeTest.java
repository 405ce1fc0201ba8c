package cedrat.oracle.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cedrat.oracle.client.Outcome.Visibility;
import cedrat.oracle.protocol.Protocol;
import org.junit.jupiter.api.Test;

class OutcomeTest {
    /// Algorithm 4, and the protocol's numbers.
    @Test
    void outcomesDecideVisibility() {
        StartTimestamp reader = new StartTimestamp(10);
        assertEquals(Visibility.TRUE, Outcome.of(9).visibleTo(reader));
        assertEquals(Visibility.FALSE, Outcome.of(11).visibleTo(reader));
        assertEquals(Visibility.FALSE, Outcome.of(Protocol.ABORTED).visibleTo(reader));
        assertEquals(Visibility.FALSE, Outcome.of(Protocol.OPEN).visibleTo(reader));
        assertEquals(Visibility.RETRY, Outcome.of(Protocol.UNKNOWN).visibleTo(reader));
        for (AbortReason reason : AbortReason.values()) {
            assertEquals(Visibility.FALSE, Outcome.aborted(reason).visibleTo(reader));
            assertEquals(Outcome.of(Protocol.ABORTED), Outcome.aborted(reason), "O3: the same outcome");
        }
        for (long number : new long[] {9, 10, 11, Protocol.ABORTED, Protocol.OPEN, Protocol.UNKNOWN}) {
            boolean isTrue = Outcome.of(number).visibleTo(reader) == Visibility.TRUE;
            assertEquals(Protocol.isCommittedBefore(number, reader.value()), isTrue);
        }
    }
}
