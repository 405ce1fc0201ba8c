package cedrat.persist.woven.narrowed.app;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import cedrat.persist.woven.narrowed.library.Cache;
import cedrat.persist.woven.narrowed.library.Point;
import cedrat.persist.woven.narrowed.library.Setter;
import cedrat.persist.woven.narrowed.model.Account;
import cedrat.persist.woven.narrowed.model.Place;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;

/// Transactions over objects of three packages, of which one is included, for other processes.
public final class Program {
    private static int count;

    private Program() {}

    /// Runs the method of a name.
    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "restored" -> restored();
            case "refused" -> refused();
            case "created" -> created();
            case "itself" -> itself();
            case "list" -> list();
            case "nested" -> nested();
            case "inherited" -> inherited();
            case "mapped" -> mapped();
            case "stored" -> stored();
            case "initialised" -> initialised();
            default -> throw new IllegalArgumentException("unknown: " + arguments[0]);
        }
    }

    private static void say(Object text) {
        System.out.println(text);
    }

    /// A change within a transaction that is rolled back.
    private interface Change {
        void run() throws Exception;
    }

    private static void rollBack(Change change) throws Exception {
        try (Transaction transaction = Transaction.begin()) {
            change.run();
            transaction.rollback();
        }
    }

    /// Prints why a change is refused, and commits the transaction.
    private static void refuse(Change change) throws Exception {
        try (Transaction transaction = Transaction.begin()) {
            try {
                change.run();
                say("not refused");
            } catch (UnsupportedOperationException e) {
                say("refused: " + e.getMessage());
            }
            transaction.commit();
        } catch (IllegalStateException e) {
            say("not committed: " + e.getMessage());
        }
    }

    private static void restored() throws Exception {
        Account account = new Account();
        Savings savings = new Savings();
        List<Integer> numbers = new ArrayList<>();
        rollBack(() -> {
            account.deposit(5);
            Helper.add(account, 5);
            Helper.add(savings, 5);
            savings.rate = 3;
            numbers.add(1);
            List.of(1, 2).forEach(numbers::add);
        });
        say("account " + account + ", savings " + savings + " " + savings.rate + ", numbers " + numbers);
        say("interfaces " + Account.class.getInterfaces().length + Savings.class.getInterfaces().length
                + Program.class.getInterfaces().length + Point.class.getInterfaces().length);
    }

    private static void refused() throws Exception {
        Point point = new Point();
        Field x = Point.class.getField("x");
        VarHandle y = MethodHandles.lookup().findVarHandle(Point.class, "y", int.class);
        refuse(() -> {
            try {
                point.x = 7;
            } finally {
                // It would throw if the object were locked.
                Thread.ofPlatform().start(() -> point.y++).join();
            }
        });
        refuse(() -> x.setInt(point, 7));
        refuse(() -> y.set(point, 7));
        refuse(() -> Point.made = 7);
        refuse(() -> count = 7);
        refuse(() -> Store.touched(point));
        say("point " + point + ", made " + Point.made + ", count " + count);
        point.x = 8;
        say("outside " + point);
    }

    private static void created() throws Exception {
        try (Transaction transaction = Transaction.begin()) {
            Point point = new Point();
            point.x = 7;
            Place place = new Place();
            place.y = 8;
            transaction.commit();
            say("created " + point + " " + place);
        }
    }

    private static void itself() throws Exception {
        Cache cache = new Cache();
        Point point = new Point();
        rollBack(() -> {
            cache.put("a", 1);
            point.move();
        });
        say("cache " + cache + ", point " + point);
    }

    private static void list() throws Exception {
        Cache.CountingList list = new Cache.CountingList();
        refuse(() -> list.addFirst("a"));
        rollBack(() -> list.add("b"));
        say("list " + list + " " + list.adds());
    }

    private static void nested() throws Exception {
        Account account = new Account();
        Cache.CountingList list = new Cache.CountingList();
        try (Transaction outer = Transaction.begin()) {
            account.deposit(7);
            refuse(() -> {
                account.deposit(2);
                list.addFirst("a");
            });
            say("within " + account + " " + outer.isOpen());
            outer.commit();
        }
        say("nested " + account + " " + list);
    }

    private static void inherited() throws Exception {
        Place place = new Place();
        rollBack(() -> place.visits = 7);
        refuse(() -> place.x = 7);
        say("place " + place + " " + place.visits);
        try (Store store = Store.open(new MemoryGraph().open(), new StoreOptions())) {
            store.setRoot("place", place);
        } catch (StoreException e) {
            say("not stored: " + e.getMessage());
        }
    }

    private static void mapped() throws Exception {
        Account account = new Account();
        Point point = new Point();
        rollBack(() -> {
            Setter.set(account, "balance", 7);
            Setter.set(point, "x", 7);
        });
        say("account " + account + ", point " + point);
    }

    private static void stored() {
        MemoryGraph graph = new MemoryGraph();
        try (Store store = Store.open(graph.open(), new StoreOptions())) {
            Savings savings = store.root("savings", Savings.class, Savings::new);
            Transaction.run(() -> {
                savings.rate = 3;
                savings.owner = new Account();
                savings.partner = new Account();
                savings.partner.deposit(5);
                Helper.add(savings, 7);
            });
        }
        try (Store store = Store.open(graph.open(), new StoreOptions())) {
            Savings savings = store.root("savings", Savings.class);
            say("stored " + savings + " " + savings.rate + ", partner " + Helper.partner(savings) + ", owner "
                    + Owners.of(savings));
            try {
                Helper.add(savings, 1);
            } catch (IllegalStateException e) {
                say("outside of a transaction: " + e.getMessage());
            }
            Transaction.run(() -> Helper.add(Helper.partner(savings), 1));
        }
        try (Store store = Store.open(graph.open(), new StoreOptions())) {
            say("again " + store.root("savings", Savings.class).partner);
        }
    }

    private static void initialised() throws Exception {
        rollBack(() -> say("initialised " + Initialised.isDone()));
        say("registered " + Account.registered);
    }
}
