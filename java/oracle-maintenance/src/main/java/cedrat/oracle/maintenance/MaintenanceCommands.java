package cedrat.oracle.maintenance;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.server.OperationHttp;
import cedrat.oracle.server.OracleAddress;
import cedrat.oracle.server.Subcommands;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Optional;
import java.util.SequencedMap;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletionException;
import java.util.stream.Collectors;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/// The subcommands of `cedrat-oracle` that clean and prune tables of HBase.
public final class MaintenanceCommands implements Subcommands {
    /// Found as a service.
    public MaintenanceCommands() {}

    @Override
    public List<Object> commands() {
        return List.of(new Sweep(), new Prune(), new Maintain());
    }

    /// Common part.
    @Command(mixinStandardHelpOptions = true, exitCodeListHeading = "Exit codes:%n")
    private abstract static class Maintaining implements Callable<Integer> {
        /// Requests are repeated after that, so an outage is noticed.
        private static final Duration PATIENCE = Duration.ofSeconds(10);

        @Spec
        CommandSpec spec;

        @Mixin
        private OracleAddress oracle;

        @Mixin
        private HBaseOptions hbase;

        @Option(
                names = "--rows-per-second",
                paramLabel = "N",
                defaultValue = "0",
                description =
                        "Visit so many rows a second at most, which bounds the load of HBase; 0 for no limit (default: ${DEFAULT-VALUE}).")
        long rowsPerSecond;

        @Override
        public final Integer call() {
            if (rowsPerSecond < 0) {
                throw invalid("invalid --rows-per-second " + rowsPerSecond + ": choose 0 or more");
            }
            try {
                return run(opener());
            } catch (IllegalArgumentException nonsense) {
                throw invalid(nonsense.getMessage());
            } catch (IOException | UncheckedIOException problem) {
                spec.commandLine().getErr().println("cedrat-oracle: cannot start: " + problem.getMessage());
                spec.commandLine().getErr().flush();
                return OneRun.EXIT_FAILED;
            }
        }

        ParameterException invalid(String why) {
            return new ParameterException(spec.commandLine(), why);
        }

        boolean namesTables() {
            return !hbase.tables().isEmpty();
        }

        private HBaseStore.Opener opener() throws IOException {
            ClientOptions options = ClientOptions.of(oracle.servers().toArray(InetSocketAddress[]::new))
                    .withPatience(PATIENCE);
            ClientOptions over = oracle.security().tls().map(options::withTls).orElse(options);
            ClientOptions all =
                    oracle.security().credentials().map(over::withCredentials).orElse(over);
            OracleClient.open(all).close(); // so that an unusable file of TLS is an error of the command line
            return new HBaseStore.Opener(all, hbase.configuration(), hbase.namespaces(), hbase.tables());
        }

        abstract int run(Store.Opener opener) throws IOException;

        final OneRun once(Store.Opener opener) {
            return new OneRun(
                    opener,
                    rowsPerSecond,
                    new Waiting.Real(),
                    spec.commandLine().getOut(),
                    spec.commandLine().getErr());
        }
    }

    /// `cedrat-oracle sweep`.
    @Command(
            name = "sweep",
            description =
                    "Cleans the rows of clients that have died, once: committed versions get their commit timestamp, aborted ones are removed. Any number of these commands may run at a time.",
            exitCodeList = {
                "0:all tables were visited",
                "1:the oracle or HBase does not answer; run it again",
                "2:the command is invalid",
                "5:the oracle refuses the command, or a table cannot have transactions; the message says what to do"
            })
    private static final class Sweep extends Maintaining {
        @Option(
                names = "--forget",
                description =
                        "Wait until no write of a dead client can arrive any more (13 minutes), sweep again, and have the oracle forget the outcomes of dead clients. `maintain` does it without a wait.")
        private boolean forgets;

        @Override
        int run(Store.Opener opener) {
            if (forgets && namesTables()) {
                throw invalid("--forget needs a sweep of all tables: leave out --table");
            }
            return once(opener).run(Job.SWEEP, forgets);
        }
    }

    /// `cedrat-oracle prune`.
    @Command(
            name = "prune",
            description =
                    "Removes versions that no transaction can read any more, once. Any number of these commands may run at a time.",
            exitCodeList = {
                "0:all tables were visited",
                "1:the oracle or HBase does not answer; run it again",
                "2:the command is invalid",
                "5:the oracle refuses the command, or a table cannot have transactions; the message says what to do"
            })
    private static final class Prune extends Maintaining {
        @Override
        int run(Store.Opener opener) {
            return once(opener).run(Job.PRUNE, false);
        }
    }

    /// `cedrat-oracle maintain`.
    @Command(
            name = "maintain",
            description =
                    "Sweeps and prunes tables again and again, until it is stopped. It goes on after outages of the oracle and of HBase. Any number of these commands may run at a time.",
            exitCodeList = {
                "1:it cannot start: a file cannot be used, or the address of --metrics is not available; or an unexpected failure",
                "2:the command is invalid",
                "130, 143:a signal stopped it"
            })
    private static final class Maintain extends Maintaining {
        @Option(
                names = "--sweep-every",
                paramLabel = "TIME",
                defaultValue = "1m",
                converter = Times.class,
                description = "The pause between two sweeps, for example 30s (default: ${DEFAULT-VALUE}).")
        private Duration sweepEvery;

        @Option(
                names = "--prune-every",
                paramLabel = "TIME",
                defaultValue = "10m",
                converter = Times.class,
                description = "The pause between two prunings (default: ${DEFAULT-VALUE}).")
        private Duration pruneEvery;

        @Option(names = "--once", description = "Sweep and prune once, and end; the exit codes are those of `sweep`.")
        private boolean isOnce;

        @Option(
                names = "--metrics",
                paramLabel = "HOST:PORT",
                description =
                        "Answer what operators ask over HTTP there: /metrics for Prometheus, /health, /ready. Port 0 for any.")
        private String metrics;

        @Override
        int run(Store.Opener opener) throws IOException {
            if (isOnce) {
                return Math.max(once(opener).run(Job.SWEEP, false), once(opener).run(Job.PRUNE, false));
            }
            SequencedMap<Job, Duration> jobs = new LinkedHashMap<>();
            jobs.put(Job.SWEEP, sweepEvery);
            jobs.put(Job.PRUNE, pruneEvery);
            Service service = new Service(
                    jobs,
                    rowsPerSecond,
                    opener,
                    new Waiting.Real(),
                    Records.LOG,
                    Optional.ofNullable(metrics).map(OperationHttp::address));
            // One line, for a parent process that passed port 0.
            System.out.println("maintaining " + opener.namespaces().stream().collect(Collectors.joining(","))
                    + service.metrics()
                            .map(address -> ", metrics on " + address.getHostString() + ":" + address.getPort())
                            .orElse(""));
            System.out.flush();
            Runtime.getRuntime().addShutdownHook(new Thread(service::close, "end"));
            try {
                service.await();
                return OneRun.EXIT_DONE;
            } catch (CompletionException failed) {
                System.err.println("cedrat-oracle: stopped after a failure: " + failed.getCause());
                return OneRun.EXIT_FAILED;
            }
        }
    }
}
