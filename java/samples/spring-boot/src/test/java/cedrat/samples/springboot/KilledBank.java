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
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.Set;
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
import org.junit.jupiter.api.io.TempDir;

/// An executable jar that is killed again and again while clients move money. A client that got no answer sends its
/// order again, with the same id: each order is carried out once.
abstract class KilledBank {
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
    /// Orders without an answer.
    private final Queue<Transfer> unanswered = new ConcurrentLinkedQueue<>();
    /// Number of orders that were sent again and had been carried out before.
    private int repeated;

    private Process process;
    private BufferedReader said;
    private int port;

    /// Returns the jar.
    abstract String jar();

    /// Returns the options of the virtual machine that start agents.
    abstract List<String> agents();

    /// Whether an order was refused.
    boolean hasRefused() {
        return !refused.isEmpty();
    }

    @BeforeEach
    void start() throws IOException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(List.of("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"));
        command.addAll(agents());
        command.add("-Dcedrat.library=" + System.getProperty("cedrat.library"));
        command.addAll(List.of("-jar", jar()));
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

    void survive(int kills) throws Exception {
        for (int round = 0; round < kills; round++) {
            moveUntilKilled(round);
            start();
            check();
            sendAgain();
            check();
        }
        assertTrue(repeated > 0, "none was repeated");
        assertTrue(carriedOut.size() >= kills, "carried out: " + carriedOut.size());
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
        Transfer transfer = null;
        try {
            for (int number = 0; true; number++) {
                transfer = new Transfer(
                        name + number,
                        OWNERS.get(choices.nextInt(OWNERS.size())),
                        OWNERS.get(choices.nextInt(OWNERS.size())),
                        1 + choices.nextInt(5_000));
                synchronized (sent) {
                    sent.put(transfer.id(), transfer);
                }
                (send(transfer) ? carriedOut : refused).add(transfer.id());
                answers.countDown();
            }
        } catch (IOException e) {
            // The server was killed: whether the last order was carried out is known when it runs again.
            unanswered.add(transfer);
            return null;
        } finally {
            // If all clients have failed, no thread waits for their answers.
            while (answers.getCount() != 0) {
                answers.countDown();
            }
        }
    }

    /// Returns whether an order was carried out, now or before. Otherwise it was refused.
    private boolean send(Transfer transfer) throws IOException, InterruptedException {
        HttpRequest post = request("/transfers")
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(json.writeValueAsString(transfer)))
                .build();
        HttpResponse<String> response = http.send(post, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() != 200) {
            assertEquals(400, response.statusCode(), response.body());
        }
        return response.statusCode() == 200;
    }

    /// Sends the orders without an answer again, and one that was answered by success, as if its answer was lost.
    private void sendAgain() throws Exception {
        Set<String> before = journal().keySet();
        List<Transfer> orders = new ArrayList<>(unanswered);
        unanswered.clear();
        if (!carriedOut.isEmpty()) {
            orders.add(sent.get(carriedOut.peek()));
            carriedOut.add(carriedOut.remove());
        }
        for (Transfer order : orders) {
            boolean isCarriedOut = send(order);
            boolean wasCarriedOut = before.contains(order.id());
            assertTrue(isCarriedOut || !wasCarriedOut, () -> order.id() + " was refused later, seed " + seed);
            repeated += wasCarriedOut ? 1 : 0;
            if (!carriedOut.contains(order.id())) {
                (isCarriedOut ? carriedOut : refused).add(order.id());
            }
        }
    }

    /// The journal has each order that was answered by success, none that was refused, and the balances are those that
    /// it leads to.
    private void check() throws Exception {
        Map<String, Long> balances = new HashMap<>();
        OWNERS.forEach(owner -> balances.put(owner, 10_000L));
        Map<String, Transfer> journal = journal();
        for (Transfer transfer : journal.values()) {
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

    /// Returns the orders that were carried out, by their ids.
    private Map<String, Transfer> journal() throws Exception {
        Map<String, Transfer> journal = new HashMap<>();
        for (Transfer transfer : json.readValue(get("/transfers"), Transfer[].class)) {
            assertEquals(sent.get(transfer.id()), transfer, "seed " + seed);
            assertEquals(null, journal.put(transfer.id(), transfer), "seed " + seed);
        }
        return journal;
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
