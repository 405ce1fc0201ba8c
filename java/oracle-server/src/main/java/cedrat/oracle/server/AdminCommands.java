package cedrat.oracle.server;

import cedrat.oracle.log.Log;
import cedrat.oracle.protocol.AdminKind;
import java.io.IOException;
import java.io.PrintWriter;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;
import picocli.CommandLine.TypeConversionException;

/// The commands of `cedrat-oracle` that ask a running server. Each line of their output consists of keys and values,
/// separated by blanks.
final class AdminCommands {
    private static final int EXIT_FAILED = 1;

    private AdminCommands() {}

    /// Adds the commands to `cedrat-oracle`.
    static CommandLine addTo(CommandLine command) {
        return command.addSubcommand(new Status())
                .addSubcommand(new Sessions())
                .addSubcommand(new Oldest())
                .addSubcommand(new Kick())
                .addSubcommand(new Retire())
                .addSubcommand(new BackupCommand());
    }

    /// Numbers of [AdminKind#STATE] by their place.
    private enum State {
        LOG,
        TIMEOUT_MS,
        TICKS,
        SESSIONS,
        NEWEST,
        T_MAX,
        LOW_WATER,
        OPEN,
        HALF_ABORTED,
        HALF_COMMITTED,
        OUTCOME_BYTES,
        SPILLED,
        NAMESPACES,
        LOG_LAG;

        long of(long[] entry) {
            return entry[ordinal()];
        }
    }

    /// Common part: connects, asks, and prints.
    @Command(
            mixinStandardHelpOptions = true,
            exitCodeListHeading = "Exit codes:%n",
            exitCodeList = {
                "0:it was done",
                "1:no oracle serves there, or it does not answer, or it does not know what was named",
                "2:the command is invalid"
            })
    abstract static class Asking implements Callable<Integer> {
        @Spec
        CommandSpec spec;

        @Mixin
        private OracleAddress oracle;

        @Option(
                names = "--timeout-ms",
                paramLabel = "MS",
                defaultValue = "5000",
                description = "Wait so long for a connection and for each reply (default: ${DEFAULT-VALUE}).")
        private int timeoutMs;

        @Override
        public final Integer call() {
            List<InetSocketAddress> addresses = oracle.servers();
            if (timeoutMs <= 0) {
                throw new ParameterException(
                        spec.commandLine(), "invalid --timeout-ms " + timeoutMs + ": choose 1 or more");
            }
            PrintWriter out = spec.commandLine().getOut();
            try (AdminConnection connection = AdminConnection.open(addresses, oracle.security(), timeoutMs)) {
                run(connection, out);
                return 0;
            } catch (IOException problem) {
                failed(out);
                spec.commandLine().getErr().println("cedrat-oracle: " + problem.getMessage());
                return EXIT_FAILED;
            } finally {
                out.flush();
                spec.commandLine().getErr().flush();
            }
        }

        abstract void run(AdminConnection server, PrintWriter out) throws IOException;

        /// Prints what there is to say if the server cannot be asked.
        void failed(PrintWriter out) {}
    }

    /// A number in hexadecimal digits.
    private static final class Hexadecimal implements ITypeConverter<Long> {
        Hexadecimal() {}

        @Override
        public Long convert(String digits) {
            try {
                return Long.parseUnsignedLong(digits, 16);
            } catch (NumberFormatException invalid) {
                throw new TypeConversionException("invalid number " + digits + ": write up to 16 hexadecimal digits");
            }
        }
    }

    private static String hex(long number) {
        return HexFormat.of().toHexDigits(number);
    }

    private static List<long[]> sessions(AdminConnection server) throws IOException {
        List<long[]> sessions = server.entries(AdminKind.SESSIONS, 0, Integer.MAX_VALUE);
        sessions.removeIf(session -> session[1] == server.session());
        return sessions;
    }

    /// Returns the address of a session's client; `-` if it has no connection.
    private static String address(long[] session) throws IOException {
        if (session == null || session[4] == 0) {
            return "-";
        }
        ByteBuffer bytes =
                ByteBuffer.allocate(2 * Long.BYTES).putLong(session[2]).putLong(session[3]);
        InetAddress host = InetAddress.getByAddress(bytes.array());
        String text = host.getHostAddress();
        return (text.contains(":") ? "[" + text + "]" : text) + ":" + session[4];
    }

    private static List<long[]> namespaces(AdminConnection server) throws IOException {
        List<long[]> namespaces = server.entries(AdminKind.NAMESPACES, Long.MIN_VALUE, Integer.MAX_VALUE);
        namespaces.sort(Comparator.comparingLong(namespace -> namespace[1]));
        return namespaces;
    }

    private static String namespace(long[] namespace, long newest) {
        return "namespace " + hex(namespace[0]) + " sweep-mark " + namespace[1] + " sweep-age "
                + (newest - namespace[1]);
    }

