package cedrat.persist.locking;

import cedrat.persist.Elsewhere;
import cedrat.persist.Transaction;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicInteger;

/// Transactions of two threads: each reads, and changes something by what it has read when both have read.
final class Changes {
    /// A change of what was read.
    interface Write {
        void of(int read);
    }

    private final AtomicInteger attempts = new AtomicInteger();
    private final CyclicBarrier bothHaveRead = new CyclicBarrier(2);

    void run(Callable<Integer> read, Write write) throws Exception {
        AtomicInteger own = new AtomicInteger();
        Transaction.run(() -> {
            Elsewhere.count(attempts);
            Elsewhere.count(own);
            int found = read.call();
            if (own.get() == 1) {
                bothHaveRead.await();
            }
            write.of(found);
        });
    }

    /// How often they were run.
    int attempts() {
        return attempts.get();
    }
}
