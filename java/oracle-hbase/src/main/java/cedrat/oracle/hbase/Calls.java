package cedrat.oracle.hbase;

import cedrat.oracle.tables.TableException;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Function;

/// Waiting for HBase's client.
final class Calls {
    private Calls() {}

    /// Waits for the answer, even when interrupted: the request may still be carried out. HBase's client gives up
    /// in the end (`hbase.client.operation.timeout`).
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
