package cedrat.oracle.hbase;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.ConnectException;
import java.util.List;
import org.apache.hadoop.hbase.CallDroppedException;
import org.apache.hadoop.hbase.CallQueueTooBigException;
import org.apache.hadoop.hbase.NotServingRegionException;
import org.apache.hadoop.hbase.RegionTooBusyException;
import org.apache.hadoop.hbase.TableNotEnabledException;
import org.apache.hadoop.hbase.TableNotFoundException;
import org.apache.hadoop.hbase.exceptions.ConnectionClosedException;
import org.apache.hadoop.hbase.exceptions.FailedSanityCheckException;
import org.apache.hadoop.hbase.exceptions.RegionOpeningException;
import org.apache.hadoop.hbase.exceptions.RequestTooBigException;
import org.apache.hadoop.hbase.ipc.CallTimeoutException;
import org.apache.hadoop.hbase.ipc.FailedServerException;
import org.apache.hadoop.hbase.ipc.ServerNotRunningYetException;
import org.apache.hadoop.hbase.quotas.RpcThrottlingException;
import org.apache.hadoop.hbase.regionserver.NoSuchColumnFamilyException;
import org.apache.hadoop.hbase.regionserver.RegionServerAbortedException;
import org.apache.hadoop.hbase.regionserver.WrongRegionException;
import org.apache.hadoop.hbase.security.AccessDeniedException;
import org.junit.jupiter.api.Test;

/// H3: what is known of a write that has failed.
class RefusalsTest {
    private static Throwable wrapped(Throwable cause) {
        return new IOException("several attempts", cause);
    }

    @Test
    void onlyCertainlyRefusedWritesAreRetried() {
        for (Throwable refused : List.of(
                new NotServingRegionException(),
                new RegionOpeningException("soon"),
                new RegionTooBusyException("busy"),
                new WrongRegionException("split"),
                new CallQueueTooBigException(),
                new CallDroppedException(),
                new RpcThrottlingException("too many"),
                new ServerNotRunningYetException("soon"),
                new FailedServerException("a moment ago"),
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
        for (Throwable unfit : List.of(
                new IllegalArgumentException("no row"),
                new NoSuchColumnFamilyException(),
                new TableNotFoundException("t"),
                new TableNotEnabledException("t"),
                new AccessDeniedException("not you"),
                new FailedSanityCheckException(),
                new RequestTooBigException())) {
            assertTrue(Refusals.isForGood(wrapped(unfit)), unfit::toString);
            assertFalse(Refusals.isForNow(wrapped(unfit)), unfit::toString);
        }
    }

    @Test
    void refusalIsOneLine() {
        assertEquals(
                "java.net.ConnectException: refused", Refusals.root(wrapped(new ConnectException("refused\n\tat"))));
    }
}
