import cedrat.persist.Persistence;
import cedrat.persist.PersistenceOptions;
import cedrat.persist.Transaction;
import java.nio.file.Path;

class Counter {
    int starts;

    public static void main(String[] arguments) {
        try (var store = Persistence.open(Path.of("counter"), new PersistenceOptions())) {
            if (!store.restarted()) {
                store.mark("counter", new Counter());
            }
            Counter counter = store.lookup("counter");
            Transaction.run(() -> counter.starts++);
            System.out.println("started " + counter.starts + " times");
        }
    }
}
