package cedrat.oracle.bench;

import java.io.BufferedReader;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/// A server in a process of its own, so that its time is told from the client's.
final class ServerProcess implements AutoCloseable {
    private final Process process;
    private final InetSocketAddress address;

    /// Starts a class of this program's class path with these arguments; it says `listening on HOST:PORT`.
    ServerProcess(List<String> jvm, String mainClass, List<String> arguments) throws IOException {
        List<String> command = new ArrayList<>();
        command.add(ProcessHandle.current().info().command().orElseThrow());
        command.add("--enable-native-access=ALL-UNNAMED");
        String library = System.getProperty("cedrat.library");
        if (library != null) {
            command.add("-Dcedrat.library=" + library);
        }
        command.addAll(jvm);
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), mainClass));
        command.addAll(arguments);
        process = new ProcessBuilder(command)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        BufferedReader said = process.inputReader(StandardCharsets.UTF_8);
        String line = said.readLine();
        while (line != null && !line.startsWith("listening on ")) {
            line = said.readLine(); // the virtual machine has something to say
        }
        if (line == null) {
            close();
            throw new IOException("the server has ended before it listened");
        }
        int colon = line.lastIndexOf(':');
        address = new InetSocketAddress(
                line.substring("listening on ".length(), colon), Integer.parseInt(line.substring(colon + 1)));
    }

    InetSocketAddress address() {
        return address;
    }

    /// The processors' time that it has taken.
    Duration time() {
        return process.info().totalCpuDuration().orElse(Duration.ZERO);
    }

    @Override
    public void close() {
        process.destroy();
        try {
            if (!process.waitFor(10, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException interrupted) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }
}
