package cedrat.persist.woven.jdk;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cedrat.persist.Transaction;
import cedrat.persist.record.TestStore;
import com.sun.net.httpserver.HttpServer;
import java.io.InputStream;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandleProxies;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.logging.Logger;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// J5.1: collections that the JDK keeps for itself, and those that it changes for the program.
@Timeout(60)
class JdkCollectionsTest {
    private interface Use {
        void run(String name) throws Exception;
    }

    /// Uses something in a transaction, while that is open in another thread, and after its rollback.
    private static void assertLeavesNothing(Use use) throws Exception {
        try (var transaction = Transaction.begin()) {
            use.run("first");
            elsewhere(() -> {
                use.run("second");
                return null;
            });
            assertEquals(0, transaction.undoSize());
            transaction.rollback();
        }
        use.run("third");
    }

    private static <T> T elsewhere(Callable<T> work) throws Exception {
        FutureTask<T> task = new FutureTask<>(work);
        Thread.ofPlatform().daemon().start(task);
        return task.get();
    }

    /// J5.1.
    @Test
    void jarResourcesAreReadByAllThreads() throws Exception {
        assertLeavesNothing(name -> {
            InputStream in = Test.class.getResourceAsStream("Test.class");
            assertEquals(0xca, in.read());
        });
    }

    /// J5.1.
    @Test
    void loggersAreGivenToAll() throws Exception {
        assertLeavesNothing(
                name -> Logger.getLogger("cedrat.persist.woven." + name).fine(name));
    }

    /// J5.1.
    @Test
    void hooksAreAddedByAll() throws Exception {
        assertLeavesNothing(name -> {
            Thread hook = Thread.ofPlatform().unstarted(() -> {});
            Runtime.getRuntime().addShutdownHook(hook);
            Runtime.getRuntime().removeShutdownHook(hook);
        });
    }

    /// J5.1.
    @Test
    void threadsOfJdkClientGoOn() throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/", exchange -> {
            exchange.sendResponseHeaders(200, 2);
            exchange.getResponseBody().write(new byte[] {'o', 'k'});
            exchange.close();
        });
        server.start();
        try (HttpClient client = HttpClient.newHttpClient()) {
            URI uri = URI.create("http://" + InetAddress.getLoopbackAddress().getHostAddress() + ":"
                    + server.getAddress().getPort() + "/");
            HttpRequest request = HttpRequest.newBuilder(uri).build();
            assertLeavesNothing(name -> assertEquals(
                    "ok",
                    client.send(request, HttpResponse.BodyHandlers.ofString()).body()));
        } finally {
            server.stop(0);
        }
    }

    /// J5.1: also with classes of the JDK or the program in between.
    @Test
    void changesOfJdkForProgramAreRestored() throws Throwable {
        List<Object> list = new ArrayList<>(List.of("old"));
        MethodHandle add = adding(list);
        List<Callable<?>> changes = List.of(
                () -> new LinkedBlockingQueue<Object>(List.of(1, 2)).drainTo(list),
                () -> "text".chars().boxed().collect(Collectors.toCollection(() -> list)),
                () -> {
                    Pattern.compile("t").matcher("text").results().forEach(list::add);
                    return null;
                },
                () -> {
                    new ConcurrentHashMap<>(Map.of(1, 2)).forEach((key, value) -> list.add(key));
                    return null;
                },
                () -> list.addAll(new ConcurrentHashMap<>(Map.of(1, 2)).keySet()),
                () -> List.class.getMethod("add", Object.class).invoke(list, "by reflection"),
                () -> Collections.addAll(list, 1, 2, 3),
                () -> Collections.checkedList(list, Object.class).add("checked"),
                () -> {
                    try {
                        return (boolean) add.invokeExact();
                    } catch (Throwable e) {
                        throw new AssertionError(e);
                    }
                });
        for (Callable<?> change : changes) {
            try (var transaction = Transaction.begin()) {
                change.call();
                assertEquals(true, list.size() > 1);
                transaction.rollback();
            }
            assertEquals(List.of("old"), list);
        }
    }

    /// J5.1: a collection that the program passes to a call is called by the JDK, and is the program's still.
    @Test
    void changesInJdkCallbacksAreRestored() {
        Map<String, List<Integer>> map = new HashMap<>();
        Map<String, Integer> counts = new TreeMap<>();
        List<Integer> seen = new LinkedList<>();
        try (var transaction = Transaction.begin()) {
            map.computeIfAbsent("a", key -> new ArrayList<>()).add(1);
            counts.merge("a", 1, Integer::sum);
            List.of(3, 1, 2).stream()
                    .sorted((one, other) -> {
                        seen.add(one);
                        return one - other;
                    })
                    .forEach(number -> counts.merge("b", number, Integer::sum));
            transaction.rollback();
        }
        assertEquals("{}{}[]", map + "" + counts + seen);
    }

    /// J5.1: also by code that is no collection. A persistent object is restored, whichever code changes it.
    @Test
    void onlyPersistentChangesOfJdkAreRestored() throws Exception {
        List<Object> own = new ArrayList<>();
        List<Object> kept = new ArrayList<>();
        Callable<?> toOwn = MethodHandleProxies.asInterfaceInstance(Callable.class, adding(own));
        Callable<?> toKept = MethodHandleProxies.asInterfaceInstance(Callable.class, adding(kept));
        try (TestStore store = new TestStore()) {
            store.addPart(kept);
            try (var transaction = Transaction.begin()) {
                new FutureTask<>(toOwn).run();
                assertEquals(0, transaction.undoSize());
                new FutureTask<>(toKept).run();
                assertEquals(List.of("by a handle"), kept);
                transaction.rollback();
            }
            assertEquals(List.of("by a handle"), own);
            assertEquals(List.of(), kept);
            try (var transaction = Transaction.begin()) {
                toOwn.call();
                transaction.rollback();
            }
            assertEquals(1, own.size());
        }
    }

    private static MethodHandle adding(List<Object> list) throws ReflectiveOperationException {
        MethodHandle add = MethodHandles.lookup()
                .findVirtual(List.class, "add", MethodType.methodType(boolean.class, Object.class));
        return MethodHandles.insertArguments(add.bindTo(list), 0, "by a handle");
    }

    /// J5.1: a refusal is for the program, not for the JDK.
    @Test
    void refusedChangeIsRefusedByViewToo() {
        var set = Collections.newSetFromMap(new ConcurrentHashMap<String, Boolean>());
        try (var transaction = Transaction.begin()) {
            assertThrows(UnsupportedOperationException.class, () -> set.add("text"));
            transaction.rollback();
        }
    }
}
