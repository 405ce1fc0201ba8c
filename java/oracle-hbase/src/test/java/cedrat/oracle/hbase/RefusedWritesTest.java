package cedrat.oracle.hbase;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cedrat.oracle.tables.Bytes;
import cedrat.oracle.tables.Column;
import cedrat.oracle.tables.Granularity;
import cedrat.oracle.tables.Mutation;
import cedrat.oracle.tables.TableException;
import java.io.IOException;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import org.apache.hadoop.hbase.CallQueueTooBigException;
import org.apache.hadoop.hbase.NotServingRegionException;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.AsyncConnection;
import org.apache.hadoop.hbase.client.AsyncTable;
import org.apache.hadoop.hbase.client.AsyncTableBuilder;
import org.apache.hadoop.hbase.client.AsyncTableRegionLocator;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.ipc.CallTimeoutException;
import org.apache.hadoop.hbase.regionserver.NoSuchColumnFamilyException;
import org.junit.jupiter.api.Test;

/// H3: how often a write is sent whose attempts fail.
class RefusedWritesTest {
    private static final Bytes ROW = Bytes.of("a");

    private static final Mutation PUT = new Mutation(
            List.of(new Mutation.Version(Column.of("f", "x"), 7, Bytes.of("x"))),
            List.of(),
            List.of(),
            List.of(7L),
            List.of(),
            List.of());

    /// A connection to an HBase in which changes of rows fail for these reasons, one after the other, and are
    /// done when there is none left.
    private static final class Failing implements InvocationHandler {
        final Queue<Throwable> reasons = new ArrayDeque<>();
        int sent;

        Failing(Throwable... reasons) {
            for (Throwable reason : reasons) {
                this.reasons.add(new IOException("one attempt", reason));
            }
        }

        private <T> T make(Class<T> kind) {
            return kind.cast(Proxy.newProxyInstance(kind.getClassLoader(), new Class<?>[] {kind}, this));
        }

        @Override
        public Object invoke(Object proxy, Method method, Object[] arguments) {
            return switch (method.getName()) {
                case "getTableBuilder", "setMaxAttempts" -> make(AsyncTableBuilder.class);
                case "getTable", "build" -> make(AsyncTable.class);
                case "getRegionLocator" -> make(AsyncTableRegionLocator.class);
                case "getRegionLocation" -> CompletableFuture.completedFuture(null);
                case "mutateRow" -> {
                    sent++;
                    Throwable reason = reasons.poll();
                    yield reason == null
                            ? CompletableFuture.completedFuture(Result.EMPTY_RESULT)
                            : CompletableFuture.failedFuture(reason);
                }
                default -> throw new AssertionError(method);
            };
        }

        void put() {
            new HBaseTable(make(AsyncConnection.class), TableName.valueOf("t"), Granularity.ROW, false)
                    .mutate(ROW, PUT);
        }
    }

    /// O7.
    @Test
    void temporarilyRefusedWriteIsRetried() {
        Failing busy = new Failing(
                new CallQueueTooBigException(), new NotServingRegionException(), new CallQueueTooBigException());
        busy.put();
        assertEquals(4, busy.sent);
    }

    /// O7: it may have been done, or be done later.
    @Test
    void unansweredWriteIsNotRetried() {
        Failing silent = new Failing(new CallQueueTooBigException(), new CallTimeoutException("a minute"));
        TableException problem = assertThrows(TableException.class, silent::put);
        assertEquals(TableException.Effect.UNKNOWN, problem.effect());
        assertEquals(2, silent.sent);
    }

    @Test
    void permanentlyRefusedWriteIsNotRetried() {
        Failing strict = new Failing(new NoSuchColumnFamilyException("no family"));
        TableException problem = assertThrows(TableException.class, strict::put);
        assertEquals(TableException.Effect.NONE, problem.effect());
        assertEquals(1, strict.sent);
    }
}
