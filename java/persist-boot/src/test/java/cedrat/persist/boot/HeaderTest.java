package cedrat.persist.boot;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Headers of objects, by the layouts and collectors that a virtual machine has.
class HeaderTest {
    private static final int OBJECTS = 10_000;
    private static final int SMALL_HEAP_ROUNDS = 50;

    /// J2e
    @ParameterizedTest
    @ValueSource(
            strings = {
                "-XX:+UseG1GC",
                "-XX:+UseSerialGC",
                "-XX:+UseParallelGC",
                "-XX:+UseZGC",
                "-XX:+UseCompactObjectHeaders",
                "-XX:-UseCompressedOops",
                "-XX:+UseCompactObjectHeaders -XX:+UseZGC",
                "-Xint",
                "-XX:TieredStopAtLevel=1"
            })
    void hashedObjectsAreNeverMissed(String options) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(List.of(options.split(" ")));
        command.addAll(List.of("-Xmx64m", "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED", "-cp"));
        command.add(System.getProperty("java.class.path"));
        command.add(Program.class.getName());
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals("passed\n", said);
        assertEquals(0, process.waitFor());
    }

    static final class Program {
        private Program() {}

        public static void main(String[] arguments) throws InterruptedException {
            check(Header.isKnown(), "the layout is not known");
            List<Object> hashed = new ArrayList<>();
            for (int i = 0; i < OBJECTS; i++) {
                Object object = i % 2 == 0 ? new int[i % 8] : new Object();
                check(!Header.mayHaveHash(object), "a new object has a hash code");
                System.identityHashCode(object);
                hashed.add(object);
            }
            checkLocked(new Object());
            for (int round = 0; round < SMALL_HEAP_ROUNDS; round++) {
                hashed.forEach(object -> check(Header.mayHaveHash(object), "a hash code is missed"));
                collect();
            }
            System.out.println("passed");
        }

        private static void check(boolean isTrue, String what) {
            if (!isTrue) {
                throw new AssertionError(what);
            }
        }

        /// Allocates more than the heap.
        private static void collect() {
            List<byte[]> survivors = new ArrayList<>();
            for (int i = 0; i < 200; i++) {
                byte[] garbage = new byte[100_000];
                if (i % 10 == 0) {
                    survivors.add(garbage);
                }
            }
            check(survivors.size() == 20, "a survivor is missed");
        }

        /// Locked, locked by two threads, and after that.
        private static void checkLocked(Object object) throws InterruptedException {
            System.identityHashCode(object);
            Thread other = Thread.ofPlatform().unstarted(() -> {
                synchronized (object) {
                    check(Header.mayHaveHash(object), "a hash code is missed in a contended monitor");
                    object.notifyAll();
                }
            });
            synchronized (object) {
                check(Header.mayHaveHash(object), "a hash code is missed in a monitor");
                other.start();
                object.wait();
                check(Header.mayHaveHash(object), "a hash code is missed in an inflated monitor");
            }
            other.join();
            check(Header.mayHaveHash(object), "a hash code is missed after a monitor");
        }
    }
}
