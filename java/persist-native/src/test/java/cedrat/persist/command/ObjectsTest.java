package cedrat.persist.command;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collections;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Objects stored by Java, as `cedrat objects` shows them: the writer and the reader of the bytes have only their
/// documentation in common.
class ObjectsTest {
    /// Beside the library.
    private static final Path COMMAND =
            Path.of(System.getProperty("cedrat.library", "")).toAbsolutePath().resolveSibling("cedrat");

    private static final Pattern IDENTITY = Pattern.compile("\"identity\":\"(\\d+:\\d+)\"");

    @TempDir
    Path folder;

    enum Color {
        RED,
        GREEN
    }

    record Point(int x, double y, Object near) {}

    static class Account {
        long balance;
        Person owner;
    }

    static final class Savings extends Account {
        boolean closed;
        int balance;
        char letter;
        float rate;
        Color color;
    }

    static final class Person {
        String name;
        final List<Account> accounts = new ArrayList<>();
    }

    @BeforeEach
    void theCommandIsBuilt() {
        assumeTrue(Files.isExecutable(COMMAND), COMMAND + " is not there: `cargo build --release -p cedrat-cli`");
    }

    private static Person ada() {
        Person ada = new Person();
        ada.name = "Ada €";
        Savings savings = new Savings();
        ((Account) savings).balance = -5_000_000_000L;
        savings.balance = 7;
        savings.closed = true;
        savings.letter = 'é';
        savings.rate = 0.5f;
        savings.color = Color.GREEN;
        savings.owner = ada;
        ada.accounts.add(savings);
        ada.accounts.add(null);
        return ada;
    }

    private static Map<String, Object> things() {
        Map<String, Object> things = new TreeMap<>();
        things.put("array", new Object[] {1, (byte) -2, 'x', 3L, 0.25, Long.MIN_VALUE, 0.1, List.of()});
        things.put("bits", bits());
        things.put("colors", new EnumMap<>(Map.of(Color.RED, "rot")));
        things.put("date", LocalDate.of(2026, 1, 2));
        things.put("decimal", new BigDecimal("-12.50"));
        things.put("id", new UUID(1, -1));
        things.put("integer", BigInteger.TEN.pow(30).negate());
        things.put("ints", new int[][] {{1, -2}, {}});
        things.put("locale", Locale.CANADA_FRENCH);
        things.put("optional", Optional.of(new StringBuilder("text")));
        things.put("point", new Point(3, Double.NaN, Arrays.asList("a", "b")));
        things.put("unmodifiable", Collections.unmodifiableMap(new HashMap<>(Map.of(1, true))));
        return things;
    }

    private static BitSet bits() {
        BitSet bits = new BitSet();
        bits.set(1);
        bits.set(70);
        return bits;
    }

