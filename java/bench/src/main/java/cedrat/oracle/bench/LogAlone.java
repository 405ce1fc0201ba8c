package cedrat.oracle.bench;

import cedrat.bench.figures.Figures;
import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import cedrat.oracle.server.Main;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/// Measures the log in BookKeeper by itself, without an oracle: entries of 1,028 bytes, which the paper writes to
/// BookKeeper 20,000 times a second (ReTSO §3.3).
final class LogAlone {
    private static final int ENTRY_BYTES = 1_028;
    private static final int OUTSTANDING_MAX = 256;
    private static final int WARM_UP_S = 10;
    /// Entries that are not acknowledged yet: one, as many as a server has, and as many as fill the connections.
    private static final int[] OUTSTANDING = {1, 3, OUTSTANDING_MAX};

    private final Logs.Place place;
    private final List<String> jvm;

    /// A measurement of a log that does not exist yet, in a process with these arguments for its virtual machine.
    LogAlone(Logs.Place place, List<String> jvm) {
        this.place = place;
        this.jvm = jvm;
    }

    /// Appends for so many seconds, and adds the figures.
    void measure(int seconds, Figures figures) throws IOException, InterruptedException {
        Child.run(new Child.Program(jvm, Main.class.getName()), place.initialise());
        for (int outstanding : OUTSTANDING) {
            List<String> arguments = List.of(place.kind(), place.where(), "" + outstanding, "" + seconds);
            try (Child child = new Child(new Child.Program(jvm, Appends.class.getName()), arguments)) {
                Histogram times = new Histogram();
                double elapsed;
                try (DataInputStream in = child.output()) {
                    elapsed = in.readDouble();
                    times.read(in);
                }
                Map<String, Object> params = new LinkedHashMap<>();
                params.put("log", place.kind());
                params.put("entry_bytes", ENTRY_BYTES);
                params.put("outstanding", outstanding);
                figures.add("log", params, "entries_per_s", times.total() / elapsed, "1/s");
                figures.add("log", params, "p50_us", times.quantileMicros(0.5), "us");
                figures.add("log", params, "p99_us", times.quantileMicros(0.99), "us");
            }
        }
    }

    /// The process that appends.
    static final class Appends implements Log.Replay, Log.Listener {
        private final Semaphore free;
        /// The time of each append that is not acknowledged yet, by the entry's number.
        private final long[] appendedAt = new long[OUTSTANDING_MAX];
        private final Histogram times = new Histogram();
        private volatile Exception failure;
        private volatile boolean isMeasuring;
        private long last;

        private Appends(int outstanding) {
            free = new Semaphore(outstanding);
        }

        /// The kind of the log, where it is, how many entries are outstanding, and for how many seconds.
        public static void main(String[] arguments) throws IOException, DamagedEntryException, InterruptedException {
            int outstanding = Integer.parseInt(arguments[2]);
            Appends appends = new Appends(outstanding);
            double elapsed;
            try (Log log = Logs.open(arguments[0], arguments[1])) {
                log.open(appends, appends);
                appends.append(log, WARM_UP_S);
                appends.free.acquire(outstanding);
                appends.free.release(outstanding);
                appends.isMeasuring = true;
                elapsed = appends.append(log, Integer.parseInt(arguments[3]));
                appends.isMeasuring = false;
            }
            try (DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out))) {
                out.writeDouble(elapsed);
                appends.times.write(out);
            }
        }

        /// Returns the seconds that it has taken.
        private double append(Log log, int seconds) throws IOException, InterruptedException {
            byte[] entry = new byte[ENTRY_BYTES];
            long begin = System.nanoTime();
            long until = begin + TimeUnit.SECONDS.toNanos(seconds);
            long now = begin;
            for (long number = last + 1; now < until; number++) {
                free.acquire();
                if (failure != null) {
                    throw new IOException("the log has failed", failure);
                }
                now = System.nanoTime();
                // Before the append, which may acknowledge the entry itself.
                appendedAt[(int) (number % OUTSTANDING_MAX)] = now;
                if (log.append(entry, 0, entry.length) != number) {
                    throw new IOException("entry " + number + " got another number");
                }
            }
            return (now - begin) / 1e9;
        }

        @Override
        public void entry(byte[] bytes, int from, int length) {
            last++;
        }

        @Override
        public void acknowledged(long number) {
            long now = System.nanoTime();
            int count = (int) (number - last);
            while (last < number) {
                last++;
                if (isMeasuring) {
                    times.add(now - appendedAt[(int) (last % OUTSTANDING_MAX)]);
                }
            }
            free.release(count);
        }

        @Override
        public void failed(Exception cause) {
            failure = cause;
            free.release(OUTSTANDING_MAX); // for a thread that waits
        }
    }
}
