package cedrat.persist.record;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandleProxies;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.junit.jupiter.api.Test;

class CallersTest {
    /// J5.1: the barriers are asked by the JDK, which runs a handle of theirs, and by this program. What stands between
    /// them and their caller decides nothing.
    @Test
    void changesOfJdkForItselfAreAllowed() throws Exception {
        Map<String, String> map = new ConcurrentHashMap<>();
        String method = "clear()V";
        MethodHandle barrier = MethodHandles.lookup()
                .findVirtual(
                        Recorder.class, "beforeCall", MethodType.methodType(void.class, Object.class, String.class));
        Runnable ofTheJdk = MethodHandleProxies.asInterfaceInstance(
                Runnable.class, MethodHandles.insertArguments(barrier, 0, Recorder.get(), map, method));
        Transactions transactions = Recorder.get().transactions;
        try (ExecutorService thread = Executors.newSingleThreadExecutor()) {
            TransactionLevel transaction = thread.submit(
                            (Callable<TransactionLevel>) () -> transactions.begin(transactions.newOwner()))
                    .get();
            thread.submit(ofTheJdk).get();
            ExecutionException refused = assertThrows(ExecutionException.class, () -> thread.submit(
                            () -> Recorder.get().beforeCall(map, method))
                    .get());
            assertInstanceOf(UnsupportedOperationException.class, refused.getCause());
            thread.submit(transaction::rollback).get();
            assertFalse(transaction.isOpen());
        }
    }
}
