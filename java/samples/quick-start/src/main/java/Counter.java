import cedrat.persist.Store;
import cedrat.persist.Transaction;
import java.nio.file.Path;

class Counter {
    int starts;

    public static void main(String[] arguments) {
        try (var store = Store.open(Path.of("counter"))) {
            Counter counter = store.root("counter", Counter.class, Counter::new);
            Transaction.run(() -> counter.starts++);
            System.out.println("started " + counter.starts + " times");
        }
    }
}
