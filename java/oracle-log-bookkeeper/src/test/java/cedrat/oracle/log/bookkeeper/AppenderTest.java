package cedrat.oracle.log.bookkeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.bookkeeper.HeldLedgers.Step;
import cedrat.oracle.log.contract.RecordingListener;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// Entries while ledgers fill, fail and are deleted, step by step. [BookKeeperLogTest] covers a real
/// BookKeeper.
@Timeout(60)
class AppenderTest {
    /// The third entry fills a ledger.
    private static final int LEDGER_BYTES = 3 * Long.BYTES;

    private static final int ENDLESS = 1 << 20;

    private final HeldLedgers ledgers = new HeldLedgers();
    private final RecordingListener listener = new RecordingListener();

    private Appender appender(int ledgerBytesMax) throws IOException {
        return new Appender(ledgers, ledgers, List.of(), 0, ledgerBytesMax, listener);
    }

    private static void append(Appender appender, long from, long to) {
        for (long number = from; number <= to; number++) {
            byte[] bytes = ByteBuffer.allocate(Long.BYTES).putLong(number).array();
            assertEquals(number, appender.append(bytes, 0, bytes.length));
        }
    }

    // ---- K1 and K2: ledgers that fill -------------------------------------------------------------------------------

    /// K1: the next ledger gets nothing before all of this one is acknowledged, and then what waits.
    @Test
    void fullLedgerIsReplacedAfterAllAcknowledgements() throws Exception {
        Appender appender = appender(LEDGER_BYTES);
        append(appender, 1, 3);
        ledgers.awaitList(List.of(), List.of(1L, 2L));
        appender.settle();
        append(appender, 4, 5);
        assertEquals(List.of(1L, 2L, 3L), ledgers.entries(1));
        ledgers.acknowledge(1, 0, 2);
        assertEquals(List.of(), ledgers.entries(2), "K1");
        assertEquals(2, listener.newest());
        ledgers.acknowledge(1, 2, 3);
        assertEquals(List.of(4L, 5L), ledgers.entries(2));
        assertTrue(ledgers.isClosed(1));
        ledgers.acknowledge(2, 0, 2);
        assertEquals(List.of(1L, 2L, 3L, 4L, 5L), listener.acknowledged());
        appender.close();
    }

    /// K2: while the next ledger is not in the list, entries go to this one, or wait.
    @Test
    void ledgerGetsEntriesOnlyOnceListed() throws Exception {
        Appender appender = appender(LEDGER_BYTES);
        ledgers.hold(Step.CHANGE);
        append(appender, 1, 3);
        ledgers.awaitReached(Step.CHANGE);
        append(appender, 4, 5);
        ledgers.acknowledge(1, 0, 5);
        assertEquals(List.of(1L, 2L, 3L, 4L, 5L), ledgers.entries(1));
        assertEquals(List.of(), ledgers.entries(2), "K2");
        ledgers.go(Step.CHANGE);
        ledgers.awaitList(List.of(), List.of(1L, 2L));
        appender.settle();
        append(appender, 6, 6);
        assertEquals(List.of(6L), ledgers.entries(2));
        ledgers.acknowledge(2, 0, 1);
        appender.close();
    }

    /// Also the first ledger must be listed; a server that no longer owns the log gets no ledger.
    @Test
    void appenderFailsIfLedgerCannotBeListed() {
        ledgers.refuseChanges(new ReplacedException("taken", null));
        assertThrows(ReplacedException.class, () -> appender(ENDLESS));
        assertEquals(List.of(), ledgers.list().ledgers());
    }

    // ---- K3: ledgers that fail --------------------------------------------------------------------------------------

    /// K3. Of five entries two are acknowledged when the ledger is closed under us; it holds four for good.
    /// Nothing is said of these before it is sealed and the next one is listed; then they are acknowledged,
    /// and not appended again.
    @Test
    void closedLedgerEntriesAreAcknowledgedNotReappended() throws Exception {
        Appender appender = appender(ENDLESS);
        append(appender, 1, 5);
        ledgers.acknowledge(1, 0, 2);
        ledgers.hold(Step.SEAL);
        ledgers.hold(Step.CREATE);
        ledgers.hold(Step.CHANGE);
        ledgers.sealedBehind(1, 4);
        ledgers.refuse(1, 2);
        append(appender, 6, 6);
        ledgers.awaitReached(Step.SEAL);
        ledgers.acknowledge(1, 3, 4); // whatever the bookies say now
        assertEquals(2, listener.newest(), "K3: it is not sealed");
        ledgers.go(Step.SEAL);
        ledgers.awaitReached(Step.CREATE);
        assertEquals(2, listener.newest(), "K3: another may have the log");
        ledgers.go(Step.CREATE);
        ledgers.awaitReached(Step.CHANGE);
        append(appender, 7, 7);
        assertEquals(2, listener.newest(), "K3: another may have the log");
        assertEquals(List.of(), ledgers.entries(2), "K2");
        ledgers.go(Step.CHANGE);
        appender.settle();
        assertEquals(List.of(1L, 2L, 4L), listener.acknowledged(), "K3: the closed ledger holds them");
        assertEquals(List.of(5L, 6L, 7L), ledgers.entries(2), "K3: each is in one ledger, in its order");
        ledgers.refuse(1, 4); // whatever is heard of that one now
        appender.settle();
        assertEquals(4, listener.newest(), "K3: that ledger is asked no more");
        ledgers.acknowledge(2, 0, 3);
        assertEquals(7, listener.newest());
        assertFalse(listener.wasCalledAfterEnd());
        appender.close();
    }

