package cedrat.oracle.log.bookkeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.reflect.Proxy;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.bookkeeper.proto.BookieClient;
import org.junit.jupiter.api.Test;

class LedgersTest {
    /// A client of the bookies whose first calls of `close` meet answers.
    private static BookieClient clientAnsweredWhileClosing(int times, AtomicInteger closes) {
        return (BookieClient) Proxy.newProxyInstance(
                LedgersTest.class.getClassLoader(), new Class<?>[] {BookieClient.class}, (proxy, method, arguments) -> {
                    assertEquals("close", method.getName());
                    if (closes.incrementAndGet() <= times) {
                        throw new NullPointerException("an answer arrived");
                    }
                    return null;
                });
    }

    @Test
    void closesDespiteAnAnswerMeanwhile() {
        AtomicInteger closes = new AtomicInteger();
        Ledgers.closeConnections(clientAnsweredWhileClosing(3, closes));
        assertEquals(4, closes.get());
    }

    @Test
    void aCloseThatAlwaysFailsEnds() {
        BookieClient client = clientAnsweredWhileClosing(Integer.MAX_VALUE, new AtomicInteger());
        assertThrows(NullPointerException.class, () -> Ledgers.closeConnections(client));
    }
}
