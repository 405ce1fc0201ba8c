package cedrat.oracle.server;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.prometheus.metrics.config.EscapingScheme;
import io.prometheus.metrics.expositionformats.PrometheusTextFormatWriter;
import io.prometheus.metrics.model.snapshots.MetricSnapshots;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
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
    private static final int BACKLOG = 16;

    private static final int OK = 200;
    private static final int NOT_FOUND = 404;
    private static final int METHOD_NOT_ALLOWED = 405;
    private static final int UNAVAILABLE = 503;

    private record Answer(int code, String type, byte[] body) {}

    private interface Question {
        Answer answer() throws IOException;
    }

    private final Health health;
    private final HttpServer http;
    private final ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor();
    private final PrometheusTextFormatWriter writer =
            PrometheusTextFormatWriter.builder().build();
    private volatile OracleServer server;

    /// Listens on this address; port 0 for any free port. There is no server of clients yet.
    ///
    /// @throws IOException if the address is not available
    public OperationServer(InetSocketAddress listen, Health health) throws IOException {
        this.health = health;
        try {
            http = HttpServer.create(listen, BACKLOG);
        } catch (IOException taken) {
            threads.close();
            throw new IOException("cannot listen on " + listen + " for metrics: " + taken.getMessage(), taken);
        }
        http.setExecutor(threads);
        serve("/metrics", this::metrics);
        serve("/health", () -> health(false));
        serve("/ready", () -> health(true));
        http.start();
    }

    /// Returns the address that it listens on.
    public InetSocketAddress address() {
        return http.getAddress();
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

    private void serve(String path, Question question) {
        http.createContext(path, exchange -> {
            try (exchange) {
                send(exchange, path, question);
            }
        });
    }

    private static void send(HttpExchange exchange, String path, Question question) throws IOException {
        Answer answer;
        if (!exchange.getRequestURI().getPath().equals(path)) {
            answer = text(NOT_FOUND, "unknown path: choose /metrics, /health or /ready\n");
        } else if (!exchange.getRequestMethod().equals("GET")) {
            answer = text(METHOD_NOT_ALLOWED, "only the method GET is possible\n");
        } else {
            answer = question.answer();
        }
        exchange.getResponseHeaders().set("Content-Type", answer.type);
        exchange.sendResponseHeaders(answer.code, answer.body.length);
        exchange.getResponseBody().write(answer.body);
    }

    private Answer metrics() throws IOException {
        Health.State state = health.now().state();
        OracleServer serving = server;
        MetricSnapshots snapshots;
        if (serving == null || state != Health.State.SERVING) {
            snapshots = Metrics.of(state);
        } else {
            try {
                snapshots = Metrics.of(state, serving.reading(), serving.connections(), serving.connectionsRefused());
            } catch (TimeoutException silent) {
                return text(UNAVAILABLE, silent.getMessage() + "\n");
            }
        }
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        writer.write(body, snapshots, EscapingScheme.UNDERSCORE_ESCAPING);
        return new Answer(OK, PrometheusTextFormatWriter.CONTENT_TYPE, body.toByteArray());
    }

    private Answer health(boolean mustServe) {
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
        String json = "{\"state\":\"" + now.state().name().toLowerCase(java.util.Locale.ROOT) + "\",\"why\":\""
                + escaped(why) + "\"}\n";
        return new Answer(isWell ? OK : UNAVAILABLE, "application/json", json.getBytes(StandardCharsets.UTF_8));
    }

    private static Answer text(int code, String text) {
        return new Answer(code, "text/plain; charset=utf-8", text.getBytes(StandardCharsets.UTF_8));
    }

    /// As the inside of a string of JSON.
    static String escaped(String text) {
        StringBuilder escaped = new StringBuilder();
        for (char each : text.toCharArray()) {
            if (each == '"' || each == '\\') {
                escaped.append('\\').append(each);
            } else if (each < ' ') {
                escaped.append(String.format("\\u%04x", (int) each));
            } else {
                escaped.append(each);
            }
        }
        return escaped.toString();
    }

    /// A second call does nothing.
    @Override
    public void close() {
        http.stop(0);
        threads.close();
    }
}
