package cedrat.persist.woven.weave;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/// A program that stores, rolls back and opens its store again, for other processes.
final class Reopened {
    private static int changes;

    private final String name;
    private long balance;
    private Reopened partner;
    private final List<String> notes = new ArrayList<>();
    private final Map<String, Reopened> friends = new HashMap<>();

    private Reopened(String name) {
        this.name = name;
    }

    private void pay(Reopened to, long amount) {
        balance -= amount;
        to.balance += amount;
        notes.add("paid " + amount);
        to.notes.add("got " + amount);
        friends.put(to.name, to);
        changes++;
    }

    @Override
    public String toString() {
        return name + " " + balance + " " + notes + " " + friends.keySet();
    }

    public static void main(String[] arguments) {
        MemoryGraph graph = new MemoryGraph();
        try (Store store = Store.open(graph.open(), new StoreOptions())) {
            Reopened anna = store.root("anna", Reopened.class, () -> new Reopened("Anna"));
            Transaction.run(() -> anna.partner = new Reopened("Ben"));
            Transaction.run(() -> anna.pay(anna.partner, 5));
            try (Transaction transaction = Transaction.begin()) {
                anna.pay(anna.partner, 7);
                anna.partner = null;
                transaction.rollback();
            }
        }
        try (Store store = Store.open(graph.open(), new StoreOptions())) {
            Reopened anna = store.root("anna", Reopened.class);
            System.out.println(anna + ", " + anna.partner + ", changes " + changes);
        }
    }
}