    /// The same where it holds nothing beyond what was acknowledged, or all there is.
    @Test
    void entriesMissingFromClosedLedgerAreReappended() throws Exception {
        Appender appender = appender(ENDLESS);
        append(appender, 1, 3);
        ledgers.acknowledge(1, 0, 1);
        ledgers.sealedBehind(1, 1);
        ledgers.refuse(1, 1);
        appender.settle();
        assertEquals(List.of(1L), listener.acknowledged());
        assertEquals(List.of(2L, 3L), ledgers.entries(2));
        ledgers.sealedBehind(2, 2);
        ledgers.refuse(2, 0);
        appender.settle();
        assertEquals(List.of(1L, 3L), listener.acknowledged());
        assertEquals(List.of(), ledgers.entries(3));
        ledgers.sealedBehind(3, 0);
        append(appender, 4, 4);
        ledgers.refuse(3, 0);
        appender.settle();
        assertEquals(List.of(4L), ledgers.entries(4), "an empty ledger");
        ledgers.acknowledge(4, 0, 1);
        assertEquals(4, listener.newest());
        appender.close();
    }

    /// O6, K3, L4: the content of the closed ledger belongs to the server that has taken the log meanwhile.
    @Test
    void replacedAppenderAcknowledgesNoClosedEntries() throws Exception {
        Appender appender = appender(ENDLESS);
        append(appender, 1, 2);
        ledgers.sealedBehind(1, 2);
        ledgers.refuseChanges(new ReplacedException("taken", null));
        ledgers.refuse(1, 0);
        assertInstanceOf(ReplacedException.class, listener.awaitFailed());
        appender.settle();
        assertEquals(List.of(), listener.acknowledged(), "K3");
        assertEquals(List.of(), ledgers.entries(2), "K3");
        appender.close();
        assertFalse(listener.wasCalledAfterEnd());
    }

    /// O6.
    /// The same where the next ledger was listed before this one failed: that tells nothing of who has the
    /// log now.
    @Test
    void listedLedgerDoesNotProveOwnership() throws Exception {
        Appender appender = appender(LEDGER_BYTES);
        append(appender, 1, 3);
        ledgers.awaitList(List.of(), List.of(1L, 2L));
        appender.settle();
        append(appender, 4, 4);
        ledgers.sealedBehind(1, 3);
        ledgers.refuseChanges(new ReplacedException("taken", null));
        ledgers.refuse(1, 0);
        assertInstanceOf(ReplacedException.class, listener.awaitFailed());
        appender.settle();
        assertEquals(List.of(), listener.acknowledged(), "K3");
        assertEquals(List.of(), ledgers.entries(2), "K3");
        appender.close();
    }

    /// As its owner it goes on with that one, and does not make a third.
    @Test
    void listedLedgerContinuesAfterLedgerFailure() throws Exception {
        Appender appender = appender(LEDGER_BYTES);
        append(appender, 1, 3);
        ledgers.awaitList(List.of(), List.of(1L, 2L));
        appender.settle();
        append(appender, 4, 4);
        ledgers.sealedBehind(1, 2);
        ledgers.refuse(1, 0);
        appender.settle();
        assertEquals(List.of(2L), listener.acknowledged());
        assertEquals(List.of(3L, 4L), ledgers.entries(2));
        assertEquals(List.of(1L, 2L), ledgers.list().ledgers());
        ledgers.acknowledge(2, 0, 2);
        assertEquals(List.of(2L, 3L, 4L), listener.acknowledged());
        appender.close();
    }

    /// L2: a ledger that has lost what was acknowledged is no ledger to go on from.
    @Test
    void ledgerWithoutAcknowledgedEntriesFailsLog() throws Exception {
        Appender appender = appender(ENDLESS);
        append(appender, 1, 3);
        ledgers.acknowledge(1, 0, 2);
        ledgers.sealedBehind(1, 1);
        ledgers.refuse(1, 2);
        assertTrue(listener.awaitFailed().getCause().getMessage().contains("lacks acknowledged entry"));
        append(appender, 4, 4);
        appender.close();
        assertEquals(List.of(1L, 2L), listener.acknowledged());
        assertEquals(List.of(), ledgers.entries(2));
    }

