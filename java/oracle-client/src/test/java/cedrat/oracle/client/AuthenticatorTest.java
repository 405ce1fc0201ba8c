package cedrat.oracle.client;

import static org.junit.jupiter.api.Assertions.assertNull;

import cedrat.oracle.authentication.Credentials;
import cedrat.oracle.transport.Transport;
import io.netty.channel.EventLoop;
import io.netty.channel.EventLoopGroup;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

class AuthenticatorTest {
    /// The client was closed meanwhile: no request of it waits, and its program sees no failure of a thread.
    @Test
    void evaluationAfterCloseIsForgotten() throws Exception {
        EventLoopGroup loops = Transport.best().loops(1, "closed");
        EventLoop loop = loops.next();
        loops.shutdownGracefully(0, 1, TimeUnit.SECONDS).await();
        AtomicReference<Throwable> uncaught = new AtomicReference<>();
        Thread.UncaughtExceptionHandler before = Thread.getDefaultUncaughtExceptionHandler();
        Thread.setDefaultUncaughtExceptionHandler((thread, failure) -> uncaught.set(failure));
        try {
            Credentials missing = Credentials.tokenWithoutTls(Path.of("no such file"));
            new Authenticator(loop, missing, "localhost", 1000, failure -> {}).begin();
            for (Thread thread : Thread.getAllStackTraces().keySet()) {
                if (thread.getName().equals(Authenticator.THREAD)) {
                    thread.join();
                }
            }
        } finally {
            Thread.setDefaultUncaughtExceptionHandler(before);
        }
        assertNull(uncaught.get());
    }
}
