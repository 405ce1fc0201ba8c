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

/// HTTP on a port of its own, by which a process answers operators: `/metrics`, `/health` and `/ready`.
public final class OperationHttp implements AutoCloseable {
    private static final int BACKLOG = 16;

    private static final int OK = 200;
    private static final int NOT_FOUND = 404;
    private static final int METHOD_NOT_ALLOWED = 405;
    private static final int UNAVAILABLE = 503;

    /// Reply to a request.
    ///
    /// @param code the status of HTTP
    /// @param type the type of the content
    /// @param body the content
    public record Answer(int code, String type, String body) {}

    /// Produces the answers; any thread calls, several at a time.
    public interface Answers {
        /// Returns all metrics.
        Answer metrics() throws IOException;

        /// Returns the health; with `mustServe`, whether the process does its work at present.
        Answer health(boolean mustServe) throws IOException;
    }

    private interface Question {
        Answer answer() throws IOException;
    }

    private final HttpServer http;
    private final ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor();

    /// Listens on this address; port 0 for any free port.
    ///
    /// @throws IOException if the address is not available
    public OperationHttp(InetSocketAddress listen, Answers answers) throws IOException {
        try {
            http = HttpServer.create(listen, BACKLOG);
        } catch (IOException taken) {
            threads.close();
            throw new IOException("cannot listen on " + listen + " for metrics: " + taken.getMessage(), taken);
        }
        http.setExecutor(threads);
        serve("/metrics", answers::metrics);
        serve("/health", () -> answers.health(false));
        serve("/ready", () -> answers.health(true));
        http.start();
    }

    /// Returns the address that `HOST:PORT` names.
    ///
    /// @throws IllegalArgumentException if it names none
    public static InetSocketAddress address(String hostAndPort) {
        InetSocketAddress named = ServerAddress.of(hostAndPort);
        return new InetSocketAddress(named.getHostString(), named.getPort());
    }

    /// Returns metrics in the format of Prometheus.
    @SuppressWarnings("exports") // for programs that have Prometheus, too
    public static Answer metrics(MetricSnapshots snapshots) throws IOException {
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        PrometheusTextFormatWriter.builder().build().write(body, snapshots, EscapingScheme.UNDERSCORE_ESCAPING);
        return new Answer(OK, PrometheusTextFormatWriter.CONTENT_TYPE, body.toString(StandardCharsets.UTF_8));
    }

    /// Returns an object of JSON, with the code 200 or 503.
    public static Answer json(boolean isWell, String json) {
        return new Answer(isWell ? OK : UNAVAILABLE, "application/json", json + "\n");
    }

    /// Returns the answer that there is none now, and why.
    public static Answer unavailable(String why) {
        return text(UNAVAILABLE, why + "\n");
    }

    private static Answer text(int code, String text) {
        return new Answer(code, "text/plain; charset=utf-8", text);
    }

    /// Returns the address that it listens on.
    public InetSocketAddress address() {
        return http.getAddress();
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
        byte[] body = answer.body.getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(answer.code, body.length);
        exchange.getResponseBody().write(body);
    }

    /// Returns text as the inside of a string of JSON.
    public static String escaped(String text) {
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
