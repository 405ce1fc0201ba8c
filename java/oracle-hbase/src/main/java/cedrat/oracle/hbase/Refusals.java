package cedrat.oracle.hbase;

import cedrat.oracle.tables.TableException;
import java.net.ConnectException;
import java.util.Set;
import org.apache.hadoop.hbase.CallDroppedException;
import org.apache.hadoop.hbase.NotServingRegionException;
import org.apache.hadoop.hbase.RegionTooBusyException;
import org.apache.hadoop.hbase.TableNotEnabledException;
import org.apache.hadoop.hbase.TableNotFoundException;
import org.apache.hadoop.hbase.exceptions.FailedSanityCheckException;
import org.apache.hadoop.hbase.exceptions.RequestTooBigException;
import org.apache.hadoop.hbase.ipc.FailedServerException;
import org.apache.hadoop.hbase.ipc.ServerNotRunningYetException;
import org.apache.hadoop.hbase.quotas.RpcThrottlingException;
import org.apache.hadoop.hbase.regionserver.NoSuchColumnFamilyException;
import org.apache.hadoop.hbase.regionserver.WrongRegionException;
import org.apache.hadoop.hbase.security.AccessDeniedException;

/// Meaning of HBase client failures for a write that was sent once.
///
/// A write with any other failure may have happened, or may still happen: a region server that does not
/// answer may have the request in its queue.
final class Refusals {
    /// The server did not get it, or threw it away unread, or does not have the region: another may take it.
    private static final Set<Class<? extends Throwable>> FOR_NOW = Set.of(
            ConnectException.class,
            FailedServerException.class,
            ServerNotRunningYetException.class,
            NotServingRegionException.class,
            WrongRegionException.class,
            RegionTooBusyException.class,
            CallDroppedException.class, // a queue that is full is one
            RpcThrottlingException.class);

    /// It was looked at, and will not be taken the next time either.
    private static final Set<Class<? extends Throwable>> FOR_GOOD = Set.of(
            IllegalArgumentException.class,
            NoSuchColumnFamilyException.class,
            TableNotFoundException.class,
            TableNotEnabledException.class,
            AccessDeniedException.class,
            FailedSanityCheckException.class,
            RequestTooBigException.class);

    private Refusals() {}

    /// Nothing was done, and it may be sent again.
    static boolean isForNow(Throwable problem) {
        return isCausedBy(problem, FOR_NOW);
    }

    /// Whether the write had no effect, and repeating it cannot succeed.
    static boolean isForGood(Throwable problem) {
        return isCausedBy(problem, FOR_GOOD);
    }

    private static boolean isCausedBy(Throwable problem, Set<Class<? extends Throwable>> kinds) {
        for (Throwable cause = problem; cause != null; cause = cause.getCause()) {
            for (Class<? extends Throwable> kind : kinds) {
                if (kind.isInstance(cause)) {
                    return true;
                }
            }
        }
        return false;
    }

    /// A failure of what changes nothing, or may be done twice.
    static TableException exception(Throwable problem, String what) {
        return new TableException(TableException.Effect.NONE, what + ": " + root(problem), problem);
    }

    /// Returns the root cause, in one line.
    static String root(Throwable problem) {
        Throwable cause = problem;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        String text = cause.toString();
        int end = text.indexOf('\n');
        return end < 0 ? text : text.substring(0, end);
    }
}
