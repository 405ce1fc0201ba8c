package cedrat.oracle.server;

import io.prometheus.metrics.model.snapshots.MetricSnapshots;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.Locale;
import java.util.concurrent.TimeoutException;

/// Serves requests of operators, over HTTP on a port of its own.
///
/// | path | answer |
/// |---|---|
/// | `/metrics` | all numbers, for Prometheus |
/// | `/health` | 200 while it starts, waits or serves, else 503; its state and the cause, as JSON |
/// | `/ready` | the same, but 200 only while it serves |
///
/// A server whose decide thread does not answer for a second is not healthy, whatever its recorded state.
public final class OperationServer implements AutoCloseable {
    private final Health health;
    private final OperationHttp http;
    private volatile OracleServer server;

    /// Listens on this address; port 0 for any free port. There is no server of clients yet.
    ///
    /// @throws IOException if the address is not available
    public OperationServer(InetSocketAddress listen, Health health) throws IOException {
        this.health = health;
        http = new OperationHttp(listen, new OperationHttp.Answers() {
            @Override
            public OperationHttp.Answer metrics() throws IOException {
                return OperationServer.this.metrics();
            }

            @Override
            public OperationHttp.Answer health(boolean mustServe) {
                return OperationServer.this.health(mustServe);
            }
        });
    }

    /// Returns the address that it listens on.
    public InetSocketAddress address() {
        return http.address();
    }

    /// This one serves from now on.
    public void serving(OracleServer server) {
        this.server = server;
        health.become(Health.State.SERVING, "clients are answered at " + server.address());
        server.stopped().whenComplete((ended, failure) -> {
            if (failure == null) {
                health.become(Health.State.ENDED, "it was stopped");
            } else {
                health.become(Health.State.FAILED, "stopped after a failure: " + failure);
            }
        });
    }

    private OperationHttp.Answer metrics() throws IOException {
        Health.State state = health.now().state();
        OracleServer serving = server;
        MetricSnapshots snapshots;
        if (serving == null || state != Health.State.SERVING) {
            snapshots = Metrics.of(state);
        } else {
            try {
                snapshots = Metrics.of(
                        state,
                        serving.reading(),
                        serving.connections(),
                        serving.connectionsRefused(),
                        serving.authenticationsFailed());
            } catch (TimeoutException silent) {
                return OperationHttp.unavailable(silent.getMessage());
            }
        }
        return OperationHttp.metrics(snapshots);
    }

    private OperationHttp.Answer health(boolean mustServe) {
        Health.Now now = health.now();
        boolean isWell =
                switch (now.state()) {
                    case SERVING -> true;
                    case STARTING, STANDBY -> !mustServe;
                    case ENDED, FAILED -> false;
                };
        String why = now.why();
        OracleServer serving = server;
        if (now.state() == Health.State.SERVING && serving != null) {
            try {
                serving.reading();
            } catch (TimeoutException silent) {
                isWell = false;
                why = silent.getMessage();
            }
        }
        return OperationHttp.json(
                isWell,
                "{\"state\":\"" + now.state().name().toLowerCase(Locale.ROOT) + "\",\"why\":\""
                        + OperationHttp.escaped(why) + "\"}");
    }

    /// A second call does nothing.
    @Override
    public void close() {
        http.close();
    }
}