    /// Runs the command over the store.
    private String cedrat(String... arguments) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(COMMAND.toString(), "objects", folder.toString()));
        command.addAll(List.of(arguments));
        Path errors = Files.createTempFile("cedrat", ".err");
        Process process =
                new ProcessBuilder(command).redirectError(errors.toFile()).start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), () -> said + readable(errors));
        Files.delete(errors);
        return said.strip();
    }

    private static String readable(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    /// JSON with identities numbered as they are met, and the name of this class left out.
    private static String numbered(String json) {
        Map<String, String> numbers = new HashMap<>();
        Matcher matcher = IDENTITY.matcher(json.replace(ObjectsTest.class.getName() + "$", ""));
        return matcher.replaceAll(found ->
                "\"#\":" + numbers.computeIfAbsent(found.group(1), identity -> Integer.toString(numbers.size() + 1)));
    }

    private static String field(String name, String of, String type, String value) {
        return "{\"name\":\"" + name + "\",\"of\":\"" + of + "\",\"type\":\"" + type + "\",\"value\":" + value + "}";
    }

    private static String string(String value) {
        return "{\"class\":\"java.lang.String\",\"#\":N,\"value\":\"" + value + "\"}";
    }

    private static String entry(String key, int value) {
        return "{\"key\":" + string(key) + ",\"value\":{\"class\":\"java.lang.Integer\",\"value\":" + value + "}}";
    }

    @Test
    void objectsOfAProgramAreShown() throws Exception {
        try (Store persistence = Store.open(folder, new StoreOptions())) {
            persistence.setRoot("ada", ada());
        }
        String savings = "{\"class\":\"Savings\",\"fields\":["
                + field("balance", "Account", "long", "-5000000000")
                + "," + field("balance", "Savings", "int", "7")
                + "," + field("rate", "Savings", "float", "0.5")
                + "," + field("letter", "Savings", "char", "\"é\"")
                + "," + field("closed", "Savings", "boolean", "true")
                + "," + field("owner", "Account", "Person", "{\"class\":\"Person\",\"#\":2,\"shown\":true}")
                + "," + field("color", "Savings", "Color", "{\"class\":\"Color\",\"value\":\"GREEN\"}")
                + "],\"#\":3}";
        String list = "{\"class\":\"java.util.ArrayList\",\"elements\":[" + savings + ",null],\"#\":4,\"length\":2}";
        String name = "{\"class\":\"java.lang.String\",\"#\":1,\"value\":\"Ada €\"}";
        String expected = "{\"class\":\"Person\",\"fields\":["
                + field("name", "Person", "java.lang.String", name)
                + "," + field("accounts", "Person", "java.util.List", list) + "],\"#\":2,\"ok\":true}";
        assertEquals(expected, numbered(cedrat("show", "ada", "--json")));
    }

    @Test
    void objectsOfTheJdkAreShown() throws Exception {
        Map<String, Object> linked = new LinkedHashMap<>();
        linked.put("first", 1);
        linked.put("second", 2);
        linked.put("third", 3);
        List<Object> deque = new LinkedList<>(List.of("a", "b"));
        try (Store persistence = Store.open(folder, new StoreOptions())) {
            Map<String, Object> things = things();
            things.put("linked", linked);
            things.put("list", deque);
            persistence.setRoot("things", things);
            // Entries come to where others have been.
            Transaction.run(() -> {
                linked.remove("first");
                deque.removeFirst();
                things.remove("bits");
            });
            Transaction.run(() -> {
                linked.put("fourth", 4);
                deque.addFirst("c");
                deque.addLast("d");
                things.put("again", bits());
            });
        }
        String shown = numbered(cedrat("show", "things", "--json", "--depth", "9"));
        List<String> expected = List.of(
                "[{\"class\":\"java.lang.Integer\",\"value\":1},{\"class\":\"java.lang.Byte\",\"value\":-2},"
                        + "{\"class\":\"java.lang.Character\",\"value\":\"x\"},{\"class\":\"java.lang.Long\",\"value\":3},"
                        + "{\"class\":\"java.lang.Double\",\"value\":0.25},",
                "\"class\":\"java.lang.Long\",\"#\":N,\"value\":\"-9223372036854775808\"",
                "\"class\":\"java.lang.Double\",\"#\":N,\"value\":\"0.1\"",
                "{\"value\":\"List.of()\"}],\"#\":N,\"length\":8}",
                "{\"class\":\"java.util.LinkedHashMap\",\"entries\":[" + entry("second", 2) + "," + entry("third", 3)
                        + "," + entry("fourth", 4) + "],",
                "{\"class\":\"java.util.LinkedList\",\"elements\":[" + string("c") + "," + string("b") + ","
                        + string("d") + "],",
                "\"class\":\"java.util.BitSet\",\"#\":N,\"value\":\"{1, 70}\"",
                "\"class\":\"java.util.EnumMap\",\"entries\":[{\"key\":{\"class\":\"Color\",\"value\":\"RED\"},",
                "\"value\":\"2026-01-02\"",
                "\"value\":\"-12.50\"",
                "\"value\":\"00000000-0000-0001-ffff-ffffffffffff\"",
                "\"value\":\"-1000000000000000000000000000000\"",
                "{\"class\":\"[I\",\"elements\":[1,-2],\"#\":N,\"length\":2}",
                "\"value\":\"fr-CA\"",
                "\"fields\":[{\"name\":\"get()\",\"value\":{\"class\":\"java.lang.StringBuilder\",\"#\":N,\"value\":\"text\"}}]",
                field("y", "Point", "double", "\"NaN\""),
                "\"class\":\"java.util.Arrays.asList\",\"fields\":[{\"name\":\"wrapped\",",
                "\"class\":\"java.util.Collections.unmodifiableMap\",\"fields\":[{\"name\":\"wrapped\",",
                "{\"key\":{\"class\":\"java.lang.Integer\",\"value\":1},\"value\":{\"class\":\"java.lang.Boolean\",\"value\":true}}");
        String compared = shown.replaceAll("\"#\":\\d+", "\"#\":N");
        for (String part : expected) {
            assertTrue(compared.contains(part), () -> part + " is not in " + compared);
        }
    }

    @Test
    void unreachableIsCountedAndRestHasPath() throws Exception {
        try (Store persistence = Store.open(folder, new StoreOptions())) {
            Person ada = ada();
            persistence.setRoot("ada", ada);
            Transaction.run(() -> ada.accounts.set(1, new Account()));
            Transaction.run(() -> ada.accounts.set(1, null));
        }
        String summary = cedrat("--json");
        assertTrue(summary.contains("\"unreached_bytes\":24,\"unreached_objects\":1}"), summary);
        assertTrue(
                summary.contains("\"class\":\"" + Account.class.getName() + "\",\"definition\":"),
                () -> "the account that is forgotten has a class: " + summary);
        Matcher list = Pattern.compile("ArrayList (\\d+:\\d+), 2 elements\n *\\[0] \\S+ (\\d+:\\d+)")
                .matcher(cedrat("show", "ada"));
        assertTrue(list.find(), "the list has an account");
        String why = cedrat("why", list.group(2));
        assertTrue(why.contains("ada → accounts → [0]\n"), why);
        String classes = cedrat("classes");
        assertTrue(
                classes.contains("class " + Savings.class.getName() + " extends " + Account.class.getName() + " ("),
                classes);
        assertTrue(classes.contains("enum " + Color.class.getName() + "\n         RED\n         GREEN"), classes);
    }
}