    /// Where no ledger takes an entry the log ends some day, rather than filling the list with empty ones.
    @Test
    void consecutiveLedgerFailuresFailLog() throws Exception {
        Appender appender = appender(ENDLESS);
        append(appender, 1, 1);
        int ledger = 1;
        for (; !listener.hasFailed(); ledger++) {
            assertTrue(ledger < 100);
            ledgers.sealedBehind(ledger, 0);
            ledgers.refuse(ledger, 0);
            appender.settle();
        }
        assertEquals(12, ledger);
        assertTrue(listener.awaitFailed().getMessage().contains("10 ledgers in a row"));
        appender.close();
    }

    // ---- K5: ledgers that are not closed ----------------------------------------------------------------------------

    private Appender turned() throws Exception {
        Appender appender = appender(LEDGER_BYTES);
        append(appender, 1, 3);
        ledgers.awaitList(List.of(), List.of(1L, 2L));
        appender.settle();
        ledgers.refuseCloses();
        ledgers.hold(Step.SEAL);
        ledgers.acknowledge(1, 0, 3);
        return appender;
    }

    /// K5: the log goes on meanwhile.
    @Test
    void unclosedLedgerIsSealedUntilThatSucceeds() throws Exception {
        ledgers.sealedBehind(1, 3);
        Appender appender = turned();
        ledgers.awaitReached(Step.SEAL);
        append(appender, 4, 4);
        ledgers.acknowledge(2, 0, 1);
        assertEquals(4, listener.newest());
        assertFalse(ledgers.isClosed(1));
        ledgers.fail(Step.SEAL, new IOException("a bookie is away"));
        ledgers.awaitClosed(1);
        appender.settle();
        assertFalse(listener.hasFailed());
        assertThrows(IOException.class, appender::close, "the last one is closed by the next opening");
    }

    /// K5, L2.
    @Test
    void sealedLedgerWithoutAcknowledgedEntriesFailsLog() throws Exception {
        ledgers.sealedBehind(1, 2);
        Appender appender = turned();
        ledgers.awaitReached(Step.SEAL);
        ledgers.go(Step.SEAL);
        assertTrue(listener.awaitFailed().getCause().getMessage().contains("were acknowledged"));
        appender.close();
    }

    // ---- K4: ledgers that go ----------------------------------------------------------------------------------------

    /// K4: a ledger whose entries are all forgotten leaves the list, and only then is deleted.
    @Test
    void ledgerIsDeletedOnlyAfterUnlisting() throws Exception {
        Appender appender = appender(LEDGER_BYTES);
        fill(appender, 3);
        assertThrows(IllegalArgumentException.class, () -> appender.forgetBefore(11));
        appender.forgetBefore(3);
        appender.settle();
        assertEquals(List.of(1L, 2L, 3L, 4L), ledgers.list().ledgers(), "the third entry is wanted");
        ledgers.hold(Step.CHANGE);
        appender.forgetBefore(8);
        ledgers.awaitReached(Step.CHANGE);
        assertEquals(List.of(), ledgers.deleted(), "K4");
        ledgers.go(Step.CHANGE);
        appender.settle();
        assertEquals(List.of(1L, 2L), ledgers.deleted());
        assertEquals(List.of(3L, 4L), ledgers.list().ledgers());
        assertEquals(List.of(), ledgers.list().doomed());
        appender.close();
    }

    /// One that cannot be deleted now is deleted another time, also by the next who has the log.
    @Test
    void undeletedLedgerIsDeletedByNextOpening() throws Exception {
        Appender appender = appender(LEDGER_BYTES);
        fill(appender, 3);
        ledgers.hold(Step.DELETE);
        appender.forgetBefore(4);
        ledgers.awaitReached(Step.DELETE);
        ledgers.fail(Step.DELETE, new IOException("a bookie is away"));
        appender.settle();
        assertEquals(List.of(), ledgers.deleted());
        assertEquals(List.of(1L), ledgers.list().doomed());
        appender.close();
        new Appender(ledgers, ledgers, List.of(), 10, ENDLESS, new RecordingListener()).close();
        assertEquals(List.of(1L), ledgers.deleted());
        assertEquals(List.of(), ledgers.list().doomed());
    }

    /// Fills this number of ledgers with three entries each, and another with one.
    private void fill(Appender appender, int count) throws Exception {
        for (int ledger = 1; ledger <= count; ledger++) {
            append(appender, 3 * ledger - 2, 3 * ledger);
            appender.settle();
            ledgers.acknowledge(ledger, 0, 3);
        }
        append(appender, 3 * count + 1, 3 * count + 1);
        ledgers.acknowledge(count + 1, 0, 1);
        assertEquals(3 * count + 1, listener.newest());
    }
}
