// A program as Lombok makes it: accessors, builders, copies, and fields of its own in the classes.

import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import lombok.AllArgsConstructor;
import lombok.Builder;
import lombok.Data;
import lombok.EqualsAndHashCode;
import lombok.Getter;
import lombok.NonNull;
import lombok.Singular;
import lombok.Synchronized;
import lombok.ToString;
import lombok.Value;
import lombok.With;

public class Orders {
    @Data
    static class Customer {
        private final String name;
        private int orders;
        private List<Order> list = new ArrayList<>();
    }

    @Data
    @Builder
    @AllArgsConstructor
    static class Order {
        @NonNull
        @ToString.Exclude
        @EqualsAndHashCode.Exclude
        private Customer customer;

        @Singular
        private List<Line> lines;

        @Builder.Default
        private String state = "open";
    }

    @Value
    @With
    @Builder(toBuilder = true)
    static class Line {
        String item;
        int count;
    }

    /// The hash code, the total and the lock are in fields that Lombok adds.
    @Value
    @EqualsAndHashCode(cacheStrategy = EqualsAndHashCode.CacheStrategy.LAZY)
    static class Key {
        String part;
        String number;
    }

    static class Report {
        private int calls;

        @Getter(lazy = true)
        private final String title = "report " + new StringBuilder("1");

        @Synchronized
        int call() {
            return ++calls;
        }
    }

    @Data
    static class Shop {
        private Customer customer = new Customer("Ann");
        private Set<Key> keys = new HashSet<>();
        private Report report = new Report();
    }

    private static void order(Shop shop) {
        Transaction.run(() -> {
            Customer customer = shop.getCustomer();
            Line line = Line.builder().item("pen").count(2).build();
            Order order = Order.builder()
                    .customer(customer)
                    .line(line)
                    .line(line.withCount(3).toBuilder().item("ink").build())
                    .build();
            customer.getList().add(order);
            customer.setOrders(customer.getOrders() + 1);
            Key key = new Key("part", "" + customer.getOrders());
            key.hashCode();
            shop.getKeys().add(key);
            shop.getReport().call();
            shop.getReport().getTitle();
        });
    }

    public static void main(String[] arguments) {
        try (Store store = Store.open(Path.of(arguments[0]), new StoreOptions())) {
            if (arguments[1].equals("create")) {
                Transaction.run(() -> store.setRoot("shop", new Shop()));
            }
            Shop shop = store.root("shop", Shop.class);
            order(shop);
            try {
                Transaction.run(() -> {
                    shop.getCustomer().setOrders(100);
                    Order.builder().build();
                });
                throw new AssertionError("a customer is missing");
            } catch (NullPointerException expected) {
                // By @NonNull; the transaction is rolled back.
            }
            Customer customer = shop.getCustomer();
            Order last = customer.getList().getLast();
            System.out.println(customer.getOrders() + " " + last + " "
                    + last.equals(customer.getList().getFirst()) + " "
                    + shop.getKeys().contains(new Key("part", "1")) + " "
                    + shop.getReport().getTitle() + " " + shop.getReport().calls);
        }
    }
}
