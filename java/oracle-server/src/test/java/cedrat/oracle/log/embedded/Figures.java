package cedrat.oracle.log.embedded;

import cedrat.oracle.log.Log;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.concurrent.Semaphore;

/// How fast the log is, beside a bare synced write of 4 KiB on the same disk: `Figures DIRECTORY [SECONDS]`.
final class Figures {
    private static final int ENTRY_BYTES = 200;

    private Figures() {}

    /// Counts acknowledgements and lets as many entries go on.
    private static final class Window implements Log.Listener, Log.Replay {
        final Semaphore free;
        private long before;
        long tellings;

        Window(int outstanding) {
            free = new Semaphore(outstanding);
        }

        @Override
        public void entry(byte[] bytes, int from, int length) {
            before++;
        }

        @Override
        public void acknowledged(long number) {
            tellings++;
            free.release((int) (number - before));
            before = number;
        }

        @Override
        public void failed(Exception cause) {
            cause.printStackTrace();
            System.exit(1);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[0]);
        double seconds = arguments.length > 1 ? Double.parseDouble(arguments[1]) : 3;
        Files.createDirectories(directory);
        for (int round = 0; round < 3; round++) {
            bare(directory.resolve("bare"), seconds);
            oneAtATime(directory.resolve("one"), seconds);
            for (int outstanding : new int[] {16, 128, 1024, 8192}) {
                many(directory.resolve("many"), outstanding, seconds);
            }
        }
    }

    private static void bare(Path file, double seconds) throws Exception {
        int blocks = 4096;
        Files.write(file, new byte[blocks * 4096]);
        ByteBuffer block = ByteBuffer.allocateDirect(8192).alignedSlice(4096).limit(4096);
        try (FileChannel channel =
                FileChannel.open(file, StandardOpenOption.WRITE, StandardOpenOption.DSYNC, direct())) {
            channel.force(true);
            long[] nanos = new long[1 << 20];
            int count = 0;
            for (long end = System.nanoTime() + (long) (seconds * 1e9);
                    System.nanoTime() < end && count < nanos.length;
                    count++) {
                long began = System.nanoTime();
                channel.write(block.clear().limit(4096), (count % blocks) * 4096L);
                nanos[count] = System.nanoTime() - began;
            }
            tell("bare 4 KiB synced write", nanos, count);
        }
        Files.delete(file);
    }

    /// Past the system's cache; the module that says so is not for modules to rely on.
    private static OpenOption direct() throws ReflectiveOperationException {
        Object[] options = Class.forName("com.sun.nio.file.ExtendedOpenOption").getEnumConstants();
        return (OpenOption) Arrays.stream(options)
                .filter(option -> option.toString().equals("DIRECT"))
                .findFirst()
                .orElseThrow();
    }

    private static void oneAtATime(Path directory, double seconds) throws Exception {
        Window window = new Window(1);
        try (EmbeddedLog log = new EmbeddedLog(new EmbeddedLog.Options(directory, 2L << 30, 0))) {
            log.open(window, window);
            byte[] entry = new byte[ENTRY_BYTES];
            long[] nanos = new long[1 << 20];
            int count = 0;
            long last = 0;
            window.free.acquire();
            for (long end = System.nanoTime() + (long) (seconds * 1e9);
                    System.nanoTime() < end && count < nanos.length;
                    count++) {
                long began = System.nanoTime();
                last = log.append(entry, 0, entry.length);
                window.free.acquire();
                nanos[count] = System.nanoTime() - began;
            }
            log.forgetBefore(last);
            tell("append to acknowledgement, one at a time", nanos, count);
        }
    }

    private static void many(Path directory, int outstanding, double seconds) throws Exception {
        Window window = new Window(outstanding);
        try (EmbeddedLog log = new EmbeddedLog(new EmbeddedLog.Options(directory, 2L << 30, 0))) {
            log.open(window, window);
            byte[] entry = new byte[ENTRY_BYTES];
            long count = 0;
            long inAppend = 0;
            long began = System.nanoTime();
            for (long end = began + (long) (seconds * 1e9); System.nanoTime() < end; count++) {
                window.free.acquire();
                long appending = System.nanoTime();
                long number = log.append(entry, 0, entry.length);
                inAppend += System.nanoTime() - appending;
                if (count % 100_000 == 99_999) {
                    log.forgetBefore(number - 50_000);
                }
            }
            window.free.acquire(outstanding);
            double took = (System.nanoTime() - began) / 1e9;
            System.out.printf(
                    "%d outstanding: %.0f entries/s, %.1f to a telling, %d ns in append%n",
                    outstanding, count / took, (double) count / window.tellings, inAppend / count);
            log.forgetBefore(window.before);
        }
    }

    private static void tell(String what, long[] nanos, int count) {
        Arrays.sort(nanos, 0, count);
        System.out.printf(
                "%s: p50 %.1f us, p99 %.1f us, %d of them%n",
                what, nanos[count / 2] / 1e3, nanos[count * 99 / 100] / 1e3, count);
    }
}
