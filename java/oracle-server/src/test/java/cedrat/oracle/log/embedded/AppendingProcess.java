package cedrat.oracle.log.embedded;

import cedrat.oracle.log.Log;
import java.nio.file.Path;
import java.util.concurrent.Semaphore;

/// A process that appends numbered entries until it is killed, or its log has failed, and prints what becomes
/// of them: `kept NUMBER` for each acknowledgement, `failed TEXT`. With a third argument its disk fails once
/// that many were kept.
final class AppendingProcess {
    private static final int UNDER_WAY_MAX = 20;

    private AppendingProcess() {}

    public static void main(String[] arguments) throws Exception {
        long failsAfter = arguments.length > 1 ? Long.parseLong(arguments[1]) : Long.MAX_VALUE;
        Numbered replayed = new Numbered();
        Semaphore mayAppend = new Semaphore(UNDER_WAY_MAX);
        Semaphore hasFailed = new Semaphore(0);
        try (EmbeddedLog log = new EmbeddedLog(EmbeddedLogTest.options(Path.of(arguments[0])))) {
            log.open(replayed, new Log.Listener() {
                private long before;

                @Override
                public void acknowledged(long number) {
                    System.out.println("kept " + (number - 1));
                    System.out.flush();
                    mayAppend.release((int) (number - before));
                    before = number;
                }

                @Override
                public void failed(Exception cause) {
                    System.out.println("failed " + cause.getMessage());
                    System.out.flush();
                    hasFailed.release();
                    mayAppend.release(UNDER_WAY_MAX);
                }
            });
            for (long number = replayed.next; ; number++) {
                mayAppend.acquire();
                if (hasFailed.tryAcquire()) {
                    break;
                }
                if (number == failsAfter) {
                    letTheDiskFail();
                }
                byte[] entry = Numbered.entry(number);
                log.append(entry, 0, entry.length);
                java.util.Arrays.fill(entry, (byte) 0);
            }
            // Taken, and never acknowledged.
            log.append(new byte[10], 0, 10);
        }
        System.out.println("closed");
    }

    /// From here on each write to the log fails: no file of this process may be longer than a few bytes.
    private static void letTheDiskFail() throws Exception {
        String me = Long.toString(ProcessHandle.current().pid());
        int status = new ProcessBuilder("prlimit", "--pid", me, "--fsize=16:")
                .inheritIO()
                .start()
                .waitFor();
        if (status != 0) {
            throw new AssertionError("prlimit: " + status);
        }
    }
}
