package cedrat.oracle.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

/// Waits for answers.
class OracleClientTest {
    private static final Duration NONE = Duration.ofNanos(1);

    /// A future whose answer arrives just before it is cancelled.
    private static CompletableFuture<String> answeredLate() {
        return new CompletableFuture<>() {
            @Override
            public boolean cancel(boolean mayInterrupt) {
                complete("answer");
                return super.cancel(mayInterrupt);
            }
        };
    }

    @Test
    void answerAtEndOfPatienceIsReturned() {
        assertEquals("answer", OracleClient.await(answeredLate(), NONE, () -> "no answer"));
    }

    @Test
    void answerAtAnInterruptIsReturned() {
        Thread.currentThread().interrupt();
        try {
            assertEquals("answer", OracleClient.await(answeredLate(), Duration.ofDays(1), () -> "no answer"));
        } finally {
            assertTrue(Thread.interrupted(), "the interrupt is kept");
        }
    }

    @Test
    void lateAnswersAreNotAwaited() {
        CompletableFuture<String> future = new CompletableFuture<>();
        String why = assertThrows(UnavailableException.class, () -> OracleClient.await(future, NONE, () -> "no answer"))
                .getMessage();
        assertTrue(why.startsWith("no answer; "), why);
        assertTrue(future.isCancelled());
    }
}
