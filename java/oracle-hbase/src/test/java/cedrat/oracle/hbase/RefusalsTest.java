package cedrat.oracle.hbase;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.ConnectException;
import java.util.List;
import org.apache.hadoop.hbase.NotServingRegionException;
import org.apache.hadoop.hbase.RegionTooBusyException;
import org.apache.hadoop.hbase.exceptions.ConnectionClosedException;
import org.apache.hadoop.hbase.exceptions.RegionOpeningException;
import org.apache.hadoop.hbase.ipc.CallTimeoutException;
import org.apache.hadoop.hbase.regionserver.NoSuchColumnFamilyException;
import org.apache.hadoop.hbase.regionserver.RegionServerAbortedException;
import org.junit.jupiter.api.Test;

/// H3: what is known of a write that has failed.
class RefusalsTest {
    private static Throwable wrapped(Throwable cause) {
        return new IOException("several attempts", cause);
    }

    @Test
    void aWriteIsSentAgainOnlyWhereItWasCertainlyRefused() {
        for (Throwable refused : List.of(
                new NotServingRegionException(),
                new RegionOpeningException("soon"),
                new RegionTooBusyException("busy"),
                new ConnectException())) {
            assertTrue(Refusals.isForNow(wrapped(refused)), refused::toString);
            assertFalse(Refusals.isForGood(wrapped(refused)), refused::toString);
        }
        for (Throwable lost : List.of(
                new CallTimeoutException("a minute"),
                new ConnectionClosedException("reset"),
                new RegionServerAbortedException("its log has failed"),
                new IOException("its log has failed"))) {
            assertFalse(Refusals.isForNow(wrapped(lost)), lost::toString);
            assertFalse(Refusals.isForGood(wrapped(lost)), lost::toString);
        }
        assertTrue(Refusals.isForGood(wrapped(new NoSuchColumnFamilyException())));
    }

    @Test
    void theReasonIsToldInOneLine() {
        assertEquals(
                "java.net.ConnectException: refused", Refusals.root(wrapped(new ConnectException("refused\n\tat"))));
    }
}
