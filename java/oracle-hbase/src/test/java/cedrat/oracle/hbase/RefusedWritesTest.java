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
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
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

    /// The change is done, and those after it may fail.
    private static final Throwable DONE = new Throwable();

    /// A connection to an HBase in which changes of rows fail for these reasons, one after the other, and are
    /// done when there is none left.
    private static final class Failing implements InvocationHandler {
        final Queue<Throwable> reasons = new ArrayDeque<>();
        int sent;
        int requests;

        Failing(Throwable... reasons) {
            for (Throwable reason : reasons) {
                this.reasons.add(reason == DONE ? DONE : new IOException("one attempt", reason));
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
                case "batch" -> {
                    requests++;
                    yield ((List<?>) arguments[0]).stream().map(row -> answer()).toList();
                }
                default -> throw new AssertionError(method);
            };
        }

        private CompletableFuture<Result> answer() {
            sent++;
            Throwable reason = reasons.poll();
            return reason == null || reason == DONE
                    ? CompletableFuture.completedFuture(Result.EMPTY_RESULT)
                    : CompletableFuture.failedFuture(reason);
        }

        HBaseTable table() {
            return new HBaseTable(make(AsyncConnection.class), TableName.valueOf("t"), Granularity.ROW, false);
        }

        void put() {
            table().mutate(ROW, PUT);
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

    /// O7: of the rows of one request, each has its own outcome.
    @Test
    void rowsOfOneRequestFailAlone() {
        Failing mixed = new Failing(
                DONE,
                new NotServingRegionException(),
                new CallTimeoutException("a minute"),
                new NoSuchColumnFamilyException("no family"),
                new CallQueueTooBigException());
        Map<Bytes, Mutation> changes = new LinkedHashMap<>();
        for (String row : List.of("done", "repeated", "unknown", "refused")) {
            changes.put(Bytes.of(row), PUT);
        }
        Map<Bytes, TableException> failures = mixed.table().mutate(changes);
        assertEquals(Set.of(Bytes.of("unknown"), Bytes.of("refused")), failures.keySet());
        assertEquals(
                TableException.Effect.UNKNOWN, failures.get(Bytes.of("unknown")).effect());
        assertEquals(
                TableException.Effect.NONE, failures.get(Bytes.of("refused")).effect());
        assertEquals(3, mixed.requests, "one for all rows, and two more for the one that is repeated");
        assertEquals(6, mixed.sent);
    }

    @Test
    void largeValuesAreSentInParts() {
        Mutation large = new Mutation(
                List.of(new Mutation.Version(Column.of("f", "x"), 7, Bytes.of(new byte[3 << 20]))),
                List.of(),
                List.of(),
                List.of(7L),
                List.of(),
                List.of());
        Failing none = new Failing();
        assertEquals(Map.of(), none.table().mutate(Map.of(Bytes.of("a"), large, Bytes.of("b"), large)));
        assertEquals(2, none.requests);
    }
}
