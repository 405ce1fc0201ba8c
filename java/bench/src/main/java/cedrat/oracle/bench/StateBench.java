package cedrat.oracle.bench;

import cedrat.oracle.state.NoDecisions;
import cedrat.oracle.state.Rows;
import cedrat.oracle.state.StatusOracle;
import java.io.PrintStream;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/// How fast the oracle's state machine decides, alone on one thread: no network, no log.
///
/// The paper's workload (ReTSO §4): a transaction begins, and commits 0 to 20 random rows (10 in the mean).
/// Each has as many others beside it as there are clients; who has committed cleans up and begins again.
/// Memory should lie in huge pages (`-XX:+UseTransparentHugePages -XX:+AlwaysPreTouch`): of the map's lines
/// each commit touches ten at random.
@Command(
        name = "state-bench",
        mixinStandardHelpOptions = true,
        description = "Start timestamps and commits a second of the status oracle's state machine, on one thread.")
public final class StateBench implements Callable<Integer> {
    @Option(
            names = "--map-log2",
            defaultValue = "25",
            description = "Rows of the map, as a power of two (${DEFAULT-VALUE}).")
    private int mapLog2;

    @Option(names = "--rows", defaultValue = "20000000", description = "Rows that there are (${DEFAULT-VALUE}).")
    private long rows;

    @Option(names = "--rows-per-commit", defaultValue = "20", description = "At most so many each (${DEFAULT-VALUE}).")
    private int rowsPerCommit;

    @Option(names = "--clients", defaultValue = "1024", description = "Transactions open at a time (${DEFAULT-VALUE}).")
    private int clients;

    @Option(names = "--batch", defaultValue = "1,8", split = ",", description = "Requests at hand (${DEFAULT-VALUE}).")
    private int[] batches;

    @Option(names = "--seconds", defaultValue = "5", description = "Of each measurement (${DEFAULT-VALUE}).")
    private double seconds;

    @Option(names = "--turns", defaultValue = "3", description = "Runs; the median is printed (${DEFAULT-VALUE}).")
    private int turns;

    @Option(names = "--json", description = "One JSON object a line.")
    private boolean json;

    private final PrintStream out;

    StateBench(PrintStream out) {
        this.out = out;
    }

    /// The command.
    public static void main(String[] arguments) {
        System.exit(new CommandLine(new StateBench(System.out)).execute(arguments));
    }

    @Override
    public Integer call() {
        Clients all = new Clients();
        all.run(batches[0], seconds, 2 * mapRows() / Math.max(1, rowsPerCommit / 2)); // warm, and the map full
        double[][] measured = new double[batches.length][turns];
        for (int turn = 0; turn < turns; turn++) {
            for (int at = 0; at < batches.length; at++) {
                measured[at][turn] = all.run(batches[at], seconds, 0);
            }
        }
        for (int at = 0; at < batches.length; at++) {
            Arrays.sort(measured[at]);
            tell(batches[at], "state_commits_per_s", measured[at][turns / 2], "1/s");
        }
        tell(0, "state_aborts_per_million", all.aborted * 1e6 / all.done, "1");
        tell(0, "state_rows_kept", (double) all.keptTimestamps() / all.timestampsPerRow(), "rows");
        tell(0, "state_bytes_per_row", (double) all.oracle.rowBytes() / all.oracle.window(), "bytes");
        return 0;
    }

    private long mapRows() {
        return 1L << mapLog2;
    }

    private void tell(int batch, String metric, double value, String unit) {
        String of = batch == 0 ? "" : (json ? ",\"batch\":" : ", batches of ") + batch;
        String line = json
                ? "{\"bench\":\"oracle\",\"system\":\"cedrat\",\"params\":{\"part\":\"state\",\"map_log2\":%d,\"rows\":%d,"
                        + "\"clients\":%d%s},\"metric\":\"%s\",\"value\":%.3f,\"unit\":\"%s\"}%n"
                : "map of 2^%d rows, %d rows, %d clients%s: %s %.3f %s%n";
        out.printf(Locale.ROOT, line, mapLog2, rows, clients, of, metric, value, unit);
    }

    /// The clients, and the oracle that they ask.
    private final class Clients {
        final StatusOracle oracle = new StatusOracle(mapLog2, new NoDecisions());
        /// The newest of a linear congruential sequence, whose high bits are as random as the load needs. It
        /// takes the least time of all: to draw rows is no part of what is measured.
        long drawn = 1;

        final long[] open = new long[clients];
        final Rows none = new Rows();
        int turn;
        long done;
        long aborted;
        long put;

        Clients() {
            for (int client = 0; client < clients; client++) {
                open[client] = oracle.begin(1);
            }
        }

        /// Commits a second; for so many seconds, and at least so many commits.
        double run(int batch, double seconds, long least) {
            Rows[] wanted = new Rows[batch];
            for (int at = 0; at < batch; at++) {
                wanted[at] = new Rows();
            }
            long started = System.nanoTime();
            long before = done;
            while (done - before < least || System.nanoTime() - started < seconds * 1e9) {
                for (int round = 0; round < 1_000; round += batch) {
                    commit(wanted);
                }
            }
            return (done - before) * 1e9 / (System.nanoTime() - started);
        }

        private void commit(Rows[] wanted) {
            for (Rows each : wanted) {
                each.clear();
                for (long count = draw(rowsPerCommit + 1); count > 0; count--) {
                    each.add(draw(rows));
                }
                oracle.expect(each);
            }
            for (Rows each : wanted) {
                long start = open[turn];
                if (oracle.commit(start, each, none) == StatusOracle.ABORTED) {
                    aborted++;
                } else {
                    put += each.count();
                }
                oracle.cleaned(start);
                open[turn] = oracle.begin(1);
                turn = turn + 1 == clients ? 0 : turn + 1;
                done++;
            }
        }

        private long draw(long below) {
            drawn = drawn * 0x5851_f42d_4c95_7f2dL + 0x1405_7b7e_f767_814fL;
            return Math.unsignedMultiplyHigh(drawn, below);
        }

        /// Timestamps between T_max and now.
        long keptTimestamps() {
            return oracle.newest() - oracle.forgottenTimestamp();
        }

        double timestampsPerRow() {
            return (double) oracle.newest() / put;
        }
    }
}
