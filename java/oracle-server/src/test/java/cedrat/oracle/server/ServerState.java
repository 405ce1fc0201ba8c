package cedrat.oracle.server;

import cedrat.oracle.state.Lifetime;
import cedrat.oracle.state.Remembered;
import cedrat.oracle.state.StatusOracle;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/// A text of what an oracle remembers, and for whom: its sessions, namespaces, open transactions and outcomes.
final class ServerState {
    private static final int SHOWN_MAX = 50;
    private static final int PART = 1 << 12;

    private final StatusOracle oracle;
    private final Sessions sessions;
    private final List<String> lines = new ArrayList<>();

    private ServerState(StatusOracle oracle, Sessions sessions) {
        this.oracle = oracle;
        this.sessions = sessions;
    }

    /// Returns the text, on the decide thread.
    static String describe(StatusOracle oracle, Sessions sessions) {
        ServerState state = new ServerState(oracle, sessions);
        state.lines.add("newest timestamp " + oracle.newest() + ", low-water mark " + oracle.lowWaterMark() + ", "
                + oracle.open() + " open, " + oracle.halfCommitted() + " committed, " + oracle.halfAborted()
                + " aborted");
        state.addSessions();
        oracle.namespaces(Long.MIN_VALUE, SHOWN_MAX).forEach(each -> state.lines.add(each.toString()));
        state.addOpen();
        state.addOutcomes();
        return String.join("\n", state.lines);
    }

    private void addSessions() {
        sessions.from(0)
                .forEachRemaining(session -> lines.add("session " + name(session.number) + " "
                        + (session.connection == null ? "without connection" : session.connection.channel)
                        + ", silent for "
                        + session.silentTicks + " ticks, ends namespaces " + session.volatileNamespaces));
    }

    private String name(int number) {
        long token = sessions.token(number);
        return number + (token == 0 ? " (over)" : " (" + HexFormat.of().toHexDigits(token) + ")");
    }

    private void addOpen() {
        oracle.forEachOpen(
                1, SHOWN_MAX, (start, session) -> lines.add("open: " + start + " of session " + name(session)));
    }

    /// Adds the number of outcomes of each session: those of sessions that are over wait for a sweep.
    private void addOutcomes() {
        Map<Integer, List<Long>> outcomes = new TreeMap<>();
        Remembered visitor = new Remembered() {
            @Override
            public void identified(long identity) {
                // no outcome
            }

            @Override
            public void restored(long generation) {
                // no outcome
            }

            @Override
            public void used(long namespace) {
                // no outcome
            }

            @Override
            public void pruned(long upTo) {
                lines.add("pruned up to " + upTo);
            }

            @Override
            public void open(long start, long position) {
                // no outcome
            }

            @Override
            public void committed(Lifetime lifetime) {
                aborted(lifetime.start());
            }

            @Override
            public void aborted(long start) {
                outcomes.computeIfAbsent(oracle.session(start), none -> new ArrayList<>())
                        .add(start);
            }
        };
        for (long from = 1; from <= oracle.newest(); ) {
            from = oracle.tell(from, oracle.newest(), PART, visitor);
        }
        outcomes.forEach((session, starts) -> lines.add(starts.size() + " outcomes of session " + name(session)
                + (oracle.isLeft(starts.getFirst()) ? ", which wait for a sweep" : "") + ": from " + starts.getFirst()
                + " to " + starts.getLast()));
    }
}
