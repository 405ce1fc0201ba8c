package cedrat.oracle.bench;

import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.Writer;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/// A process of its own for a server or for clients, so that the time of each is measured separately.
final class Child implements AutoCloseable {
    private static final int END_S = 30;
    private static final String LISTENING = "listening on ";

    /// Program of a child.
    ///
    /// @param classPath the class path
    /// @param jvm arguments of the virtual machine
    /// @param mainClass what it runs
    record Program(String classPath, List<String> jvm, String mainClass) {
        Program(List<String> jvm, String mainClass) {
            this(System.getProperty("java.class.path"), jvm, mainClass);
        }
    }

    private final Process process;

    Child(Program program, List<String> arguments) throws IOException {
        List<String> command = new ArrayList<>();
        command.add(ProcessHandle.current().info().command().orElseThrow());
        command.addAll(program.jvm());
        command.addAll(List.of("-cp", program.classPath(), program.mainClass()));
        command.addAll(arguments);
        process = new ProcessBuilder(command)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
    }

    /// Runs a program to its end.
    ///
    /// @throws IOException if it fails
    static void run(Program program, List<String> arguments) throws IOException, InterruptedException {
        try (Child child = new Child(program, arguments)) {
            child.output().readAllBytes();
            int code = child.process.waitFor();
            if (code != 0) {
                throw new IOException(program.mainClass() + " " + arguments + " has ended with exit code " + code);
            }
        }
    }

    /// Waits until the child, a server, says `listening on HOST:PORT`.
    InetSocketAddress awaitAddress() throws IOException {
        BufferedReader said = process.inputReader(StandardCharsets.UTF_8);
        String line = said.readLine();
        while (line != null && !line.startsWith(LISTENING)) {
            line = said.readLine(); // the virtual machine has something to say
        }
        if (line == null) {
            throw new IOException("the server has ended before it listened");
        }
        int colon = line.lastIndexOf(':');
        return new InetSocketAddress(
                line.substring(LISTENING.length(), colon), Integer.parseInt(line.substring(colon + 1)));
    }

    /// Sends the next phase to a child that runs clients.
    void tell(Phase phase) throws IOException {
        Writer in = process.outputWriter(StandardCharsets.US_ASCII);
        in.write(phase + "\n");
        in.flush();
    }

    /// Waits for what the child, clients, has seen.
    Results awaitResults() throws IOException {
        try (DataInputStream in = output()) {
            return Results.read(in);
        }
    }

    /// Returns the child's standard output.
    DataInputStream output() {
        return new DataInputStream(process.getInputStream());
    }

    /// The processors' time that it has taken.
    Duration time() {
        return process.info().totalCpuDuration().orElse(Duration.ZERO);
    }

    @Override
    public void close() {
        process.destroy();
        try {
            if (!process.waitFor(END_S, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException interrupted) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }
}
