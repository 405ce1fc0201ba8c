package cedrat.oracle.hbase;

import cedrat.oracle.tables.TableException;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Function;

/// Waiting for HBase's client.
final class Calls {
    private Calls() {}

    /// Waits for the answer. Whoever is interrupted waits nevertheless: what was sent may still be done.
    /// HBase's client gives up in the end (`hbase.client.operation.timeout`).
    static <T> T await(CompletableFuture<T> answer, Function<Throwable, TableException> problem) {
        try {
            return answer.join();
        } catch (CompletionException failed) {
            throw problem.apply(failed.getCause() == null ? failed : failed.getCause());
        } catch (CancellationException cancelled) {
            throw problem.apply(cancelled);
        }
    }
}
