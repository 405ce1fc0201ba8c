package cedrat.persist.libraries;

import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.FutureTask;
import org.mockito.Mockito;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// Calls of a logger, of a mapper and of a mock in transactions that are rolled back.
///
/// Arguments: the directory of the store, and what is called.
final class Infrastructure {
    /// An object that is written as JSON.
    public static final class Order {
        public String customer = "a";
        public List<Integer> lines = List.of(1, 2);
    }

    private static final Logger LOGGER = LoggerFactory.getLogger(Infrastructure.class);
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private final TreeMap<String, Integer> counts = new TreeMap<>();
    private final Order order = new Order();

    private Infrastructure() {}

    public static void main(String[] arguments) throws Exception {
        try (Store store = Store.open(Path.of(arguments[0]), new StoreOptions())) {
            Infrastructure program = new Infrastructure();
            store.setRoot("counts", program.counts);
            store.setRoot("order", program.order);
            switch (arguments[1]) {
                case "log" ->
                    program.repeat(() -> LOGGER.info("count {} of {}", program.counts, program.order.customer));
                case "map" -> program.map();
                default -> program.mock();
            }
        }
    }

    private interface Work {
        void run() throws Exception;
    }

    /// Runs work in a transaction that is rolled back, at the same time outside of it, in one that commits, and in
    /// none.
    private void repeat(Work work) throws Exception {
        int changes = 0;
        try (Transaction transaction = Transaction.begin()) {
            changes++;
            counts.put("a", 5);
            order.customer = "b";
            work.run();
            FutureTask<Void> outside = new FutureTask<>(() -> {
                work.run();
                return null;
            });
            new Thread(outside).start();
            outside.get();
            transaction.rollback();
        }
        System.out.println(counts + " " + order.customer + " " + changes);
        Transaction.run(() -> {
            counts.put("a", 6);
            work.run();
        });
        work.run();
        System.out.println(counts);
    }

    private void map() throws Exception {
        repeat(() -> {
            System.out.println(MAPPER.writeValueAsString(order));
            Order read = MAPPER.readValue("{\"customer\":\"c\",\"lines\":[3]}", Order.class);
            System.out.println(read.customer + read.lines + new ObjectMapper().readTree("[1]"));
        });
    }

    @SuppressWarnings("unchecked")
    private void mock() throws Exception {
        Comparator<String> mock = Mockito.mock(Comparator.class);
        Mockito.when(mock.compare("a", "b")).thenReturn(7);
        repeat(() -> System.out.println(mock.compare("a", "b")));
        Mockito.verify(mock, Mockito.times(4)).compare("a", "b");
    }
}