    /// `cedrat-oracle status`.
    @Command(name = "status", description = "Shows the state of the oracle that serves.")
    private static final class Status extends Asking {
        @Override
        void run(AdminConnection server, PrintWriter out) throws IOException {
            long[] state = server.entry(AdminKind.STATE, 0);
            List<long[]> namespaces = namespaces(server);
            Log.Kind[] kinds = Log.Kind.values();
            long kind = State.LOG.of(state);
            Log.Kind log = kind > 0 && kind < kinds.length ? kinds[(int) kind] : Log.Kind.OTHER;
            out.println("serving yes");
            out.println("address " + server.address());
            out.println("log " + log.name().toLowerCase(Locale.ROOT));
            out.println("log-lag-entries " + State.LOG_LAG.of(state));
            out.println("newest-timestamp " + State.NEWEST.of(state));
            out.println("kept-timestamps " + (State.NEWEST.of(state) - State.T_MAX.of(state)));
            out.println("low-water-mark " + State.LOW_WATER.of(state));
            out.println("sessions " + (State.SESSIONS.of(state) - 1)); // besides this one
            out.println("session-timeout-ms " + State.TIMEOUT_MS.of(state));
            out.println("session-timeout-ticks " + State.TICKS.of(state));
            out.println("open-transactions " + State.OPEN.of(state));
            out.println("half-aborted " + State.HALF_ABORTED.of(state));
            out.println("half-committed " + State.HALF_COMMITTED.of(state));
            out.println("outcome-bytes " + State.OUTCOME_BYTES.of(state));
            out.println("spilled " + State.SPILLED.of(state));
            out.println("namespaces " + State.NAMESPACES.of(state));
            for (long[] namespace : namespaces) {
                out.println(namespace(namespace, State.NEWEST.of(state)) + " sessions " + namespace[2]);
            }
        }

        @Override
        void failed(PrintWriter out) {
            out.println("serving no");
        }
    }

    /// `cedrat-oracle sessions`.
    @Command(
            name = "sessions",
            description = "Shows the sessions of clients: name, number, address, open transactions, ticks of silence.")
    private static final class Sessions extends Asking {
        @Override
        void run(AdminConnection server, PrintWriter out) throws IOException {
            Map<Long, Integer> open = new HashMap<>();
            for (long[] transaction : server.entries(AdminKind.OPEN, 1, Integer.MAX_VALUE)) {
                open.merge(transaction[1], 1, Integer::sum);
            }
            for (long[] session : sessions(server)) {
                out.println("session " + hex(session[1]) + " number " + session[0] + " address " + address(session)
                        + " open " + open.getOrDefault(session[1], 0) + " silent-ticks " + session[5]);
            }
        }
    }

    /// `cedrat-oracle oldest`.
    @Command(
            name = "oldest",
            description =
                    "Shows the oldest open transactions, which hold back the low-water mark, and the namespaces that were swept least recently. One that holds back the others has to be swept, or retired, before outcomes of dead clients are forgotten.")
    private static final class Oldest extends Asking {
        @Option(
                names = "--count",
                paramLabel = "N",
                defaultValue = "10",
                description = "Show so many of each (default: ${DEFAULT-VALUE}).")
        private int count;

        @Override
        void run(AdminConnection server, PrintWriter out) throws IOException {
            List<long[]> open = first(server.entries(AdminKind.OPEN, 1, count));
            Map<Long, long[]> sessions = new HashMap<>();
            sessions(server).forEach(session -> sessions.put(session[1], session));
            long newest = State.NEWEST.of(server.entry(AdminKind.STATE, 0)); // last, so that no age is below 0
            for (long[] transaction : open) {
                String session = transaction[1] == 0 ? "-" : hex(transaction[1]);
                out.println("transaction " + transaction[0] + " age " + (newest - transaction[0]) + " session "
                        + session + " address " + address(sessions.get(transaction[1])));
            }
            List<long[]> namespaces = namespaces(server);
            long most = namespaces.isEmpty() ? 0 : namespaces.getLast()[1];
            long least = namespaces.isEmpty() ? 0 : namespaces.getFirst()[1];
            for (long[] namespace : first(namespaces)) {
                boolean holdsBack = namespace[1] == least && least < most;
                out.println(namespace(namespace, newest) + " holds-back " + (holdsBack ? "yes" : "no"));
            }
        }

        private List<long[]> first(List<long[]> all) {
            return new ArrayList<>(all.subList(0, Math.clamp(count, 0, all.size())));
        }
    }

    /// `cedrat-oracle kick`.
    @Command(
            name = "kick",
            description =
                    "Ends a session now, as silence would: its open transactions abort. A client that lives begins a new session.")
    private static final class Kick extends Asking {
        @Parameters(
                paramLabel = "SESSION",
                converter = Hexadecimal.class,
                description = "The name of the session, as `sessions` shows it.")
        private long name;

        @Override
        void run(AdminConnection server, PrintWriter out) throws IOException {
            long[] ended = server.entry(AdminKind.END_SESSION, name);
            if (ended[0] == 0) {
                throw new IOException("cannot end session " + hex(name) + ": the oracle at " + server.address()
                        + " does not know it: `cedrat-oracle sessions` shows the sessions");
            }
            out.println("session " + hex(name) + " ended yes aborted " + ended[1]);
        }
    }

    /// `cedrat-oracle retire`.
    @Command(
            name = "retire",
            description =
                    "Retires a namespace whose tables are dropped, or have moved to another cluster: no sweep of it is awaited any more. No client may commit rows of it afterwards.")
    private static final class Retire extends Asking {
        @Parameters(
                paramLabel = "NAMESPACE",
                converter = Hexadecimal.class,
                description = "The namespace, as `status` shows it.")
        private long number;

        @Override
        void run(AdminConnection server, PrintWriter out) throws IOException {
            List<long[]> found = server.entries(AdminKind.NAMESPACES, number, 1);
            String what = "cannot retire namespace " + hex(number) + ": the oracle at " + server.address();
            if (found.isEmpty() || found.getFirst()[0] != number) {
                throw new IOException(what + " does not know it: `cedrat-oracle status` shows the namespaces");
            }
            if (found.getFirst()[2] > 0) {
                throw new IOException(what + " forgets it at the end of the " + found.getFirst()[2]
                        + " sessions that use it: close their clients");
            }
            server.retire(number);
            out.println("namespace " + hex(number) + " retired yes");
        }
    }
}
