package cedrat.samples.springboot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// The executable jar with the agent, beside JaCoCo's, is killed again and again while clients move money.
class KilledBankTest {
    private static final int CLIENTS = 4;
    private static final int ANSWERS_MAX = 60;
    private static final Pattern STARTED = Pattern.compile("Tomcat started on port (\\d+)");
    private static final List<String> OWNERS = List.of("ada", "bob", "eve", "ken");

    @TempDir
    Path folder;

    private final long seed = new Random().nextLong();
    private final Random random = new Random(seed);
    private final ObjectMapper json = new ObjectMapper();
    private final HttpClient http = HttpClient.newHttpClient();
    /// Orders that were sent, by their ids, and those of them that were answered by success or refusal.
    private final Map<String, Transfer> sent = new TreeMap<>();

    private final Queue<String> carriedOut = new ConcurrentLinkedQueue<>();
    private final Queue<String> refused = new ConcurrentLinkedQueue<>();
    private Process process;
    private BufferedReader said;
    private int port;

    @BeforeEach
    void start() throws IOException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(List.of("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"));
        String coverage = folder.resolve("jacoco.exec").toString();
        command.add("-javaagent:" + System.getProperty("cedrat.agent") + "=exclude=org.springframework");
        command.add("-javaagent:" + jacoco() + "=includes=cedrat.samples.*,destfile=" + coverage);
        command.add("--enable-native-access=ALL-UNNAMED");
        command.add("-Dcedrat.library=" + System.getProperty("cedrat.library"));
        command.addAll(List.of("-jar", System.getProperty("bank.jar")));
        command.addAll(List.of("--server.port=0", "--bank.store=" + folder.resolve("bank")));
        process = new ProcessBuilder(command).redirectErrorStream(true).start();
        said = process.inputReader();
        StringBuilder all = new StringBuilder();
        for (String line = said.readLine(); line != null; line = said.readLine()) {
            all.append(line).append('\n');
            Matcher matcher = STARTED.matcher(line);
            if (matcher.find()) {
                port = Integer.parseInt(matcher.group(1));
                Thread.ofVirtual().start(this::read);
                return;
            }
        }
        throw new AssertionError("the bank did not start, seed " + seed + ":\n" + all);
    }

    private static String jacoco() {
        for (String path : System.getProperty("java.class.path").split(":")) {
            if (path.contains("org.jacoco.agent") && Files.exists(Path.of(path))) {
                return path;
            }
        }
        throw new AssertionError("JaCoCo's agent is not on the class path");
    }

    /// So that the process does not wait for its reader.
    private void read() {
        try (BufferedReader lines = said) {
            while (lines.readLine() != null) {}
        } catch (IOException e) {
            // It was killed.
            return;
        }
    }

    @AfterEach
    void kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    @Test
    void modelSurvivesKills() throws Exception {
        survive(20);
    }

    @Test
    @Tag("soak")
    void modelSurvivesTwoHundredKills() throws Exception {
        survive(200);
    }

    private void survive(int kills) throws Exception {
        for (int round = 0; round < kills; round++) {
            moveUntilKilled(round);
            start();
            check();
        }
        assertTrue(carriedOut.size() > kills, "carried out: " + carriedOut.size());
        assertTrue(!refused.isEmpty(), "none was refused");
    }

    private HttpRequest.Builder request(String path) {
        return HttpRequest.newBuilder(URI.create("http://localhost:" + port + path));
    }

    private void moveUntilKilled(int round) throws Exception {
        CountDownLatch answers = new CountDownLatch(1 + random.nextInt(ANSWERS_MAX));
        try (ExecutorService threads = Executors.newCachedThreadPool()) {
            List<Future<Void>> clients = new ArrayList<>();
            for (int client = 0; client < CLIENTS; client++) {
                Random choices = new Random(random.nextLong());
                String name = round + "." + client + ".";
                clients.add(threads.submit(() -> move(name, choices, answers)));
            }
            answers.await();
            kill();
            for (Future<Void> client : clients) {
                client.get();
            }
        }
    }

    /// Sends orders until there is no server.
    private Void move(String name, Random choices, CountDownLatch answers) throws InterruptedException {
        try {
            for (int number = 0; true; number++) {
                Transfer transfer = new Transfer(
                        name + number,
                        OWNERS.get(choices.nextInt(OWNERS.size())),
                        OWNERS.get(choices.nextInt(OWNERS.size())),
                        1 + choices.nextInt(5_000));
                synchronized (sent) {
                    sent.put(transfer.id(), transfer);
                }
                HttpRequest post = request("/transfers")
                        .header("Content-Type", "application/json")
                        .POST(HttpRequest.BodyPublishers.ofString(json.writeValueAsString(transfer)))
                        .build();
                HttpResponse<String> response = http.send(post, HttpResponse.BodyHandlers.ofString());
                if (response.statusCode() == 200) {
                    carriedOut.add(transfer.id());
                } else {
                    assertEquals(400, response.statusCode(), response.body());
                    refused.add(transfer.id());
                }
                answers.countDown();
            }
        } catch (IOException e) {
            // The server was killed: whether the last order was carried out is known when it runs again.
            return null;
        } finally {
            // If all clients have failed, no thread waits for their answers.
            while (answers.getCount() != 0) {
                answers.countDown();
            }
        }
    }

    /// The journal has each order that was answered by success, none that was refused, and the balances are those that
    /// it leads to.
    private void check() throws Exception {
        Map<String, Long> balances = new HashMap<>();
        OWNERS.forEach(owner -> balances.put(owner, 10_000L));
        Map<String, Transfer> journal = new HashMap<>();
        String transfers = get("/transfers");
        for (Transfer transfer : json.readValue(transfers, Transfer[].class)) {
            assertEquals(sent.get(transfer.id()), transfer, "seed " + seed);
            assertEquals(null, journal.put(transfer.id(), transfer), "seed " + seed);
            balances.merge(transfer.from(), -transfer.cents(), Long::sum);
            balances.merge(transfer.to(), transfer.cents(), Long::sum);
        }
        for (String id : carriedOut) {
            assertNotNull(journal.get(id), () -> id + " was lost, seed " + seed);
        }
        for (String id : refused) {
            assertEquals(null, journal.get(id), "seed " + seed);
        }
        assertEquals(new TreeMap<>(balances).toString(), accounts(), "seed " + seed);
    }

    private String accounts() throws Exception {
        Map<String, Long> found = new TreeMap<>();
        json.readTree(get("/accounts"))
                .properties()
                .forEach(one -> found.put(one.getKey(), one.getValue().asLong()));
        return found.toString();
    }

    private String get(String path) throws Exception {
        HttpResponse<String> response = http.send(request(path).build(), HttpResponse.BodyHandlers.ofString());
        assertEquals(200, response.statusCode(), response.body());
        return response.body();
    }
}
