package cedrat.persist.nativestore;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.GraphStoreException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

class CallGateTest {
    @Test
    void closeWaitsUntilLastCallEnds() throws Exception {
        CallGate gate = new CallGate();
        gate.enter();
        gate.enter();
        CountDownLatch isClosed = new CountDownLatch(1);
        AtomicBoolean hasWaited = new AtomicBoolean();
        Thread closer = Thread.ofPlatform().start(() -> {
            gate.close();
            isClosed.countDown();
            gate.awaitCalls();
            hasWaited.set(true);
        });
        isClosed.await();
        assertTrue(gate.isClosed());
        assertFalse(gate.tryEnter());
        assertTrue(assertThrows(GraphStoreException.class, gate::enter).isStopped());
        gate.leave();
        awaitWaiting(closer);
        // An interrupted thread waits on, and keeps its interrupt.
        closer.interrupt();
        awaitWaiting(closer);
        assertFalse(hasWaited.get());
        gate.leave();
        closer.join();
        assertTrue(hasWaited.get());
    }

    private static void awaitWaiting(Thread thread) {
        while (thread.getState() != Thread.State.WAITING) {
            assertTrue(thread.isAlive(), "it waits for calls that are under way");
            Thread.onSpinWait();
        }
    }
}
