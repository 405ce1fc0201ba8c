package cedrat.services;

import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/// Reads the state of servers, over HTTP.
final class Jmx {
    private static final int ANSWER_MS = 5000;

    private Jmx() {}

    /// Returns the bean of this name of a Hadoop-like server, as JSON.
    static String ask(int port, String bean) throws IOException {
        return get(port, "/jmx?qry=" + URLEncoder.encode(bean, StandardCharsets.UTF_8));
    }

    /// Returns the answer to a GET, with its head.
    static String get(int port, String path) throws IOException {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            socket.setSoTimeout(ANSWER_MS);
            String request = "GET " + path + " HTTP/1.0\r\nHost: localhost\r\n\r\n";
            socket.getOutputStream().write(request.getBytes(StandardCharsets.US_ASCII));
            return new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    /// A number in it; -1 where it is missing.
    static long number(String json, String name) {
        Matcher found =
                Pattern.compile('"' + Pattern.quote(name) + "\" *: *(\\d+)").matcher(json);
        return found.find() ? Long.parseLong(found.group(1)) : -1;
    }

    /// A string in it; empty where it is missing.
    static String text(String json, String name) {
        Matcher found = Pattern.compile('"' + Pattern.quote(name) + "\" *: *\"([^\"]*)\"")
                .matcher(json);
        return found.find() ? found.group(1) : "";
    }
}
