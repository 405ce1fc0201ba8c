package cedrat.persist.woven.jdk;

import java.io.InputStream;
import java.io.OutputStream;
import java.util.List;
import java.util.concurrent.AbstractExecutorService;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.random.RandomGenerator;

/// Subclasses of types of the JDK, as an application has them.
final class DerivedTypes {
    private DerivedTypes() {}

    /// Inherits all that it does.
    static final class ListeningQueue extends ConcurrentLinkedQueue<String> {
        private static final long serialVersionUID = 1;
        int heard;

        @Override
        public boolean offer(String text) {
            heard++;
            return heard > 100;
        }

        boolean offerAnyhow(String text) {
            return super.offer(text);
        }
    }

    /// Stores by itself.
    static final class CountingStream extends OutputStream {
        int bytes;

        @Override
        public void write(int number) {
            bytes++;
        }
    }

    /// Inherits the methods that fill arrays.
    static final class OnesStream extends InputStream {
        int read;

        @Override
        public int read() {
            read++;
            return read > 10 ? -1 : 1;
        }
    }

    /// Has the methods of an interface.
    static final class SevenGenerator implements RandomGenerator {
        @Override
        public long nextLong() {
            return 7;
        }

        void fill(byte[] bytes) {
            nextBytes(bytes);
        }
    }

    /// Hands work to itself.
    static final class DirectExecutor extends AbstractExecutorService {
        int executed;

        @Override
        public void execute(Runnable work) {
            executed++;
        }

        @Override
        public void shutdown() {}

        @Override
        public List<Runnable> shutdownNow() {
            return List.of();
        }

        @Override
        public boolean isShutdown() {
            return false;
        }

        @Override
        public boolean isTerminated() {
            return false;
        }

        @Override
        public boolean awaitTermination(long timeout, TimeUnit unit) {
            return false;
        }
    }
}
